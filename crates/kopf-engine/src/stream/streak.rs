//! How long to wait after failures in a row, and when to log them. Pure.

use std::time::Duration;

/// The first and the longest pause of a streak.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The longest pause while the failures may be minor: a resource on its way to being served.
const LONGEST_PAUSE_WHILE_MINOR: Duration = Duration::from_secs(1);

/// Fewer minor failures in a row are not logged.
const FAILURES_WHILE_MINOR: u32 = 10;

/// What sort of a failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// What passes by itself: 404 and 429 right after the creation of a CRD, a version too old.
    Minor,
    /// Anything else.
    Real,
}

/// Failures in a row.
#[derive(Debug, Default)]
pub(super) struct Streak {
    failures: u32,
    /// Whether this streak was logged.
    logged: bool,
}

/// What to do about one failure.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reaction {
    /// The pause before the next attempt.
    pub pause: Duration,
    /// Whether to log it: once per streak.
    pub must_log: bool,
}

impl Streak {
    /// Counts a failure. `asked` is the pause that the server asks for, `jitter` a number in 0..1.
    pub(super) fn fail(&mut self, failure: Failure, asked: Option<Duration>, jitter: f64) -> Reaction {
        self.failures = self.failures.saturating_add(1);
        let minor = failure == Failure::Minor && self.failures <= FAILURES_WHILE_MINOR;
        let longest = if minor { LONGEST_PAUSE_WHILE_MINOR } else { LONGEST_PAUSE };
        let doubled = SHORTEST_PAUSE.saturating_mul(1_u32.checked_shl(self.failures - 1).unwrap_or(u32::MAX));
        // Half of the pause is random, so that many streams do not come back all at once.
        let pause = doubled.min(longest).mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0));
        let pause = pause.max(SHORTEST_PAUSE).max(asked.unwrap_or_default()).min(LONGEST_PAUSE);
        let must_log = !minor && !self.logged;
        self.logged |= must_log;
        Reaction { pause, must_log }
    }

    /// Ends the streak. Returns whether it was logged: then its end is logged, too.
    pub(super) fn succeed(&mut self) -> bool {
        self.failures = 0;
        std::mem::take(&mut self.logged)
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(failure: Failure, count: usize) -> Vec<u128> {
        let mut streak = Streak::default();
        (0..count).map(|_| streak.fail(failure, None, 1.0).pause.as_millis()).collect()
    }

    #[test]
    fn pauses_double_up_to_a_minute() {
        let expected = [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 51200, 60000, 60000];
        assert_eq!(pauses(Failure::Real, 12), expected);
        assert_eq!(pauses(Failure::Real, 100)[99], 60000);
    }

    #[test]
    fn minor_failures_are_tried_again_quickly_and_silently() {
        let expected = [100, 200, 400, 800, 1000, 1000, 1000, 1000, 1000, 1000, 60000];
        assert_eq!(pauses(Failure::Minor, 11), expected);
        let mut streak = Streak::default();
        let logged: Vec<bool> = (0..12).map(|_| streak.fail(Failure::Minor, None, 0.0).must_log).collect();
        assert_eq!(logged.iter().position(|must_log| *must_log), Some(10));
        assert_eq!(logged.iter().filter(|must_log| **must_log).count(), 1);
    }

    #[test]
    fn jitter_and_the_server_shift_the_pause_within_bounds() {
        let pause = |asked: u64, jitter: f64| {
            let mut streak = Streak { failures: 4, logged: false };
            streak.fail(Failure::Real, Some(Duration::from_millis(asked)), jitter).pause.as_millis()
        };
        assert_eq!(pause(0, 0.0), 800);
        assert_eq!(pause(0, 0.5), 1200);
        assert_eq!(pause(5000, 0.5), 5000);
        assert_eq!(pause(500_000, 0.5), 60_000);
    }

    #[test]
    fn a_streak_is_spoken_about_once_and_its_end_too() {
        let mut streak = Streak::default();
        assert!(!streak.succeed());
        assert!(streak.fail(Failure::Real, None, 0.0).must_log);
        assert!(!streak.fail(Failure::Real, None, 0.0).must_log);
        assert_eq!(streak.failures(), 2);
        assert!(streak.succeed());
        assert!(!streak.succeed());
        assert!(streak.fail(Failure::Real, None, 0.0).must_log);
    }
}
