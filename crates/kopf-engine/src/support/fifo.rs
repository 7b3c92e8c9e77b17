//! A lane of those who wait, which gives back the room of a burst when the burst is over.

use std::collections::VecDeque;

/// Room that is kept in any case.
const ROOM_AT_LEAST: usize = 1024;

/// First in, first out.
pub(crate) struct Lane<T>(VecDeque<T>);

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Lane<T> {
    pub fn push_back(&mut self, item: T) {
        self.0.push_back(item);
    }

    pub fn pop_front(&mut self) -> Option<T> {
        let item = self.0.pop_front();
        if self.0.capacity() > ROOM_AT_LEAST && self.0.len() < self.0.capacity() / 4 {
            self.0.shrink_to((self.0.len() * 2).max(ROOM_AT_LEAST));
        }
        item
    }

    pub fn front(&self) -> Option<&T> {
        self.0.front()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_of_a_burst_is_given_back() {
        let mut lane = Lane::default();
        (0..50_000).for_each(|number| lane.push_back(number));
        let taken: Vec<i32> = std::iter::from_fn(|| lane.pop_front()).collect();
        assert_eq!(taken, (0..50_000).collect::<Vec<_>>());
        assert!(lane.is_empty() && lane.0.capacity() <= ROOM_AT_LEAST, "{}", lane.0.capacity());
    }
}
