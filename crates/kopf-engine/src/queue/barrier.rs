//! The gate between indexing and everything else: no handler is called before the indexes are complete.
//!
//! A stream of an indexed kind holds the gate from its start until all that its first listing has shown is indexed.
//! What waits behind the gate is the queue's own business.

use std::sync::Arc;

/// What an object holds as long as it is to be indexed for the first time.
pub(super) type Token = Arc<()>;

#[derive(Default)]
pub(super) struct Gate {
    streams: Vec<Holding>,
    /// Held while streams are being started, so that none of them is overtaken by the others.
    blockers: usize,
    /// As it was last told.
    closed: bool,
}

/// A stream that holds the gate.
struct Holding {
    kind: u64,
    stream: u64,
    /// Clones are with the objects that are not indexed yet.
    token: Token,
    listed: bool,
}

impl Gate {
    pub fn is_open(&self) -> bool {
        self.streams.is_empty() && self.blockers == 0
    }

    pub fn block(&mut self) {
        (self.blockers, self.closed) = (self.blockers + 1, true);
    }

    pub fn unblock(&mut self) {
        self.blockers = self.blockers.saturating_sub(1);
    }

    /// The stream is about to start, and what it lists is to be waited for.
    pub fn hold(&mut self, kind: u64, stream: u64) {
        // It may hold the gate already: a pause came before it was listed.
        self.release(kind, Some(stream));
        self.streams.push(Holding { kind, stream, token: Token::default(), listed: false });
        self.closed = true;
    }

    /// For an object that has come by this stream; None if the stream does not hold the gate (any more).
    pub fn token(&self, kind: u64, stream: u64) -> Option<Token> {
        self.streams.iter().find(|one| (one.kind, one.stream) == (kind, stream)).map(|one| Arc::clone(&one.token))
    }

    /// The listing is over: there is nothing more to wait for than what it has shown.
    pub fn listed(&mut self, kind: u64, stream: u64) {
        let holding = self.streams.iter_mut().find(|one| (one.kind, one.stream) == (kind, stream));
        if let Some(holding) = holding {
            holding.listed = true;
        }
    }

    /// The streams are not served any more: all of a kind, or one.
    pub fn release(&mut self, kind: u64, stream: Option<u64>) {
        self.streams.retain(|one| one.kind != kind || stream.is_some_and(|stream| one.stream != stream));
    }

    /// Lets the streams go that are done. Tells once whenever that opens the gate.
    pub fn opens(&mut self) -> bool {
        self.streams.retain(|one| !(one.listed && Arc::strong_count(&one.token) == 1));
        self.is_open() && std::mem::take(&mut self.closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_when_all_that_was_listed_is_indexed() {
        let mut gate = Gate::default();
        assert!(gate.is_open() && !gate.opens());
        gate.block();
        gate.hold(1, 1);
        gate.hold(1, 2);
        gate.unblock();
        let (first, second) = (gate.token(1, 1), gate.token(1, 2));
        assert!(first.is_some() && second.is_some() && gate.token(2, 1).is_none());
        gate.listed(1, 1);
        assert!(!gate.opens(), "an object is not indexed yet");
        drop(first);
        assert!(!gate.opens(), "the other stream is not listed yet");
        gate.listed(1, 2);
        drop(second);
        assert!(!gate.is_open());
        assert!(gate.opens() && gate.is_open() && !gate.opens());
    }

    #[test]
    fn what_is_not_served_any_more_holds_nothing() {
        let mut gate = Gate::default();
        for (kind, stream) in [(1, 1), (1, 2), (2, 3)] {
            gate.hold(kind, stream);
        }
        gate.release(1, Some(1));
        gate.release(2, None);
        assert!(!gate.opens());
        gate.release(1, None);
        assert!(gate.opens());
        gate.block();
        assert!(!gate.is_open());
        gate.unblock();
        assert!(gate.opens());
    }
}
