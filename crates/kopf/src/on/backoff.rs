//! The delays between the attempts of a handler.

use std::time::Duration;

use kopf_reaction::Backoff;

/// Delays that grow with each attempt: `initial`, then each time `factor` times longer, up to `max`.
///
/// ```
/// use std::time::Duration;
/// use kopf::on;
///
/// let backoff = on::exponential(Duration::from_secs(1)).max(Duration::from_secs(60)).jitter(0.1);
/// let registration = on::create("memcacheds").backoff(backoff);
/// # drop(registration);
/// ```
pub fn exponential(initial: Duration) -> Exponential {
    Exponential { initial, factor: 2.0, max: None, jitter: None }
}

/// Growing delays; see [`exponential`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exponential {
    initial: Duration,
    factor: f64,
    max: Option<Duration>,
    jitter: Option<f64>,
}

/// The delays between the attempts: constant from a `Duration`, or [`exponential`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule(Delays);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Delays {
    Constant(Duration),
    Exponential(Exponential),
}

impl Exponential {
    /// How many times longer each delay is; 2 by default.
    pub fn factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// The longest delay.
    pub fn max(mut self, max: Duration) -> Self {
        self.max = Some(max);
        self
    }

    /// The share by which each delay is longer or shorter at random, such as 0.1.
    pub fn jitter(mut self, jitter: f64) -> Self {
        self.jitter = Some(jitter);
        self
    }
}

impl From<Duration> for Schedule {
    fn from(delay: Duration) -> Self {
        Self(Delays::Constant(delay))
    }
}

impl From<Exponential> for Schedule {
    fn from(delays: Exponential) -> Self {
        Self(Delays::Exponential(delays))
    }
}

impl Schedule {
    pub(crate) fn into_backoff(self) -> Backoff {
        match self.0 {
            Delays::Constant(delay) => Backoff::constant(delay.as_secs_f64()),
            Delays::Exponential(Exponential { initial, factor, max, jitter }) => Backoff::Exponential {
                initial: initial.as_secs_f64(),
                factor,
                max: max.map(|max| max.as_secs_f64()),
                jitter,
            },
        }
    }
}
