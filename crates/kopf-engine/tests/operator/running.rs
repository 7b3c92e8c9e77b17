//! An operator under test, with its front and its cluster.

use std::sync::Arc;
use std::time::Duration;

use kopf_engine::{Clock, OperatorError, OperatorOptions, Severity, Stop, run_by};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::script::{Script, handler};

/// How long a condition is awaited, in the time of the test.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The start of all tests.
const START: &str = "2030-01-01T00:00:00Z";

pub(crate) struct Running {
    pub cluster: Cluster,
    pub script: Arc<Script>,
    pub stop: Stop,
    bell: Arc<Notify>,
    task: JoinHandle<Result<(), OperatorError>>,
}

/// Starts the operator in a cluster, cluster-wide.
pub(crate) fn start(script: Script, prepare: impl FnOnce(&Cluster)) -> Running {
    start_with(script, &[], prepare, |_| {})
}

/// Starts it with activities and other options.
pub(crate) fn start_with(
    script: Script,
    activities: &[Value],
    prepare: impl FnOnce(&Cluster),
    adjust: impl FnOnce(&mut OperatorOptions),
) -> Running {
    let bell = script.bell();
    let cluster = Cluster::new(Arc::clone(&bell));
    prepare(&cluster);
    let activities = activities.iter().enumerate().map(|(index, one)| handler(1000 + index, one)).collect();
    let mut options =
        OperatorOptions { activities, clusterwide: true, client: Some(cluster.client()), ..OperatorOptions::default() };
    adjust(&mut options);
    let (script, stop) = (Arc::new(script), Stop::new());
    let clock = Clock::simulated(START.parse().unwrap(), 1);
    let task = tokio::spawn(run_by(clock, Arc::clone(&script) as _, options, stop.clone()));
    Running { cluster, script, stop, bell, task }
}

impl Running {
    /// Waits for the condition; tells everything that has happened if it does not come true.
    pub(crate) async fn wait(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        loop {
            let rung = self.bell.notified();
            if condition(self) {
                return;
            }
            let left = PATIENCE.saturating_sub(start.elapsed());
            if self.task.is_finished() || tokio::time::timeout(left, rung).await.is_err() {
                panic!("waited in vain: {what}\n{}", self.story());
            }
        }
    }

    /// Waits until the handlers were called this number of times, all in all.
    pub(crate) async fn wait_for_calls(&self, count: usize) {
        self.wait(&format!("{count} calls"), |running| running.script.seen().calls.len() >= count).await;
    }

    /// Waits until the current state of the object is handled.
    pub(crate) async fn wait_for_handling(&self, name: &str) {
        self.wait(&format!("{name} is handled"), |running| running.cluster.is_handled(name)).await;
    }

    pub(crate) async fn wait_for_request(&self, label: &str, count: usize) {
        let counted = |running: &Self| running.cluster.labels().iter().filter(|one| *one == label).count();
        self.wait(&format!("{count} times {label}"), |running| counted(running) >= count).await;
    }

    /// Lets so much time pass, to see what happens in it.
    pub(crate) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// The calls so far are exactly these, also some time later.
    pub(crate) async fn expect_calls(&self, expected: &[&str]) {
        self.wait_for_calls(expected.len()).await;
        self.pass(5).await;
        assert_eq!(self.script.calls(), expected, "{}", self.story());
    }

    /// Asks the operator to stop, and waits for its end.
    pub(crate) async fn finish(self) -> Result<(), OperatorError> {
        self.stop.request("the test is over");
        self.end().await
    }

    /// Drops the operator without stopping it.
    pub(crate) fn abort(&self) {
        self.task.abort();
    }

    /// Waits for the end of the operator.
    pub(crate) async fn end(mut self) -> Result<(), OperatorError> {
        match tokio::time::timeout(PATIENCE, &mut self.task).await {
            Ok(ended) => ended.unwrap(),
            Err(_) => panic!("the operator does not end\n{}", self.story()),
        }
    }

    /// What has happened, for failed tests.
    pub(crate) fn story(&self) -> String {
        let mut story = vec!["requests:".to_owned()];
        let requests = self.cluster.requests();
        story.extend(requests.iter().map(|asked| format!("  {} {} {}", asked.label, asked.query, asked.body)));
        story.push(format!("calls: {:?}", self.script.calls()));
        story.push("log:".to_owned());
        story.extend(self.script.logged(Severity::Debug).into_iter().map(|text| format!("  {text}")));
        story.join("\n")
    }
}
