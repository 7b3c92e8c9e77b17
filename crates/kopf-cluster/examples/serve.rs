//! Serves an embedded cluster until it is interrupted.
//!
//! Run with: `cargo run -p kopf-cluster --example serve -- /tmp/kubeconfig [port [data-directory]]`
//! With `KOPF_CLUSTER_WORKLOADS=0`, there are no nodes, and nothing becomes of deployments and jobs.

use std::net::SocketAddr;

use kopf_cluster::{Cluster, Options};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let kubeconfig = arguments.next().unwrap_or_else(|| "kubeconfig.yaml".to_owned());
    let port = arguments.next().map_or(Ok(0), |port| port.parse())?;
    let data_dir = arguments.next().map(Into::into);
    let mut options = Options { data_dir, ..Options::default() };
    if std::env::var("KOPF_CLUSTER_WORKLOADS").is_ok_and(|wanted| wanted == "0") {
        options.workloads = None;
    }
    let cluster = Cluster::open(options)?;
    let server = cluster.serve(SocketAddr::from(([127, 0, 0, 1], port))).await?;
    std::fs::write(&kubeconfig, server.kubeconfig())?;
    println!("{} is served; export KUBECONFIG={kubeconfig}", server.url());
    tokio::signal::ctrl_c().await?;
    Ok(())
}
