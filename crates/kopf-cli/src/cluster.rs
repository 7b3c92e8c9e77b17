//! `kopf cluster`: the embedded Kubernetes in the foreground.

use std::fs;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use kopf_cluster::{Cluster, KUBERNETES_VERSION, ManifestError, OpenError, Options, ServeError};

use crate::kubeconfig::{self, KubeconfigError};
use crate::manifests::{self, ReadError};

/// Run a Kubernetes API in this process, until it is interrupted.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The port to listen on; any free one by default.
    #[arg(short, long, default_value_t = 0, env = "KOPF_CLUSTER_PORT")]
    port: u16,
    /// The address to listen on. Only this machine can connect by default.
    #[arg(long, default_value = "127.0.0.1", env = "KOPF_CLUSTER_HOST")]
    host: IpAddr,
    /// Where to write the kubeconfig; into the data folder, or a new temporary one by default.
    /// If the file exists and kopf did not write it, kopf keeps it, and the cluster does not start.
    #[arg(long, value_name = "FILE", env = "KOPF_CLUSTER_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// A manifest to apply at the start, or a folder of them; can be repeated.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    manifests: Vec<PathBuf>,
    /// Keep the state in this folder, over restarts; in memory only by default.
    #[arg(long, value_name = "DIR", env = "KOPF_CLUSTER_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// Do not simulate deployments, jobs and pods; there is no node.
    #[arg(long, env = "KOPF_CLUSTER_NO_WORKLOADS")]
    no_workloads: bool,
}

/// Why the cluster cannot run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClusterError {
    #[error("the threads cannot be started: {0}")]
    Runtime(io::Error),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{}: {source}", path.display())]
    Manifest { path: PathBuf, source: ManifestError },
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error("the folder {} of the kubeconfig cannot be made: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("signals cannot be received: {0}")]
    Signal(io::Error),
}

pub(crate) fn run(arguments: Arguments) -> Result<(), ClusterError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(ClusterError::Runtime)?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: Arguments) -> Result<(), ClusterError> {
    let manifests = manifests::read(&arguments.manifests)?;
    // Subscribe before printing the message: a process that waits for it may send a signal at once.
    let interrupted = Interrupted::new().map_err(ClusterError::Signal)?;
    if let Some(path) = &arguments.kubeconfig {
        kubeconfig::check(path)?;
    }
    let location = match (arguments.kubeconfig, &arguments.data_dir) {
        (Some(path), _) => KubeconfigLocation::Named(path),
        (None, Some(folder)) => KubeconfigLocation::DataFolder(folder.join("kubeconfig")),
        (None, None) => KubeconfigLocation::Temporary,
    };
    let mut options = Options { data_dir: arguments.data_dir, ..Options::default() };
    if arguments.no_workloads {
        options.workloads = None;
    }
    let cluster = Cluster::open(options)?;
    let server = cluster.serve(SocketAddr::new(arguments.host, arguments.port)).await?;
    for (path, text) in manifests {
        let applied = cluster.apply(&text, "default").await;
        applied.map_err(|source| ClusterError::Manifest { path, source })?;
    }
    let kubeconfig = Kubeconfig::write(location, &server.kubeconfig())?;
    let message = format!(
        "Kubernetes {KUBERNETES_VERSION} (embedded) listens on {}\n\n\
         \x20 export KUBECONFIG={}\n\
         \x20 kubectl get namespaces\n\n\
         Press Ctrl-C to stop it.\n",
        server.url(),
        kubeconfig.path.display()
    );
    // The cluster serves even if stdout is closed.
    let _ = io::stdout().write_all(message.as_bytes()).and_then(|()| io::stdout().flush());
    interrupted.wait().await;
    Ok(())
}

/// Where to write the kubeconfig.
enum KubeconfigLocation {
    /// The user named the file: an existing one may be theirs.
    Named(PathBuf),
    /// The file belongs to the data folder, and lives as long.
    DataFolder(PathBuf),
    /// A folder that is removed with the cluster.
    Temporary,
}

/// The kubeconfig while the cluster runs.
struct Kubeconfig {
    path: PathBuf,
    /// The temporary folder around it, if it is ours.
    folder: Option<PathBuf>,
}

impl Kubeconfig {
    fn write(location: KubeconfigLocation, text: &str) -> Result<Self, ClusterError> {
        match location {
            KubeconfigLocation::Named(path) => {
                kubeconfig::write(&path, text)?;
                Ok(Self { path, folder: None })
            }
            KubeconfigLocation::DataFolder(path) => {
                kubeconfig::replace(&path, text)?;
                Ok(Self { path, folder: None })
            }
            KubeconfigLocation::Temporary => {
                let folder = std::env::temp_dir().join(format!("kopf-cluster-{}", std::process::id()));
                create_private_folder(&folder)
                    .map_err(|source| ClusterError::Folder { path: folder.clone(), source })?;
                let written = Self { path: folder.join("kubeconfig"), folder: Some(folder) };
                kubeconfig::replace(&written.path, text)?;
                Ok(written)
            }
        }
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            // A leftover in a temporary folder does no harm: the cluster is gone.
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// Creates a folder for this user only; fails if it exists.
fn create_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Ctrl-C, or the request to terminate.
struct Interrupted {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Interrupted {
    #[cfg(unix)]
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    #[cfg(unix)]
    async fn wait(mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    #[cfg(not(unix))]
    fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    async fn wait(self) {
        // Without signals, the cluster runs until the process ends.
        let _ = tokio::signal::ctrl_c().await;
    }
}
