//! How a cluster is made: what `Cluster::new` and `Cluster::open` are given.

use std::path::PathBuf;
use std::time::Duration;

/// How a cluster is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many events of each resource are remembered; watches from before get 410.
    pub history_limit: usize,
    /// How long a watch lives at most, if its client does not say less.
    pub watch_timeout: Duration,
    /// Names and uids repeat with the seed; without one, they are others every time.
    pub seed: Option<u64>,
    /// The token that clients over the network must have; made if not given.
    pub token: Option<String>,
    /// Where the cluster is kept over restarts, for [`Cluster::open`]; one process at a time.
    pub data_dir: Option<PathBuf>,
    /// The log in the data directory is replaced by a snapshot when it is longer than this, and
    /// than two snapshots.
    pub data_log_limit: u64,
    /// How pods and what makes them are simulated; without it, objects are only kept.
    pub workloads: Option<Workloads>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            history_limit: 4096,
            // A real server ends watches after 30 to 60 minutes.
            watch_timeout: Duration::from_secs(45 * 60),
            seed: None,
            token: None,
            data_dir: None,
            data_log_limit: 16 * 1024 * 1024,
            workloads: Some(Workloads::default()),
        }
    }
}

/// How workloads are simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workloads {
    /// From the assignment of a pod to a node until it is ready.
    pub ready_delay: Duration,
    /// How long the pods of jobs run, once they are ready.
    pub run_duration: Duration,
    /// From the deletion of a pod until its containers have stopped; its grace at most.
    pub stop_delay: Duration,
}

impl Default for Workloads {
    fn default() -> Self {
        Self {
            // Short, but long enough to be seen.
            ready_delay: Duration::from_millis(100),
            run_duration: Duration::from_millis(100),
            stop_delay: Duration::from_millis(50),
        }
    }
}
