//! The health of the operator: whether the front answers, the API answers, the work has begun.
//!
//! A front that does not answer is a reason to restart the operator. An API that does not answer is none: the operator
//! goes on when it is back, and a restarted one would have to wait for it, too, without what the old one remembers.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::time::Instant;

use crate::front::Front;
use crate::{Api, Clock};

/// After this time without an answer, the front or the API counts as dead.
pub(super) const DEADLINE: Duration = Duration::from_secs(10);

/// How often the monitor pings them.
const INTERVAL: Duration = Duration::from_secs(3);

/// How far the operator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperatorPhase {
    /// The startup handlers are being called, or it logs in.
    Starting,
    Working,
    Stopping,
}

const OPERATOR_PHASES: [OperatorPhase; 3] = [OperatorPhase::Starting, OperatorPhase::Working, OperatorPhase::Stopping];

#[derive(Default)]
pub(crate) struct Health {
    phase: AtomicU8,
    front: Mutex<LastPing>,
    api: Mutex<LastPing>,
    /// Once it is connected.
    client: RwLock<Option<Api>>,
}

/// The latest ping of the front, or of the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LastPing {
    /// Since when the monitor awaits an answer; None if it awaits none.
    asked: Option<Instant>,
}

impl LastPing {
    fn is_dead(self, now: Instant) -> bool {
        self.asked.is_some_and(|asked| is_over(now, asked, DEADLINE))
    }
}

fn is_dead(ping: &Mutex<LastPing>, now: Instant) -> bool {
    ping.lock().unwrap_or_else(PoisonError::into_inner).is_dead(now)
}

/// Whether this much time has passed.
pub(super) fn is_over(now: Instant, since: Instant, limit: Duration) -> bool {
    now.saturating_duration_since(since) >= limit
}

impl Health {
    pub(crate) fn enter(&self, phase: OperatorPhase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    pub(crate) fn phase(&self) -> OperatorPhase {
        OPERATOR_PHASES.get(usize::from(self.phase.load(Ordering::Relaxed))).copied().unwrap_or(OperatorPhase::Starting)
    }

    /// From now on, the monitor pings the API, too.
    pub(crate) fn connect(&self, api: Api) {
        *self.client.write().unwrap_or_else(PoisonError::into_inner) = Some(api);
    }

    /// Why the operator has to be restarted.
    pub(crate) fn problems(&self, now: Instant) -> Vec<String> {
        let seconds = DEADLINE.as_secs();
        let stuck = is_dead(&self.front, now).then(|| format!("the event loop is stuck for {seconds} seconds or more"));
        stuck.into_iter().collect()
    }

    /// Why the operator cannot do its work now, though it is well itself.
    pub(crate) fn outages(&self, now: Instant) -> Vec<String> {
        let seconds = DEADLINE.as_secs();
        let silent = format!("the Kubernetes API does not answer for {seconds} seconds or more");
        is_dead(&self.api, now).then_some(silent).into_iter().collect()
    }

    /// Why the operator does not do its work yet, or not any more.
    pub(crate) fn reasons_to_wait(&self) -> Option<String> {
        match self.phase() {
            OperatorPhase::Starting => Some("the operator is starting".to_owned()),
            OperatorPhase::Stopping => Some("the operator is stopping".to_owned()),
            OperatorPhase::Working => None,
        }
    }

    /// Pings the front and the API regularly, for ever.
    pub(crate) async fn monitor(&self, front: &Arc<dyn Front>, clock: &Clock) {
        let front_side = async {
            loop {
                ask(&self.front, clock, async {
                    front.ping().await;
                    true
                })
                .await;
                clock.sleep(INTERVAL).await;
            }
        };
        let api_side = async {
            loop {
                let api = self.client.read().unwrap_or_else(PoisonError::into_inner).clone();
                if let Some(api) = api {
                    // Whatever it says, it is alive; only silence counts.
                    ask(&self.api, clock, async { api.is_answering(INTERVAL).await }).await;
                }
                clock.sleep(INTERVAL).await;
            }
        };
        tokio::join!(front_side, api_side);
    }
}

/// Notes since when an answer is awaited, over all questions that remain without one.
async fn ask(ping: &Mutex<LastPing>, clock: &Clock, question: impl Future<Output = bool>) {
    let now = clock.instant();
    ping.lock().unwrap_or_else(PoisonError::into_inner).asked.get_or_insert(now);
    if question.await {
        ping.lock().unwrap_or_else(PoisonError::into_inner).asked = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_is_death_and_any_answer_is_life() {
        let (health, clock) = (Health::default(), Clock::system());
        ask(&health.api, &clock, async { false }).await;
        assert!(health.outages(clock.instant()).is_empty());
        tokio::time::advance(Duration::from_secs(6)).await;
        ask(&health.api, &clock, async { false }).await;
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(health.outages(clock.instant()).len(), 1);
        // It is no reason to restart the operator.
        assert!(health.problems(clock.instant()).is_empty());
        ask(&health.api, &clock, async { true }).await;
        assert!(health.outages(clock.instant()).is_empty());
        let stuck = ask(&health.front, &clock, std::future::pending());
        assert!(tokio::time::timeout(Duration::from_secs(10), stuck).await.is_err());
        assert!(health.problems(clock.instant())[0].contains("stuck") && health.outages(clock.instant()).is_empty());
    }

    #[test]
    fn phases() {
        let health = Health::default();
        assert_eq!(health.phase(), OperatorPhase::Starting);
        for phase in OPERATOR_PHASES {
            health.enter(phase);
            assert_eq!((health.phase(), health.reasons_to_wait().is_none()), (phase, phase == OperatorPhase::Working));
        }
    }
}
