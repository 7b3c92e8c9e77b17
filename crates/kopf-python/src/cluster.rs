//! The embedded cluster, as the helpers of tests and `kopf dev` start and ask it.

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
use crate::operator;

/// What the front decides on before the start.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    seed: Option<u64>,
    data_dir: Option<PathBuf>,
    workloads: bool,
}

#[pyclass(frozen, module = "kopf._native")]
pub(crate) struct Cluster {
    embedded: Embedded,
    /// Never locked while another thread may need the interpreter to go on.
    state: Mutex<State>,
}

enum State {
    /// Not started yet, or ended.
    Stopped,
    /// Another thread starts it, without the interpreter.
    Starting,
    Running(Running),
}

struct Running {
    server: Server,
    /// Dropped after the server, which needs it to end.
    runtime: Runtime,
}

#[pymethods]
impl Cluster {
    #[new]
    #[pyo3(signature = (config, /))]
    fn new(config: &str) -> PyResult<Self> {
        let config: Config = serde_json::from_str(config).map_err(invalid_json)?;
        let mut options = Options { seed: config.seed, data_dir: config.data_dir, ..Options::default() };
        if !config.workloads {
            options.workloads = None;
        }
        let embedded = Embedded::open(options).map_err(unavailable)?;
        // What was created by now must not look old to the operators, whose time was moved on before.
        embedded.advance(operator::skipped());
        Ok(Self { embedded, state: Mutex::new(State::Stopped) })
    }

    #[pyo3(signature = (host, port, /))]
    fn start(&self, python: Python<'_>, host: &str, port: u16) -> PyResult<()> {
        let host: IpAddr = host.parse().map_err(invalid_value)?;
        if !self.begin() {
            return Err(misuse("the cluster was started already"));
        }
        match self.serve(python, SocketAddr::new(host, port)) {
            Ok(running) => match self.finish(running) {
                None => Ok(()),
                Some(running) => {
                    end(python, running);
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

    /// One request and the whole answer to it: its code and its body.
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
        let answer = python.detach(|| handle.block_on(self.embedded.request(method, path, content_type, body)));
        Ok((answer.code, answer.body.to_vec()))
    }

    /// Applies the text of manifests; gives the JSON of the objects.
    #[pyo3(signature = (manifest, namespace, /))]
    fn apply(&self, python: Python<'_>, manifest: &str, namespace: &str) -> PyResult<String> {
        let handle = self.with_running(|running| running.runtime.handle().clone())?;
        let applied = python.detach(|| handle.block_on(self.embedded.apply(manifest, namespace)));
        let objects: Vec<_> = applied.map_err(invalid_value)?.into_iter().map(|one| one.object).collect();
        Ok(json!(objects).to_string())
    }

    /// The path of an object or of a collection, by any name of the resource; None if it is not served.
    #[pyo3(signature = (resource, namespace, name, /))]
    fn path(&self, resource: &str, namespace: Option<&str>, name: Option<&str>) -> Option<String> {
        self.embedded.find_resource(resource).map(|found| found.path(namespace, name))
    }

    /// Moves the time on: of the cluster, and of all operators of this process.
    #[pyo3(signature = (seconds, /))]
    fn advance(&self, seconds: f64) -> PyResult<()> {
        let by = Duration::try_from_secs_f64(seconds).map_err(invalid_value)?;
        self.embedded.advance(by);
        operator::advance(by);
        Ok(())
    }

    fn compact(&self) {
        self.embedded.compact();
    }

    /// Ends it with all its connections; what was stored in memory is gone with the last reference.
    fn close(&self, python: Python<'_>) {
        let state = std::mem::replace(&mut *self.state(), State::Stopped);
        if let State::Running(running) = state {
            end(python, running);
        }
        self.embedded.close();
    }
}

impl Cluster {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is this thread that starts the cluster.
    fn begin(&self) -> bool {
        let mut state = self.state();
        let is_stopped = matches!(*state, State::Stopped);
        if is_stopped {
            *state = State::Starting;
        }
        is_stopped
    }

    /// Takes what was started, and gives it back if somebody has closed the cluster meanwhile.
    fn finish(&self, running: Running) -> Option<Running> {
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

    fn with_running<T>(&self, ask: impl FnOnce(&Running) -> T) -> PyResult<T> {
        match &*self.state() {
            State::Running(running) => Ok(ask(running)),
            State::Stopped | State::Starting => Err(misuse("the cluster is not running")),
        }
    }
}

fn end(python: Python<'_>, Running { server, runtime }: Running) {
    python.detach(|| {
        drop(server);
        runtime.shutdown_timeout(Duration::from_secs(1));
    });
}

/// Runs a command that needs no Python; gives the exit code.
#[pyfunction]
#[pyo3(signature = (arguments, /))]
pub(crate) fn command_line(python: Python<'_>, arguments: Vec<String>) -> u8 {
    python.detach(|| kopf_cli::run(arguments.into_iter().map(Into::into)))
}

/// Write the kubeconfig of an embedded cluster to a file that the user has named, unless it is somebody else's.
#[pyfunction]
#[pyo3(signature = (path, text, /))]
pub(crate) fn write_kubeconfig(path: PathBuf, text: &str) -> PyResult<()> {
    kopf_cli::kubeconfig::write(&path, text).map_err(unavailable)
}
