//! The cluster behind a real socket, for the one thing that cannot be tested without: logging in.
//!
//! It speaks as much of HTTP/1.1 as needed, and closes each connection after its answer.

use std::sync::{Arc, Mutex};

use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::cluster::{Asked, Cluster, Failure};

pub struct Wire {
    listener: Arc<TcpListener>,
    url: String,
    /// The only one that is accepted.
    token: Arc<Mutex<String>>,
}

impl Wire {
    pub async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        Self { listener: Arc::new(listener), url, token: Arc::default() }
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }

    pub fn accept_token(&self, token: &str) {
        *self.token.lock().unwrap() = token.to_owned();
    }

    /// Answers all requests from now on.
    pub fn serve(&self, cluster: &Cluster) {
        let (listener, token, cluster) = (Arc::clone(&self.listener), Arc::clone(&self.token), cluster.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(stream, Arc::clone(&token), cluster.clone()));
            }
        });
    }
}

/// One request and its answer.
async fn converse(mut stream: TcpStream, token: Arc<Mutex<String>>, cluster: Cluster) -> Result<(), Failure> {
    let (head, body) = read(&mut stream).await?;
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
    let start = format!("HTTP/1.1 {}\r\nConnection: close\r\n\r\n", response.status());
    stream.write_all(start.as_bytes()).await?;
    let mut content = response.into_body();
    while let Some(frame) = content.frame().await {
        if let Ok(data) = frame?.into_data() {
            stream.write_all(&data).await?;
        }
    }
    Ok(())
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
