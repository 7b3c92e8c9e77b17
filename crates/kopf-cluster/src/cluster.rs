//! The cluster: what programs make, serve, disturb and close.

mod local;
#[cfg(any(test, feature = "fuzzing"))]
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
        let store = Store::new(options.history_limit);
        let state = Arc::new(State::new(options, authority.unwrap_or_default(), store, None, &Controllers));
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
        let state = Arc::new(State::new(options, authority, store, Some(journal), &Controllers));
        namespaces::create_initial(&state);
        if state.options.workloads.is_some() {
            workloads::create_initial(&state);
        }
        resume(&state);
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
        Faults::new(Arc::clone(&self.state.faults))
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
            Catalog::built_in();
            structure::empty("v1", "Namespace");
        });
    });
}
