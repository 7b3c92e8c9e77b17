//! Measures a cluster: its start, its writes, the memory per object, reads and events with many watches.
//!
//! Run with: `cargo run --release -p kopf-cluster --example load -- start`, or
//! `write [KUBECONFIG] [COUNT [CONNECTIONS]]`, `memory [COUNT]`, `watches [OBJECTS [WATCHERS]]`, `pods [COUNT]`,
//! `services [COUNT]`.
//! The results and what they mean: `docs/cluster-performance.md`.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::{AsyncBufReadExt, TryStreamExt};
use kopf_cluster::{Cluster, Options, Server};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use mimalloc::MiMalloc;
use tokio::sync::mpsc;

/// The measured figures are those of this allocator. `kopf cluster` itself runs with the allocator of the system.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::main]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: usize| arguments.get(index).map_or(Ok(default), |text| text.parse());
    match arguments.first().map(String::as_str) {
        Some("start") => start().await,
        Some("write") => write(arguments.get(1).map(String::as_str), number(2, 10_000)?, number(3, 32)?).await,
        Some("memory") => memory(number(1, 50_000)?).await,
        Some("watches") => watches(number(1, 50_000)?, number(2, 200)?).await,
        Some("pods") => pods(number(1, 1000)?).await,
        Some("services") => services(number(1, 1000)?).await,
        _ => Err("one of: start, write, memory, watches, pods, services".into()),
    }
}

/// Measures the time to the first response, for the first cluster of the process and for another one.
async fn start() -> Outcome<()> {
    for what in ["first cluster of the process", "second cluster of the process"] {
        let begin = Instant::now();
        let cluster = Cluster::new(Options::default());
        let made = begin.elapsed();
        let client = Client::new(cluster.service(), "default");
        client.request_text(http::Request::get("/api/v1/namespaces").body(Vec::new())?).await?;
        let answered = begin.elapsed();
        let server = serve(&cluster).await?;
        let served = begin.elapsed();
        connect(&server.kubeconfig()).await?.apiserver_version().await?;
        println!(
            "{what}: made in {:.1} ms, first answer after {:.1} ms; served after {:.1} ms, first answer over TLS after \
             {:.1} ms",
            milliseconds(made),
            milliseconds(answered),
            milliseconds(served),
            milliseconds(begin.elapsed())
        );
    }
    Ok(())
}

/// Creates objects over TLS, on the server of a kubeconfig or on a server that it starts.
async fn write(kubeconfig: Option<&str>, count: usize, connections: usize) -> Outcome<()> {
    let cluster = Cluster::new(Options::default());
    let (_server, text) = match kubeconfig.filter(|path| *path != "-") {
        Some(path) => (None, std::fs::read_to_string(path)?),
        None => {
            let server = serve(&cluster).await?;
            let text = server.kubeconfig();
            (Some(server), text)
        }
    };
    let run = std::process::id();
    let next = Arc::new(AtomicUsize::new(0));
    let begin = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..connections {
        let (client, next) = (connect(&text).await?, Arc::clone(&next));
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return Outcome::Ok(latencies);
                }
                let sent = Instant::now();
                client.request_text(create(&format!("load-{run}-{index}"))?).await?;
                latencies.push(sent.elapsed());
            }
        });
    }
    let mut latencies = Vec::new();
    while let Some(task) = tasks.join_next().await {
        latencies.extend(task??);
    }
    let took = begin.elapsed();
    let rate = count as f64 / took.as_secs_f64();
    println!("{count} objects by {connections} connections in {:.2} s: {rate:.0} per second", took.as_secs_f64());
    println!("latency of a write: {}", quantiles(&mut latencies));
    Ok(())
}

/// Measures the memory of a stored object beyond its JSON.
async fn memory(count: usize) -> Outcome<()> {
    let cluster = Cluster::new(Options::default());
    let client = Client::new(cluster.service(), "default");
    // Fill the history first, so that only objects are counted.
    fill(&client, "before", 5000).await?;
    let list = || async {
        let text = client.request_text(http::Request::get(MAPS).body(Vec::new())?).await?;
        Outcome::Ok(text.len())
    };
    let (memory_before, json_before) = (resident_bytes()?, list().await?);
    let memory_before = memory_before.max(resident_bytes()?);
    fill(&client, "object", count).await?;
    let memory = resident_bytes()?.saturating_sub(memory_before);
    let json = list().await? - json_before;
    println!(
        "{count} objects: {} bytes of memory each, {} bytes of JSON each, {} bytes beyond it",
        memory / count,
        json / count,
        (memory.saturating_sub(json)) / count
    );
    Ok(())
}

/// Measures the times of reads and of the delivery of events, with many objects and many watches.
async fn watches(objects: usize, watchers: usize) -> Outcome<()> {
    let cluster = Cluster::new(Options::default());
    let server = serve(&cluster).await?;
    let local = Client::new(cluster.service(), "default");
    let begin = Instant::now();
    fill(&local, "object", objects).await?;
    println!("{objects} objects written in process in {:.1} s", begin.elapsed().as_secs_f64());
    let listed = Instant::now();
    let list = local.request_text(http::Request::get(format!("{MAPS}?limit=1")).body(Vec::new())?).await?;
    println!("a list with a limit of 1: {:.1} ms", milliseconds(listed.elapsed()));
    let version = serde_json::from_str::<serde_json::Value>(&list)?["metadata"]["resourceVersion"].to_string();
    let (arrived, mut arrivals) = mpsc::channel(watchers * 4);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..watchers {
        let client = connect(&server.kubeconfig()).await?;
        let path = format!("{MAPS}?watch=1&resourceVersion={}", version.trim_matches('"'));
        let lines = client.request_stream(http::Request::get(path).body(Vec::new())?).await?;
        let arrived = arrived.clone();
        tasks.spawn(async move {
            let mut lines = lines.lines();
            while let Ok(Some(_)) = lines.try_next().await {
                if arrived.send(Instant::now()).await.is_err() {
                    return;
                }
            }
        });
    }
    let (writer, reader) = (connect(&server.kubeconfig()).await?, connect(&server.kubeconfig()).await?);
    let (mut writes, mut reads, mut deliveries) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..200 {
        let sent = Instant::now();
        writer.request_text(create(&format!("new-{round}"))?).await?;
        writes.push(sent.elapsed());
        let asked = Instant::now();
        let path = format!("{MAPS}/object-{}", (round * 7919) % objects);
        reader.request_text(http::Request::get(path).body(Vec::new())?).await?;
        reads.push(asked.elapsed());
        for _ in 0..watchers {
            let at = arrivals.recv().await.ok_or("the watches ended")?;
            deliveries.push(at.duration_since(sent));
        }
    }
    println!("with {watchers} watches over TLS, 200 rounds of a write and a read at once:");
    println!("latency of a write:  {}", quantiles(&mut writes));
    println!("latency of a read:   {}", quantiles(&mut reads));
    println!("from the write to each watch: {}", quantiles(&mut deliveries));
    Ok(())
}

/// Measures the time from the creation of a deployment until all its pods are ready.
async fn pods(count: usize) -> Outcome<()> {
    let cluster = Cluster::new(Options::default());
    let client = Client::new(cluster.service(), "default");
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let labels = serde_json::json!({"app": "load"});
    let deployment = serde_json::json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "load"},
        "spec": {"replicas": count, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "busybox"}]},
        }},
    });
    let begin = Instant::now();
    client.request_text(post(path, &deployment)?).await?;
    loop {
        let text = client.request_text(http::Request::get(format!("{path}/load")).body(Vec::new())?).await?;
        let deployment: serde_json::Value = serde_json::from_str(&text)?;
        if deployment["status"]["readyReplicas"] == count {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("{count} pods of one deployment ready after {:.2} s", begin.elapsed().as_secs_f64());
    Ok(())
}

/// Measures the creation of services, each of which gets a unique address.
async fn services(count: usize) -> Outcome<()> {
    let cluster = Cluster::new(Options::default());
    let client = Client::new(cluster.service(), "default");
    let begin = Instant::now();
    for index in 0..count {
        let service = serde_json::json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("load-{index}")},
            "spec": {"ports": [{"port": 80}]},
        });
        client.request_text(post("/api/v1/namespaces/default/services", &service)?).await?;
    }
    let took = begin.elapsed();
    println!("{count} services in {:.2} s: {:.2} ms each", took.as_secs_f64(), milliseconds(took) / count as f64);
    Ok(())
}

/// Creates objects in process.
async fn fill(client: &Client, prefix: &str, count: usize) -> Outcome<()> {
    for index in 0..count {
        client.request_text(create(&format!("{prefix}-{index}"))?).await?;
    }
    Ok(())
}

/// A typical config map of about 500 bytes. It is formatted without a serializer, since the client shares the
/// processors with the measured server.
fn create(name: &str) -> Outcome<http::Request<Vec<u8>>> {
    let settings = "x".repeat(200);
    let body = [
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":""#,
        name,
        r#"","labels":{"app":"load","tier":"test"}},"data":{"settings":""#,
        &settings,
        r#"","mode":"fast"}}"#,
    ];
    let request = http::Request::post(MAPS).header("content-type", "application/json");
    Ok(request.body(body.concat().into_bytes())?)
}

fn post(path: &str, body: &serde_json::Value) -> Outcome<http::Request<Vec<u8>>> {
    let request = http::Request::post(path).header("content-type", "application/json");
    Ok(request.body(serde_json::to_vec(body)?)?)
}

async fn serve(cluster: &Cluster) -> Outcome<Server> {
    Ok(cluster.serve(SocketAddr::from(([127, 0, 0, 1], 0))).await?)
}

/// A client with separate connections.
async fn connect(kubeconfig: &str) -> Outcome<Client> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

fn resident_bytes() -> Outcome<usize> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    let kilobytes: usize = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
    Ok(kilobytes * 1024)
}

fn quantiles(latencies: &mut [Duration]) -> String {
    latencies.sort_unstable();
    let at = |share: f64| {
        let index = (latencies.len() as f64 * share) as usize;
        latencies.get(index.min(latencies.len().saturating_sub(1))).copied().unwrap_or_default()
    };
    format!(
        "p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
        milliseconds(at(0.5)),
        milliseconds(at(0.99)),
        milliseconds(at(1.0))
    )
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
