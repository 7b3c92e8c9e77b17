//! Time and randomness of a cluster, in one place.
//!
//! The clock follows tokio's clock: in a test with paused time, hours pass in milliseconds, in the timestamps
//! of objects, too. Tests in other languages can advance it. Everything that waits in a cluster waits by this
//! clock. Random names and uids come from a seed, so that a run can be repeated.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp, Unit};
use tokio::sync::watch;
use tokio::time::Instant;

/// The time of a cluster: the wall clock at its start, advanced by tokio's clock and by tests.
#[derive(Debug)]
pub(crate) struct Clock {
    /// The wall clock when the cluster was made.
    base: Timestamp,
    /// Tokio's clock at the same moment.
    start: Instant,
    /// How far tests have advanced it; waiting tasks check the time again when it changes.
    skipped: watch::Sender<Duration>,
}

impl Clock {
    /// A clock that starts with the time of the machine.
    pub(crate) fn new() -> Self {
        Self { base: Timestamp::now(), start: Instant::now(), skipped: watch::Sender::new(Duration::ZERO) }
    }

    /// The current time.
    pub(crate) fn now(&self) -> Timestamp {
        let passed = self.start.elapsed().saturating_add(*self.skipped.borrow());
        later(self.base, passed)
    }

    /// Advances the clock; everything due by then happens now.
    pub(crate) fn advance(&self, by: Duration) {
        self.skipped.send_modify(|skipped| *skipped = skipped.saturating_add(by));
    }

    /// Notifies other waiting tasks when a test advances the clock.
    pub(crate) fn leaps(&self) -> watch::Receiver<Duration> {
        self.skipped.subscribe()
    }

    /// Waits until a point in time.
    pub(crate) async fn sleep_until(&self, time: Timestamp) {
        let mut skipped = self.skipped.subscribe();
        loop {
            let left = time.duration_since(self.now());
            let Ok(left) = Duration::try_from(left) else { return };
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                // The clock itself owns the sender, so this is never an error.
                _ = skipped.changed() => {}
            }
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// A later point in time; saturates.
pub(crate) fn later(time: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// A timestamp as objects store it: in whole seconds.
pub(crate) fn timestamp(time: Timestamp) -> String {
    let options = jiff::TimestampRound::new().smallest(Unit::Second).mode(jiff::RoundMode::Floor);
    time.round(options).unwrap_or(time).to_string()
}

/// Pseudo-random numbers: enough for names and uids, not for secrets.
#[derive(Clone, Debug)]
pub(crate) struct Randomness {
    state: u64,
}

impl Randomness {
    /// The same seed gives the same numbers; without a seed, every process gets different ones.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self { state: seed.unwrap_or_else(|| RandomState::new().hash_one(std::process::id())) }
    }

    /// The next number (SplitMix64).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A uid of a new object (version 4).
    pub(crate) fn uid(&mut self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let (high, low) = (self.next(), self.next());
        let high = high & 0xffff_ffff_ffff_0fff | 0x4000;
        let low = low & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000;
        let number = (u128::from(high) << 64) | u128::from(low);
        let mut uid = String::with_capacity(36);
        for position in 0..32 {
            if matches!(position, 8 | 12 | 16 | 20) {
                uid.push('-');
            }
            uid.push(char::from(DIGITS[(number >> (124 - 4 * position)) as usize & 0xf]));
        }
        uid
    }

    /// The suffix of a generated name: no vowels and no look-alikes, so that it forms no words.
    pub(crate) fn suffix(&mut self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..5).map(|_| char::from(ALPHABET[(self.next() % ALPHABET.len() as u64) as usize])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_look_like_uids_and_repeat_with_the_seed() {
        let uid = Randomness::new(Some(7)).uid();
        assert_eq!(uid.len(), 36, "{uid}");
        assert_eq!(uid.as_bytes()[14], b'4', "{uid}");
        assert!(b"89ab".contains(&uid.as_bytes()[19]), "{uid}");
        assert_eq!(uid, Randomness::new(Some(7)).uid());
        assert_ne!(uid, Randomness::new(Some(8)).uid());
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_follows_paused_time() {
        let clock = Clock::new();
        let before = clock.now();
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(clock.now().duration_since(before).as_secs(), 3600);
        clock.advance(Duration::from_secs(60));
        assert_eq!(clock.now().duration_since(before).as_secs(), 3660);
        assert_eq!(timestamp("2026-01-02T03:04:05.999Z".parse().unwrap()), "2026-01-02T03:04:05Z");
    }

    #[tokio::test]
    async fn sleepers_wake_when_the_clock_is_moved_on() {
        let clock = std::sync::Arc::new(Clock::new());
        let sleeper = tokio::spawn({
            let clock = std::sync::Arc::clone(&clock);
            async move { clock.sleep_until(later(clock.now(), Duration::from_secs(3600))).await }
        });
        tokio::task::yield_now().await;
        clock.advance(Duration::from_secs(1800));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(Duration::from_secs(1801));
        sleeper.await.unwrap();
    }
}
