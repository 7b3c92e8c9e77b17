//! How long to wait before the next try of a handler.
//!
//! A plain number stays constant; `exponential` grows from call to call up to a limit.

use std::fmt;

use serde::Deserialize;
use serde_json::Number;

/// A number of seconds that prints as the user wrote it: `60`, not `60.0`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Seconds(pub Number);

impl Seconds {
    pub fn new(seconds: f64) -> Self {
        let whole = seconds.fract() == 0.0 && seconds.abs() < 9e15;
        if whole {
            Self(Number::from(seconds as i64))
        } else {
            Self(Number::from_f64(seconds).unwrap_or_else(|| Number::from(0)))
        }
    }

    pub fn as_f64(&self) -> f64 {
        self.0.as_f64().unwrap_or_default()
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&kopf_object::python_json::dumps(&serde_json::Value::Number(self.0.clone())))
    }
}

/// The schedule of delays after arbitrary errors.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Backoff {
    /// The same delay after each failure.
    Constant { constant: Seconds },
    /// `initial * factor^retry`, at most `max`, off by a random share of up to `jitter`.
    Exponential {
        initial: f64,
        factor: f64,
        #[serde(default)]
        max: Option<f64>,
        #[serde(default)]
        jitter: Option<f64>,
    },
}

impl Backoff {
    pub fn constant(seconds: f64) -> Self {
        Self::Constant { constant: Seconds::new(seconds) }
    }

    /// The delay after the failed try number `retry` (from zero); `random` is in 0..1.
    pub fn delay(&self, retry: u32, random: f64) -> Seconds {
        match self {
            Self::Constant { constant } => constant.clone(),
            Self::Exponential { initial, factor, max, jitter } => {
                // Beyond any limit long before that; the cap keeps the power finite.
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

/// A delay of a year is as good as for ever, and still a valid timestamp.
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
    fn schedules() {
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
        fn a_delay_is_never_negative_nor_endless(
            initial in 0.0..1e6f64, factor in 0.1..10f64, retry in 0..u32::MAX, random in 0.0..1f64,
        ) {
            let backoff = Backoff::Exponential { initial, factor, max: None, jitter: Some(1.0) };
            let delay = backoff.delay(retry, random).as_f64();
            prop_assert!((0.0..=2.0 * MAX_DELAY_SECONDS).contains(&delay));
        }
    }
}
