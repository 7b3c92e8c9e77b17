//! Backoff: how long to wait before the next attempt of a handler.
//!
//! A number means the same delay each time; an exponential backoff grows up to a limit.

use std::fmt;

use serde::Deserialize;
use serde_json::Number;

/// A number of seconds that prints as the user wrote it: `60`, not `60.0`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Seconds(pub Number);

impl Seconds {
    /// Keeps whole numbers as integers, for printing.
    pub fn new(seconds: f64) -> Self {
        let whole = seconds.fract() == 0.0 && seconds.abs() < 9e15;
        if whole {
            Self(Number::from(seconds as i64))
        } else {
            Self(Number::from_f64(seconds).unwrap_or_else(|| Number::from(0)))
        }
    }

    /// The number for calculations.
    pub fn as_f64(&self) -> f64 {
        self.0.as_f64().unwrap_or_default()
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&kopf_object::python_json::dumps(&serde_json::Value::Number(self.0.clone())))
    }
}

/// The delays after arbitrary errors.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Backoff {
    /// The same delay after each failure.
    Constant {
        /// The delay.
        constant: Seconds,
    },
    /// `initial * factor^retry`, at most `max`, randomly shifted by a share of up to `jitter`.
    Exponential {
        /// Seconds after the first failure.
        initial: f64,
        /// By how much the delay grows with each failure.
        factor: f64,
        /// The limit in seconds.
        #[serde(default)]
        max: Option<f64>,
        /// The largest random share, from 0 to 1.
        #[serde(default)]
        jitter: Option<f64>,
    },
}

impl Backoff {
    /// The same number of seconds after each failure.
    pub fn constant(seconds: f64) -> Self {
        Self::Constant { constant: Seconds::new(seconds) }
    }

    /// The delay after the failed attempt number `retry` (from zero); `random` is in 0..1.
    pub fn delay(&self, retry: u32, random: f64) -> Seconds {
        match self {
            Self::Constant { constant } => constant.clone(),
            Self::Exponential { initial, factor, max, jitter } => {
                // The cap keeps the power finite; any limit is reached long before.
                let exponent = i32::try_from(retry).unwrap_or(i32::MAX).min(1000);
                let grown = initial * factor.powi(exponent);
                let limit = max.unwrap_or(f64::MAX).min(MAX_DELAY_SECONDS);
                let capped = if grown.is_finite() { grown.clamp(0.0, limit) } else { limit };
                let share = jitter.unwrap_or(0.0).clamp(0.0, 1.0);
                let shifted = capped * (1.0 + share * (2.0 * random - 1.0));
                Seconds::new((shifted * 1000.0).round() / 1000.0)
            }
        }
    }
}

/// One year: practically forever, but still a valid timestamp.
const MAX_DELAY_SECONDS: f64 = 365.0 * 24.0 * 3600.0;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(backoff: Backoff, random: f64, expected: &[&str]) {
        let delays: Vec<String> =
            (0..expected.len() as u32).map(|retry| backoff.delay(retry, random).to_string()).collect();
        assert_eq!(delays, expected);
    }

    #[test]
    fn delays_stay_constant_or_grow_up_to_the_limit() {
        check(Backoff::constant(60.0), 0.3, &["60", "60", "60"]);
        check(Backoff::constant(0.5), 0.9, &["0.5", "0.5"]);
        let growing = |max, jitter| Backoff::Exponential { initial: 1.0, factor: 2.0, max, jitter };
        check(growing(None, None), 0.5, &["1", "2", "4", "8"]);
        check(growing(Some(5.0), None), 0.5, &["1", "2", "4", "5", "5"]);
        check(growing(Some(5.0), Some(0.5)), 1.0, &["1.5", "3", "6", "7.5"]);
        check(growing(Some(5.0), Some(0.5)), 0.0, &["0.5", "1", "2", "2.5"]);
    }

    proptest! {
        #[test]
        fn a_delay_is_neither_negative_nor_infinite(
            initial in 0.0..1e6f64, factor in 0.1..10f64, retry in 0..u32::MAX, random in 0.0..1f64,
        ) {
            let backoff = Backoff::Exponential { initial, factor, max: None, jitter: Some(1.0) };
            let delay = backoff.delay(retry, random).as_f64();
            prop_assert!((0.0..=2.0 * MAX_DELAY_SECONDS).contains(&delay));
        }
    }
}
