//! Time and randomness of the engine: the only place where they come from.
//!
//! Every part that waits, stamps or spreads something out holds a [`Clock`]. With a simulated one
//! on tokio's paused time, a whole run is repeatable from its seed.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::time::Instant;

/// The longest wait for anything that is not due yet; then it is looked at again.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// A cheap handle to the time and the random numbers of one operator.
#[derive(Clone, Debug)]
pub struct Clock {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    wall: Wall,
    /// The state of the random numbers; each number moves it on.
    random_state: AtomicU64,
}

/// Moves the time of the operators of this process on, for their tests. Clones share it.
#[derive(Clone, Debug)]
pub struct TimeShift {
    /// How far the time was moved on; those that wait look at the time again when it changes.
    skipped: watch::Sender<Duration>,
}

impl TimeShift {
    pub fn new() -> Self {
        Self { skipped: watch::Sender::new(Duration::ZERO) }
    }

    /// What is due by then happens now. Network waits are not affected: the network is as slow as before.
    pub fn advance(&self, by: Duration) {
        self.skipped.send_modify(|skipped| *skipped = skipped.saturating_add(by).min(LONGEST_SHIFT));
    }

    /// How far the time was moved on so far.
    pub fn skipped(&self) -> Duration {
        *self.skipped.borrow()
    }
}

impl Default for TimeShift {
    fn default() -> Self {
        Self::new()
    }
}

/// So that no sum of times overflows.
const LONGEST_SHIFT: Duration = Duration::from_secs(86_400 * 366 * 100);

/// Where the time of the day comes from.
#[derive(Debug)]
enum Wall {
    /// The clock of the machine, with all its jumps.
    System,
    /// The same, but moved on.
    Shifted(TimeShift),
    /// A start of our choice plus the time that tokio counts, be it paused or not.
    Simulated { start: Timestamp, origin: Instant },
}

/// Stops the current thread, whatever the operator's clock says: it is about the processor, not about the operator.
pub(crate) fn pause_thread(microseconds: u32) {
    std::thread::sleep(Duration::from_micros(u64::from(microseconds)));
}

/// The time-out has passed before the end of what was awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("timed out")]
pub struct Elapsed;

impl Clock {
    /// The real time, and random numbers that differ in every process.
    pub fn system() -> Self {
        let nanoseconds = Timestamp::now().as_nanosecond();
        let seed = (nanoseconds as u64) ^ (u64::from(std::process::id()) << 32);
        Self::with(Wall::System, seed)
    }

    /// The real time, moved on by the tests of operators.
    pub fn shifted(shift: TimeShift) -> Self {
        let system = Self::system();
        Self::with(Wall::Shifted(shift), system.inner.random_state.load(Ordering::Relaxed))
    }

    /// A repeatable run: the wall clock starts at `start` and goes with tokio's time.
    ///
    /// To be called inside of a tokio runtime.
    pub fn simulated(start: Timestamp, seed: u64) -> Self {
        Self::with(Wall::Simulated { start, origin: Instant::now() }, seed)
    }

    fn with(wall: Wall, seed: u64) -> Self {
        Self { inner: Arc::new(Inner { wall, random_state: AtomicU64::new(seed) }) }
    }

    /// The time of the day, for what is stored and compared with stored times.
    pub fn now(&self) -> Timestamp {
        match &self.inner.wall {
            Wall::System => Timestamp::now(),
            Wall::Shifted(shift) => later(Timestamp::now(), shift.skipped()),
            Wall::Simulated { start, origin } => later(*start, origin.elapsed()),
        }
    }

    /// The monotonic time, for measuring durations.
    pub fn instant(&self) -> Instant {
        match &self.inner.wall {
            Wall::Shifted(shift) => Instant::now() + shift.skipped(),
            Wall::System | Wall::Simulated { .. } => Instant::now(),
        }
    }

    /// Waits for the duration.
    pub async fn sleep(&self, duration: Duration) {
        match &self.inner.wall {
            Wall::Shifted(_) => self.sleep_until(self.instant() + duration.min(LONGEST_SHIFT)).await,
            Wall::System | Wall::Simulated { .. } => tokio::time::sleep(duration).await,
        }
    }

    /// Waits for the instant; at once if it has passed.
    pub async fn sleep_until(&self, deadline: Instant) {
        let Wall::Shifted(shift) = &self.inner.wall else {
            return tokio::time::sleep_until(deadline).await;
        };
        let mut skipped = shift.skipped.subscribe();
        while let Some(left) = deadline.checked_duration_since(self.instant()).filter(|left| !left.is_zero()) {
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                // The sender lives in the clock itself, so this is never an error.
                _ = skipped.changed() => {}
            }
        }
    }

    /// Waits for the future, but no longer than the duration.
    pub async fn timeout<F: Future>(&self, duration: Duration, future: F) -> Result<F::Output, Elapsed> {
        tokio::time::timeout(duration, future).await.map_err(|_| Elapsed)
    }

    /// A random number from 0 up to, but without, `scale`.
    pub fn jitter(&self, scale: f64) -> f64 {
        // SplitMix64: small, fast, and good enough to spread out retries.
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut mixed = self.inner.random_state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        // The upper 53 bits are what a float can hold.
        (mixed >> 11) as f64 / (1_u64 << 53) as f64 * scale
    }
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// The duration of a setting in seconds; what makes no sense (negative, not a number) is zero.
pub fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value.max(0.0)).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn simulated_time_goes_with_the_paused_clock() {
        let start: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::simulated(start, 1);
        assert_eq!(clock.now(), start);
        clock.sleep(Duration::from_secs(90)).await;
        assert_eq!(clock.now().as_second() - start.as_second(), 90);
        let never = clock.timeout(Duration::from_secs(5), std::future::pending::<()>()).await;
        assert_eq!(never, Err(Elapsed));
    }

    #[tokio::test]
    async fn shifted_time_wakes_sleepers() {
        let shift = TimeShift::new();
        let clock = Clock::shifted(shift.clone());
        let (before, instant) = (clock.now(), clock.instant());
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep(Duration::from_secs(3600)).await }
        });
        tokio::task::yield_now().await;
        shift.advance(Duration::from_secs(1800));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        shift.advance(Duration::from_secs(1801));
        sleeper.await.unwrap();
        assert!(clock.now().duration_since(before).as_secs() >= 3601);
        assert!(clock.instant() - instant >= Duration::from_secs(3601));
    }

    #[tokio::test]
    async fn random_numbers_repeat_by_the_seed_and_stay_in_range() {
        let numbers = |seed| {
            let clock = Clock::simulated(Timestamp::UNIX_EPOCH, seed);
            (0..1000).map(|_| clock.jitter(2.0)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        assert!(numbers(7).iter().all(|number| (0.0..2.0).contains(number)));
        assert!(numbers(7).iter().any(|number| *number > 1.5));
    }

    #[test]
    fn senseless_seconds_are_zero() {
        assert_eq!(seconds(1.5), Duration::from_millis(1500));
        assert_eq!(seconds(-1.0), Duration::ZERO);
        assert_eq!(seconds(f64::NAN), Duration::ZERO);
        assert_eq!(seconds(f64::INFINITY), Duration::MAX);
    }
}
