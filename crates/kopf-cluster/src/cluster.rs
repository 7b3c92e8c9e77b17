//! The cluster: what programs create, serve, disturb and close.

mod local;
#[cfg(any(test, feature = "fuzzing"))]
#[allow(unreachable_pub, reason = "only the feature makes it public")]
pub mod fuzzing;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::catalog::{self, Catalog};
use crate::controllers::{Controllers, namespaces, resume, workloads};
use crate::go::structure;
use crate::http::{Access, ClusterService, ServeError, Server};
use crate::state::State;
use crate::store::Store;
use crate::store::persistence::{self, Identity, OpenError, Opened};
use crate::support::certificates::{Certificates, new_token};
use crate::support::options::Options;
use crate::testing::{Faults, RequestCount};

pub use local::{Applied, LocalResponse, ManifestError, ServedResource};

/// A Kubernetes cluster in memory. Clones share it.
#[derive(Clone, Debug)]
pub struct Cluster {
    state: Arc<State>,
    /// Generated at the start, because objects in the cluster contain the CA certificate.
    certificates: Arc<Result<Certificates, Arc<rcgen::Error>>>,
    /// The token, the certificates and the port, if the cluster has a data directory.
    identity: Option<Arc<Identity>>,
}

impl Cluster {
    /// A new cluster in memory, with the initial namespaces. For a persistent one, see [`Cluster::open`].
    pub fn new(mut options: Options) -> Self {
        warm_up();
        options.token.get_or_insert_with(new_token);
        let certificates = Certificates::generate().map_err(Arc::new);
        let authority = certificates.as_ref().ok().map(|made| made.authority_pem.clone());
        let store = Store::new(options.history_limit);
        let state = Arc::new(State::new(options, authority.unwrap_or_default(), store, None, &Controllers));
        namespaces::create_initial(&state);
        if state.options.workloads.is_some() {
            workloads::create_initial(&state);
        }
        Self { state, certificates: Arc::new(certificates), identity: None }
    }

    /// Opens the cluster of a data directory, or creates it there; in memory if the options name no directory.
    ///
    /// Every accepted write is there again, however the previous process ended. The token, the certificates
    /// and, if it is free, the port are the same: kubeconfigs stay valid.
    pub fn open(mut options: Options) -> Result<Self, OpenError> {
        let Some(directory) = options.data_dir.clone() else { return Ok(Self::new(options)) };
        warm_up();
        let Opened { store, journal, identity } = persistence::open(&directory, &options)?;
        options.token = Some(identity.token());
        let certificates = identity.certificates();
        let authority = certificates.authority_pem.clone();
        let state = Arc::new(State::new(options, authority, store, Some(journal), &Controllers));
        namespaces::create_initial(&state);
        if state.options.workloads.is_some() {
            workloads::create_initial(&state);
        }
        resume(&state);
        Ok(Self { state, certificates: Arc::new(Ok(certificates)), identity: Some(Arc::new(identity)) })
    }

    /// Releases the data directory, so that another cluster can open it. Requests may still be running, but
    /// no longer change anything. This does not affect a cluster in memory.
    ///
    /// It is not necessary at the end of a process.
    pub fn close(&self) {
        self.state.close();
    }

    /// The API as a tower service, for clients in the same process. It requires no token.
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

    /// Advances the clock of the cluster; everything due by then happens now.
    pub fn advance(&self, by: Duration) {
        self.state.clock().advance(by);
    }

    /// The injected faults: delays, errors, broken connections and watches.
    pub fn faults(&self) -> Faults {
        Faults::new(Arc::clone(&self.state.faults))
    }

    /// The request counts since the start or the last reset.
    pub fn requests(&self) -> Vec<RequestCount> {
        self.state.counts.list()
    }

    /// Resets the request counts.
    pub fn reset_requests(&self) {
        self.state.counts.reset();
    }

    /// Drops the history, as the compaction of etcd does: older versions get 410.
    pub fn compact(&self) {
        self.state.store().compact();
    }
}

/// Decodes the captured documents that every cluster needs, in two threads, once per process.
fn warm_up() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        std::thread::scope(|scope| {
            // If the thread cannot start, the document is decoded on first use.
            let _ = std::thread::Builder::new().spawn_scoped(scope, || catalog::definitions("", "v1"));
            Catalog::built_in();
            structure::empty("v1", "Namespace");
        });
    });
}
