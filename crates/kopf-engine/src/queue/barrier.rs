//! 4. The readiness barrier: no handler is called before the indexes are complete.
//!
//! A stream of an indexed resource holds the barrier from its start until all objects of its first listing are indexed.
//! The queue keeps the objects that wait for it.

use std::sync::Arc;

use crate::support::ResourceKey;

/// What an object holds until it is indexed for the first time.
pub(super) type Token = Arc<()>;

#[derive(Default)]
pub(super) struct ReadinessBarrier {
    streams: Vec<Holding>,
    /// Held while streams are being started, so that none of them is overtaken by the others.
    blockers: usize,
    /// Whether it was closed when somebody looked last.
    closed: bool,
}

/// A stream that holds the barrier.
struct Holding {
    resource: ResourceKey,
    stream: u64,
    /// Clones are with the objects that are not indexed yet.
    token: Token,
    listed: bool,
}

impl ReadinessBarrier {
    pub(super) fn is_open(&self) -> bool {
        self.streams.is_empty() && self.blockers == 0
    }

    pub(super) fn block(&mut self) {
        (self.blockers, self.closed) = (self.blockers + 1, true);
    }

    pub(super) fn unblock(&mut self) {
        self.blockers = self.blockers.saturating_sub(1);
    }

    /// The stream is about to start, and what it lists is to be waited for.
    pub(super) fn hold(&mut self, resource: ResourceKey, stream: u64) {
        // It may hold the barrier already: a pause came before it was listed.
        self.release(resource, Some(stream));
        self.streams.push(Holding { resource, stream, token: Token::default(), listed: false });
        self.closed = true;
    }

    /// For an object that has come by this stream; None if the stream does not hold the barrier (any more).
    pub(super) fn token(&self, resource: ResourceKey, stream: u64) -> Option<Token> {
        self.streams
            .iter()
            .find(|one| (one.resource, one.stream) == (resource, stream))
            .map(|one| Arc::clone(&one.token))
    }

    /// The listing is over: the barrier waits only for the objects that it has shown.
    pub(super) fn listed(&mut self, resource: ResourceKey, stream: u64) {
        let holding = self.streams.iter_mut().find(|one| (one.resource, one.stream) == (resource, stream));
        if let Some(holding) = holding {
            holding.listed = true;
        }
    }

    /// The streams are not served any more: all of a kind, or one.
    pub(super) fn release(&mut self, resource: ResourceKey, stream: Option<u64>) {
        self.streams.retain(|one| one.resource != resource || stream.is_some_and(|stream| one.stream != stream));
    }

    /// Lets go of the streams that are done. Returns true once whenever that opens the barrier.
    pub(super) fn opens(&mut self) -> bool {
        self.streams.retain(|one| !(one.listed && Arc::strong_count(&one.token) == 1));
        self.is_open() && std::mem::take(&mut self.closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_objects_wait_until_indexes_are_complete() {
        let mut barrier = ReadinessBarrier::default();
        assert!(barrier.is_open() && !barrier.opens());
        barrier.block();
        barrier.hold(ResourceKey::new(1), 1);
        barrier.hold(ResourceKey::new(1), 2);
        barrier.unblock();
        let (first, second) = (barrier.token(ResourceKey::new(1), 1), barrier.token(ResourceKey::new(1), 2));
        assert!(first.is_some() && second.is_some() && barrier.token(ResourceKey::new(2), 1).is_none());
        barrier.listed(ResourceKey::new(1), 1);
        assert!(!barrier.opens(), "an object is not indexed yet");
        drop(first);
        assert!(!barrier.opens(), "the other stream is not listed yet");
        barrier.listed(ResourceKey::new(1), 2);
        drop(second);
        assert!(!barrier.is_open());
        assert!(barrier.opens() && barrier.is_open() && !barrier.opens());
    }

    #[test]
    fn streams_that_are_not_served_any_more_hold_nothing() {
        let mut barrier = ReadinessBarrier::default();
        for (number, stream) in [(1, 1), (1, 2), (2, 3)] {
            barrier.hold(ResourceKey::new(number), stream);
        }
        barrier.release(ResourceKey::new(1), Some(1));
        barrier.release(ResourceKey::new(2), None);
        assert!(!barrier.opens());
        barrier.release(ResourceKey::new(1), None);
        assert!(barrier.opens());
        barrier.block();
        assert!(!barrier.is_open());
        barrier.unblock();
        assert!(barrier.opens());
    }
}
