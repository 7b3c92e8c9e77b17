//! The embedded cluster, as `kopf.testing` and `kopf dev` start it and send requests to it.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use kopf_cluster::{Cluster as Embedded, Options, Server};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use crate::failures::{invalid_json, invalid_value, misuse, unavailable};

#[pyclass(frozen, module = "kopf._native_cluster")]
pub(crate) struct Cluster {
    embedded: Embedded,
    /// Never locked while another thread may need the interpreter to go on.
    state: Mutex<State>,
}

enum State {
    /// Not started yet, or stopped.
    Stopped,
    /// Another thread starts the server, without holding the GIL.
    Starting,
    Running(Running),
}

struct Running {
    server: Server,
    /// Dropped after the server, which needs it to shut down.
    runtime: Runtime,
}

/// The options of one cluster, as `kopf.testing` passes them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    seed: Option<u64>,
    data_dir: Option<PathBuf>,
    workloads: bool,
    /// How far tests have moved the clock of this process's operators. The cluster starts with the same time, or new
    /// objects would look old to the operators.
    #[serde(default)]
    clock_shift_seconds: f64,
}

#[pymethods]
impl Cluster {
    #[new]
    #[pyo3(signature = (config, /))]
    fn new(config: &str) -> PyResult<Self> {
        let config: Config = serde_json::from_str(config).map_err(invalid_json)?;
        let clock_shift = Duration::try_from_secs_f64(config.clock_shift_seconds).map_err(invalid_value)?;
        let mut options = Options { seed: config.seed, data_dir: config.data_dir, ..Options::default() };
        if !config.workloads {
            options.workloads = None;
        }
        let embedded = Embedded::open(options).map_err(unavailable)?;
        embedded.advance(clock_shift);
        Ok(Self { embedded, state: Mutex::new(State::Stopped) })
    }

    #[pyo3(signature = (host, port, /))]
    fn start(&self, python: Python<'_>, host: &str, port: u16) -> PyResult<()> {
        let host: IpAddr = host.parse().map_err(invalid_value)?;
        if !self.begin_start() {
            return Err(misuse("the cluster was started already"));
        }
        match self.serve(python, SocketAddr::new(host, port)) {
            Ok(running) => match self.finish_start(running) {
                None => Ok(()),
                Some(running) => {
                    shut_down(python, running);
                    Err(misuse("the cluster was closed while it was started"))
                }
            },
            Err(error) => {
                *self.state() = State::Stopped;
                Err(error)
            }
        }
    }

    /// JSON: {"url", "token", "kubeconfig"}.
    fn access(&self) -> PyResult<String> {
        self.with_running(|running| {
            let server = &running.server;
            json!({"url": server.url(), "token": server.token(), "kubeconfig": server.kubeconfig()}).to_string()
        })
    }

    /// Sends one request, and returns the code and the body of the response.
    #[pyo3(signature = (method, path, content_type, body, /))]
    fn request(
        &self,
        python: Python<'_>,
        method: &str,
        path: &str,
        content_type: &str,
        body: &[u8],
    ) -> PyResult<(u16, Vec<u8>)> {
        let method = method.parse().map_err(invalid_value)?;
        let body = Bytes::copy_from_slice(body);
        let handle = self.with_running(|running| running.runtime.handle().clone())?;
        let response = python.detach(|| handle.block_on(self.embedded.request(method, path, content_type, body)));
        Ok((response.code, response.body.to_vec()))
    }

    /// Applies the text of manifests, and returns the JSON of the objects.
    #[pyo3(signature = (manifest, namespace, /))]
    fn apply(&self, python: Python<'_>, manifest: &str, namespace: &str) -> PyResult<String> {
        let handle = self.with_running(|running| running.runtime.handle().clone())?;
        let applied = python.detach(|| handle.block_on(self.embedded.apply(manifest, namespace)));
        let objects: Vec<_> = applied.map_err(invalid_value)?.into_iter().map(|one| one.object).collect();
        Ok(json!(objects).to_string())
    }

    /// The path of an object or of a collection, by any name of the resource; None if the cluster does not serve it.
    #[pyo3(signature = (resource, namespace, name, /))]
    fn path(&self, resource: &str, namespace: Option<&str>, name: Option<&str>) -> Option<String> {
        self.embedded.find_resource(resource).map(|found| found.path(namespace, name))
    }

    /// Moves the clock of the cluster forward.
    #[pyo3(signature = (seconds, /))]
    fn advance(&self, seconds: f64) -> PyResult<()> {
        self.embedded.advance(Duration::try_from_secs_f64(seconds).map_err(invalid_value)?);
        Ok(())
    }

    fn compact(&self) {
        self.embedded.compact();
    }

    /// Stops the cluster and closes its connections. Objects in memory go with the last reference.
    fn close(&self, python: Python<'_>) {
        let state = std::mem::replace(&mut *self.state(), State::Stopped);
        if let State::Running(running) = state {
            shut_down(python, running);
        }
        self.embedded.close();
    }
}

impl Cluster {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the calling thread is the one that starts the cluster.
    fn begin_start(&self) -> bool {
        let mut state = self.state();
        let is_stopped = matches!(*state, State::Stopped);
        if is_stopped {
            *state = State::Starting;
        }
        is_stopped
    }

    /// Stores the running server, or returns it if another thread has closed the cluster meanwhile.
    fn finish_start(&self, running: Running) -> Option<Running> {
        let mut state = self.state();
        if !matches!(*state, State::Starting) {
            return Some(running);
        }
        *state = State::Running(running);
        None
    }

    fn serve(&self, python: Python<'_>, address: SocketAddr) -> PyResult<Running> {
        let runtime = Builder::new_multi_thread().worker_threads(2).thread_name("kopf-cluster").enable_all().build()?;
        let serving = self.embedded.serve(address);
        let server = python.detach(|| runtime.block_on(serving)).map_err(unavailable)?;
        Ok(Running { server, runtime })
    }

    fn with_running<T>(&self, read: impl FnOnce(&Running) -> T) -> PyResult<T> {
        match &*self.state() {
            State::Running(running) => Ok(read(running)),
            State::Stopped | State::Starting => Err(misuse("the cluster is not running")),
        }
    }
}

fn shut_down(python: Python<'_>, Running { server, runtime }: Running) {
    python.detach(|| {
        drop(server);
        runtime.shutdown_timeout(Duration::from_secs(1));
    });
}
