//! The cluster behind a real socket, for what cannot be tested without: logging in, and connections that die in silence.
//!
//! It speaks as much of HTTP/1.1 as needed. Connections are kept, but for those of watches.

use std::sync::{Arc, Mutex};

use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::cluster::{Asked, Cluster, Failure};

pub(crate) struct Wire {
    listener: Arc<TcpListener>,
    url: String,
    /// The only one that is accepted.
    token: Arc<Mutex<String>>,
    /// Counts the failovers: the connections of before are silent after one.
    failovers: watch::Sender<u32>,
    /// How many connections there were.
    connections: Arc<Mutex<usize>>,
}

impl Wire {
    pub(crate) async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        Self {
            listener: Arc::new(listener),
            url,
            token: Arc::default(),
            failovers: watch::Sender::new(0),
            connections: Arc::default(),
        }
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    pub(crate) fn accept_token(&self, token: &str) {
        *self.token.lock().unwrap() = token.to_owned();
    }

    /// All connections stay open, but nothing is ever read from or written to them any more. New ones work.
    pub(crate) fn fail_over(&self) {
        self.failovers.send_modify(|count| *count += 1);
    }

    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }

    /// Answers all requests from now on.
    pub(crate) fn serve(&self, cluster: &Cluster) {
        let (listener, token, cluster) = (Arc::clone(&self.listener), Arc::clone(&self.token), cluster.clone());
        let (failovers, connections) = (self.failovers.clone(), Arc::clone(&self.connections));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                *connections.lock().unwrap() += 1;
                let (token, cluster, mut failover) = (Arc::clone(&token), cluster.clone(), failovers.subscribe());
                tokio::spawn(async move {
                    tokio::select! {
                        biased;
                        // The connection stays open: nobody notices.
                        _ = failover.changed() => std::future::pending().await,
                        _ = converse(&mut stream, token, cluster) => {}
                    }
                });
            }
        });
    }
}

/// Requests and their answers, until the connection ends.
async fn converse(stream: &mut TcpStream, token: Arc<Mutex<String>>, cluster: Cluster) -> Result<(), Failure> {
    loop {
        let (head, body) = read(stream).await?;
        let mut words = head.split(' ');
        let (method, url) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let header = |name: &str| {
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
        };
        let expected = format!("Bearer {}", token.lock().unwrap());
        if header("Authorization") != Some(&expected) {
            stream.write_all(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await?;
            return Ok(());
        }
        let response = cluster.respond(Asked::new(method, path, query, header("Content-Type"), &body)).await?;
        let (status, mut content) = (response.status(), response.into_body());
        if query.contains("watch=true") {
            stream.write_all(format!("HTTP/1.1 {status}\r\nConnection: close\r\n\r\n").as_bytes()).await?;
            while let Some(frame) = content.frame().await {
                if let Ok(data) = frame?.into_data() {
                    stream.write_all(&data).await?;
                }
            }
            return Ok(());
        }
        let content = content.collect().await?.to_bytes();
        let start = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", content.len());
        stream.write_all(&[start.as_bytes(), &content].concat()).await?;
    }
}

async fn read(stream: &mut TcpStream) -> Result<(String, Vec<u8>), Failure> {
    let mut bytes = Vec::new();
    let mut missing = usize::MAX;
    let mut head = String::new();
    while missing > 0 {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err("the connection was closed".into());
        }
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            head = String::from_utf8(bytes[..end].to_vec())?;
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().ok())?
            });
            missing = (end + 4 + length.unwrap_or(0)).saturating_sub(bytes.len());
            if missing == 0 {
                return Ok((head, bytes.split_off(end + 4)));
            }
        }
    }
    Ok((head, Vec::new()))
}
