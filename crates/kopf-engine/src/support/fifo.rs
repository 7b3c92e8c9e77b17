//! A queue that returns the memory of a burst when the burst is over. For the objects and timers that wait.

use std::collections::VecDeque;

/// Capacity that is always kept.
const CAPACITY_AT_LEAST: usize = 1024;

/// First in, first out.
pub(crate) struct Fifo<T>(VecDeque<T>);

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Fifo<T> {
    pub(crate) fn push_back(&mut self, item: T) {
        self.0.push_back(item);
    }

    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let item = self.0.pop_front();
        if self.0.capacity() > CAPACITY_AT_LEAST && self.0.len() < self.0.capacity() / 4 {
            self.0.shrink_to((self.0.len() * 2).max(CAPACITY_AT_LEAST));
        }
        item
    }

    pub(crate) fn front(&self) -> Option<&T> {
        self.0.front()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_burst_is_returned() {
        let mut fifo = Fifo::default();
        (0..50_000).for_each(|number| fifo.push_back(number));
        let taken: Vec<i32> = std::iter::from_fn(|| fifo.pop_front()).collect();
        assert_eq!(taken, (0..50_000).collect::<Vec<_>>());
        assert!(fifo.is_empty() && fifo.0.capacity() <= CAPACITY_AT_LEAST, "{}", fifo.0.capacity());
    }
}
