//! An embedded Kubernetes API, for development and tests: what it answers, a real one answers.
//!
//! In process, without any network:
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use k8s_openapi::api::core::v1::Namespace;
//! use kopf_cluster::{Cluster, Options};
//! use kube::{Api, Client};
//!
//! let cluster = Cluster::new(Options::default());
//! let client = Client::new(cluster.service(), "default");
//! let namespaces = Api::<Namespace>::all(client).list(&Default::default()).await?;
//! assert_eq!(namespaces.items.len(), 4);
//! # Ok(())
//! # }
//! ```
//! For other processes: [`Cluster::serve`] listens with TLS and hands out a kubeconfig.
//!
//! A request goes through these files in this order:
//! `http.rs` → `routes.rs` → `verbs/` → `admit.rs` → `store.rs` → `watch.rs`.

// The way of a request.
mod http;
mod request;
mod routes;
mod query;
mod form;
mod json;
mod yaml;
mod verbs;
mod admit;
mod ownership;
mod webhooks;
mod warnings;
mod kinds;
mod traits;
mod rules;
mod quantity;
mod defaults;
mod go_form;
mod go_types;
mod go_restore;
mod protobuf;
mod store;
mod watch;

// What is served, and how it is shown.
mod catalog;
mod capture;
mod crd;
mod crd_checks;
mod crd_text;
mod discovery;
mod openapi;
mod render;
mod text_diff;
mod yaml_text;
mod table;
mod convert;
mod reviews;

// What objects look like, and how they are patched.
pub mod schema;
pub mod patching;
mod names;
mod addresses;
mod selector;
mod fields;
mod jsonpath;
mod cel;
mod status;

// What controllers do in a real cluster.
mod namespaces;
mod gc;
mod workloads;
mod resume;

// What tests can do with it.
mod faults;
mod counts;
mod control;

// What is tested with any bytes.
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;

// What a cluster is made of.
mod state;
mod persistence;
mod clock;
mod server;
mod local;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use crate::capture::KUBERNETES_VERSION;
pub use crate::counts::RequestCount;
pub use crate::faults::{ActiveFault, Effect, Fault, FaultError, Faults, Interrupted, Match};
pub use crate::http::{ClusterBody, ClusterService};
pub use crate::local::{Applied, LocalAnswer, ManifestError, ServedResource};
pub use crate::persistence::OpenError;
pub use crate::server::{ServeError, Server, is_own_kubeconfig};
pub use crate::workloads::Workloads;

use crate::http::Access;
use crate::persistence::{Identity, Opened};
use crate::server::Certificates;
use crate::state::State;

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

/// A Kubernetes cluster in memory. Clones share it.
#[derive(Clone, Debug)]
pub struct Cluster {
    state: Arc<State>,
    /// Made at the start, since objects in the cluster show the authority; used when served.
    certificates: Arc<Result<Certificates, Arc<rcgen::Error>>>,
    /// What clients know it by, if it is kept in a data directory.
    identity: Option<Arc<Identity>>,
}

impl Cluster {
    /// A new cluster in memory with what every cluster has: the initial namespaces. To keep it, see [`Cluster::open`].
    pub fn new(mut options: Options) -> Self {
        warm_up();
        options.token.get_or_insert_with(new_token);
        let certificates = Certificates::generate().map_err(Arc::new);
        let authority = certificates.as_ref().ok().map(|made| made.authority_pem.clone());
        let state = Arc::new(State::new(options, authority.unwrap_or_default()));
        namespaces::create_initial(&state);
        if state.options.workloads.is_some() {
            workloads::create_initial(&state);
        }
        Self { state, certificates: Arc::new(certificates), identity: None }
    }

    /// The cluster of a data directory as it was, or a new one; in memory if no directory is given.
    ///
    /// Whatever was accepted is there again, however the process before has ended. The token and
    /// the certificates are the same, and so is the port if it is free: kubeconfigs stay good.
    pub fn open(mut options: Options) -> Result<Self, OpenError> {
        let Some(directory) = options.data_dir.clone() else { return Ok(Self::new(options)) };
        warm_up();
        let Opened { store, journal, identity } = persistence::open(&directory, &options)?;
        options.token = Some(identity.token());
        let certificates = identity.certificates();
        let authority = certificates.authority_pem.clone();
        let state = Arc::new(State::with_store(options, authority, store, Some(journal)));
        namespaces::create_initial(&state);
        if state.options.workloads.is_some() {
            workloads::create_initial(&state);
        }
        resume::resume(&state);
        Ok(Self { state, certificates: Arc::new(Ok(certificates)), identity: Some(Arc::new(identity)) })
    }

    /// Ends the use of the data directory, so that it can be opened again, even if requests are still
    /// running: nothing can be changed in this cluster any more. A cluster in memory is not affected.
    ///
    /// It is not needed at the end of a process.
    pub fn close(&self) {
        self.state.close();
    }

    /// The API as a tower service, for clients in the same process. No token is needed.
    pub fn service(&self) -> ClusterService {
        ClusterService::new(Arc::clone(&self.state), Access::Trusted)
    }

    /// Serves the API over TLS. Port 0 takes any free port.
    pub async fn serve(&self, address: SocketAddr) -> Result<Server, ServeError> {
        let certificates = match &*self.certificates {
            Ok(certificates) => certificates,
            Err(error) => return Err(ServeError::Certificate(Arc::clone(error))),
        };
        let service = ClusterService::new(Arc::clone(&self.state), Access::Token);
        let token = self.state.options.token.clone().unwrap_or_default();
        if let (0, Some(port)) = (address.port(), self.identity.as_ref().and_then(|identity| identity.port())) {
            let known = SocketAddr::new(address.ip(), port);
            if let Ok(server) = Server::start(service.clone(), known, certificates, token.clone()).await {
                return Ok(server);
            }
        }
        let server = Server::start(service, address, certificates, token).await?;
        if let Some(identity) = &self.identity {
            identity.set_port(server.port());
        }
        Ok(server)
    }

    /// Moves the time of the cluster on; what is due by then happens now.
    pub fn advance(&self, by: Duration) {
        self.state.clock().advance(by);
    }

    /// What goes wrong on demand: delays, errors, broken connections and watches.
    pub fn faults(&self) -> Faults {
        Faults::of(&self.state)
    }

    /// How many requests there were of each sort, since the start or the last reset.
    pub fn requests(&self) -> Vec<RequestCount> {
        self.state.counts.list()
    }

    /// Counts requests anew.
    pub fn reset_requests(&self) {
        self.state.counts.reset();
    }

    /// Forgets the history, as a compaction of a real store does: older versions get 410.
    pub fn compact(&self) {
        self.state.store().compact();
    }
}

/// Reads what every cluster needs of the captured documents, by two threads, once for the process.
fn warm_up() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        std::thread::scope(|scope| {
            // Without another thread, it is read when it is needed.
            let _ = std::thread::Builder::new().spawn_scoped(scope, || catalog::definitions("", "v1"));
            catalog::Catalog::built_in();
            go_form::empty("v1", "Namespace");
        });
    });
}

/// A token that nobody guesses.
fn new_token() -> String {
    let mut bytes = [0_u8; 24];
    let provider = rustls::crypto::ring::default_provider();
    // Without randomness of the system there would be no TLS either.
    let _ = provider.secure_random.fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
