//! The clients of the current login, and the way to a new login when they fail.
//!
//! Requests ask the [`Vault`] for a client and report a 401 back to it, unless it is about their path only
//! (`client/refused.rs`). The operator runs [`Vault::serve`], which logs in whenever the vault is empty: for the first
//! time, after the API has refused all credentials, or when they have expired. A refusal never ends the operator:
//! requests wait, and the vault logs in again with growing pauses.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::watch;

use super::{Connection, ConnectionInfo, CredentialsError};
use crate::support::clock::Clock;
use crate::support::log::Log;

const TARGET: &str = "kopf.engine.credentials";

/// The longest pause between two logins after refusals or failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How a front logs in: it runs the login activity of the user.
pub trait Login: Send + Sync {
    /// All the credentials that the login handlers have given, or why there are none.
    fn login(&self) -> BoxFuture<'_, Result<Vec<ConnectionInfo>, String>>;
}

/// Why a login gave no client.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The activity itself has failed.
    #[error("the login has failed: {0}")]
    Activity(String),
    /// The activity has given nothing at all.
    #[error("the login gave no credentials")]
    NoCredentials,
    /// No client could be made of any of them; this is the last reason.
    #[error("the login gave no usable credentials: {0}")]
    Unusable(#[source] CredentialsError),
}

/// A client to make requests with, and the number to report its refusal with.
#[derive(Clone)]
pub struct Session {
    pub connection: Arc<Connection>,
    pub generation: u64,
    /// The address of the API, for messages; None for clients that were made elsewhere.
    pub server: Option<Arc<str>>,
}

/// A cheap handle to the credentials of one operator.
#[derive(Clone)]
pub struct Vault {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    /// Counts the changes of the state, to wake up those that wait for one.
    changes: watch::Sender<u64>,
    clock: Clock,
    log: Log,
    connect_timeout: Option<Duration>,
}

struct State {
    /// What can be used now, the best one first; empty means: a login is needed.
    active: Vec<ActiveCredentials>,
    /// The number of the latest session ever made.
    last_generation: u64,
    /// Refusals in a row, without a single accepted request in between.
    refusals: u32,
    /// Whether the client was given to us for good, so that there is no other.
    fixed: bool,
}

/// One client in use.
struct ActiveCredentials {
    session: Session,
    priority: i64,
    expiration: Option<Timestamp>,
}

impl Vault {
    /// An empty vault: every request waits until a login was served.
    pub fn new(clock: Clock, log: Log, connect_timeout: Option<Duration>) -> Self {
        Self::with_state(clock, log, connect_timeout, None)
    }

    /// A vault with one client for good, of an embedded cluster, of a test, or of the user.
    pub fn with_client(client: kube::Client, clock: Clock, log: Log) -> Self {
        Self::with_state(clock, log, None, Some(client))
    }

    fn with_state(clock: Clock, log: Log, connect_timeout: Option<Duration>, client: Option<kube::Client>) -> Self {
        let fixed = client.is_some();
        let active = client
            .map(|client| ActiveCredentials {
                session: Session { connection: Arc::new(client.into()), generation: 1, server: None },
                priority: 0,
                expiration: None,
            })
            .into_iter()
            .collect();
        let state = State { active, last_generation: 1, refusals: 0, fixed };
        Self {
            inner: Arc::new(Inner {
                state: Mutex::new(state),
                changes: watch::Sender::new(0),
                clock,
                log,
                connect_timeout,
            }),
        }
    }

    /// The best client there is; waits until there is one.
    pub async fn client(&self) -> Session {
        if let Some(session) = self.current() {
            return session;
        }
        let mut changes = self.inner.changes.subscribe();
        loop {
            changes.borrow_and_update();
            if let Some(session) = self.current() {
                return session;
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The best client there is now, if any. Expired ones are dropped on the way.
    pub fn current(&self) -> Option<Session> {
        let now = self.inner.clock.now();
        let mut state = self.state();
        let before = state.active.len();
        state.active.retain(|credentials| credentials.expiration.is_none_or(|expiration| now < expiration));
        let expired = before != state.active.len();
        let session = state.active.first().map(|credentials| credentials.session.clone());
        drop(state);
        if expired {
            self.announce();
        }
        session
    }

    /// Whether the client was given to us for good, so that there are no other credentials.
    pub(crate) fn is_fixed(&self) -> bool {
        self.state().fixed
    }

    /// Reports that the credentials were refused. Returns whether there will be others.
    ///
    /// Reports about credentials that are not in use any more change nothing.
    pub fn invalidate(&self, generation: u64) -> bool {
        let mut state = self.state();
        if state.fixed {
            return false;
        }
        let before = state.active.len();
        state.active.retain(|credentials| credentials.session.generation != generation);
        let dropped = before != state.active.len();
        if dropped {
            state.refusals = state.refusals.saturating_add(1);
        }
        let refusals = state.refusals;
        drop(state);
        if dropped {
            match refusals {
                // An expired token is refused once; what is refused right after the login is wrong.
                2 => {
                    let text = "The API refuses the credentials (401 Unauthorized), though they are fresh. \
                                Will go on logging in until they are accepted.";
                    self.inner.log.error(TARGET, text.to_owned());
                }
                _ => {
                    let text = "The credentials were refused; trying others or logging in again.";
                    self.inner.log.debug(TARGET, text.to_owned());
                }
            }
            self.announce();
        }
        true
    }

    /// Reports that the credentials were accepted, so that the next refusal is a fresh one.
    pub fn confirm(&self, generation: u64) {
        let mut state = self.state();
        let current = state.active.first().is_some_and(|credentials| credentials.session.generation == generation);
        if state.refusals != 0 && current {
            let refusals = std::mem::take(&mut state.refusals);
            drop(state);
            if refusals > 1 {
                self.inner.log.info(TARGET, "The credentials are accepted again.".to_owned());
            }
        }
    }

    /// Logs in once, and puts what it gives into use.
    pub async fn login(&self, login: &dyn Login) -> Result<(), LoginError> {
        let infos = login.login().await.map_err(LoginError::Activity)?;
        let mut last_error = None;
        let mut made = Vec::new();
        for info in infos {
            match info.connect(self.inner.connect_timeout, &self.inner.clock).await {
                Ok((connection, server)) => made.push((info.priority, connection, Some(server))),
                Err(error) => {
                    self.inner.log.warn(TARGET, format!("Some credentials cannot be used: {error}."));
                    last_error = Some(error);
                }
            }
        }
        if made.is_empty() {
            return Err(last_error.map_or(LoginError::NoCredentials, LoginError::Unusable));
        }
        self.replace(made);
        Ok(())
    }

    /// Puts clients into use, instead of all that were there.
    pub fn populate(&self, clients: Vec<(i64, kube::Client)>) {
        self.replace(clients.into_iter().map(|(priority, client)| (priority, client.into(), None)).collect());
    }

    fn replace(&self, connections: Vec<(i64, Connection, Option<Arc<str>>)>) {
        let mut state = self.state();
        state.active.clear();
        for (priority, connection, server) in connections {
            state.last_generation += 1;
            let expiration = *connection.client().valid_until();
            let session = Session { connection: Arc::new(connection), generation: state.last_generation, server };
            state.active.push(ActiveCredentials { session, priority, expiration });
        }
        // The sort is stable: among equals, the order of the login handlers decides.
        state.active.sort_by_key(|credentials| std::cmp::Reverse(credentials.priority));
        drop(state);
        self.announce();
    }

    /// Logs in whenever there are no credentials left. Never ends; drop it to stop.
    pub async fn serve(&self, login: &dyn Login) {
        let mut changes = self.inner.changes.subscribe();
        let mut failures: u32 = 0;
        loop {
            changes.borrow_and_update();
            if !self.needs_login() {
                let expiration = self.earliest_expiration();
                tokio::select! {
                    _ = changes.changed() => {}
                    () = self.wait_until(expiration) => {}
                }
                continue;
            }
            let attempts = failures.max(self.state().refusals.saturating_sub(1));
            if attempts > 0 {
                self.inner.clock.sleep(pause_after(attempts)).await;
            }
            match self.login(login).await {
                Ok(()) => failures = 0,
                Err(error) => {
                    failures = failures.saturating_add(1);
                    let pause = pause_after(failures).as_secs();
                    self.inner.log.error(TARGET, format!("Cannot log in; will try again in {pause} seconds: {error}"));
                }
            }
        }
    }

    fn needs_login(&self) -> bool {
        self.current().is_none()
    }

    fn earliest_expiration(&self) -> Option<Timestamp> {
        self.state().active.iter().filter_map(|credentials| credentials.expiration).min()
    }

    /// Waits for the time of the day; for ever if there is none.
    async fn wait_until(&self, time: Option<Timestamp>) {
        let Some(time) = time else { return std::future::pending().await };
        // The clock of the machine may jump, so that a long wait is made of short ones.
        while self.inner.clock.now() < time {
            let left = time.duration_since(self.inner.clock.now());
            let left = Duration::try_from(left).unwrap_or_default().min(LONGEST_PAUSE);
            self.inner.clock.sleep(left.max(Duration::from_millis(10))).await;
        }
    }

    fn announce(&self) {
        self.inner.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pause before the next login after this many failures in a row: 1, 2, 4, … 60 seconds.
fn pause_after(failures: u32) -> Duration {
    let factor = 1_u64.checked_shl(failures.saturating_sub(1)).unwrap_or(u64::MAX);
    Duration::from_secs(factor).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn vault() -> Vault {
        Vault::new(Clock::simulated(Timestamp::UNIX_EPOCH, 1), Log::silent(), None)
    }

    /// Gives one info per call; fails at the calls of the given numbers.
    struct Script {
        calls: AtomicUsize,
        failing: Vec<usize>,
        expiration: Option<&'static str>,
    }

    impl Login for Script {
        fn login(&self) -> BoxFuture<'_, Result<Vec<ConnectionInfo>, String>> {
            Box::pin(async {
                let call = self.calls.fetch_add(1, Ordering::SeqCst);
                if self.failing.contains(&call) {
                    return Err("no".to_owned());
                }
                let info = |priority: i64| ConnectionInfo {
                    server: "http://localhost:1".into(),
                    priority,
                    default_namespace: Some(format!("call{call}-priority{priority}")),
                    expiration: self.expiration.map(str::to_owned).filter(|_| call == 0),
                    ..ConnectionInfo::default()
                };
                Ok(vec![info(1), info(5)])
            })
        }
    }

    fn script(failing: &[usize], expiration: Option<&'static str>) -> Arc<Script> {
        Arc::new(Script { calls: AtomicUsize::new(0), failing: failing.to_vec(), expiration })
    }

    fn serve(vault: &Vault, script: &Arc<Script>) {
        let (vault, script) = (vault.clone(), Arc::clone(script));
        tokio::spawn(async move { vault.serve(&*script).await });
    }

    #[tokio::test(start_paused = true)]
    async fn refused_credentials_give_way_by_priority_and_then_to_a_new_login() {
        let (vault, script) = (vault(), script(&[], None));
        serve(&vault, &script);
        let mut seen = Vec::new();
        for _ in 0..3 {
            let session = vault.client().await;
            seen.push(session.connection.client().default_namespace().to_owned());
            assert!(vault.invalidate(session.generation));
            // A late report about the same credentials takes nothing away from the next ones.
            assert!(vault.invalidate(session.generation));
        }
        assert_eq!(seen, ["call0-priority5", "call0-priority1", "call1-priority5"]);
    }

    #[tokio::test(start_paused = true)]
    async fn failed_logins_are_repeated_with_growing_pauses() {
        let (vault, script) = (vault(), script(&[0, 1, 2], None));
        let start = vault.inner.clock.instant();
        serve(&vault, &script);
        assert_eq!(vault.client().await.connection.client().default_namespace(), "call3-priority5");
        assert_eq!(start.elapsed().as_secs(), 1 + 2 + 4);
    }

    #[tokio::test(start_paused = true)]
    async fn expired_credentials_are_replaced() {
        let (vault, script) = (vault(), script(&[], Some("1970-01-01T00:10:00Z")));
        serve(&vault, &script);
        assert_eq!(vault.client().await.connection.client().default_namespace(), "call0-priority5");
        vault.inner.clock.sleep(Duration::from_secs(601)).await;
        assert_eq!(vault.client().await.connection.client().default_namespace(), "call1-priority5");
    }

    #[test]
    fn pauses_are_bounded() {
        let pauses: Vec<u64> = [1, 2, 3, 6, 7, 64, u32::MAX].map(|count| pause_after(count).as_secs()).to_vec();
        assert_eq!(pauses, [1, 2, 4, 32, 60, 60, 60]);
    }
}
