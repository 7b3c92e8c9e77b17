//! Requests and answers on one connection.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;

use super::*;

fn exchange(path: &str) -> Exchange {
    let answering: Answering = Arc::new(|review| Box::pin(async move { Ok(review.content) }));
    Exchange::new(path, Arc::default(), Clock::system(), answering)
}

#[test]
fn paths() {
    let id = |id: &str| Some(Some(id.to_owned()));
    let table = [
        ("", "/", Some(None)),
        ("", "/fn", id("fn")),
        ("", "/fn/spec.field", id("fn/spec.field")),
        ("", "/outer.%3Clocals%3E.fn", id("outer.<locals>.fn")),
        ("", "/%ff", None),
        ("/base/", "/base", Some(None)),
        ("base", "/base/fn", id("fn")),
        ("/base", "/other/fn", None),
        ("/base", "/basement", None),
    ];
    for (base, path, expected) in table {
        assert_eq!(exchange(base).webhook_of(path), expected, "{base} {path}");
    }
}

/// Sends a request, and reads until the end of the connection.
async fn send(address: std::net::SocketAddr, query: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let text =
        format!("POST /{query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// The first request takes most of the budget until it is answered; the second one waits as long as its client does.
#[tokio::test(start_paused = true)]
async fn bodies_of_all_requests_are_bounded() {
    let (arrived, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (Arc::clone(&arrived), Arc::clone(&release));
    let answering: Answering = Arc::new(move |review: Review| {
        let (tell, wait) = (Arc::clone(&tell), Arc::clone(&wait));
        Box::pin(async move {
            if review.webhook.as_deref() == Some("slow") {
                tell.notify_one();
                wait.notified().await;
            }
            Ok(Value::from("fine"))
        })
    });
    let exchange = Exchange::new("", Arc::default(), Clock::system(), answering);
    let exchange = Arc::new(Exchange { budget: Semaphore::new(1000), ..exchange });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(Arc::clone(&exchange).accept(listener));
    let (large, small) = (format!("\"{}\"", "x".repeat(898)), format!("\"{}\"", "x".repeat(198)));
    let slow = tokio::spawn(async move { send(address, "slow", &large).await });
    arrived.notified().await;
    let began = tokio::time::Instant::now();
    let refused = send(address, "?timeout=5s", &small).await;
    assert!(refused.starts_with("HTTP/1.1 503 ") && began.elapsed().as_secs() == 5, "{refused}");
    let waiting = tokio::spawn(async move { send(address, "?timeout=5s", &small).await });
    tokio::time::sleep(Duration::from_secs(2)).await;
    release.notify_one();
    for answer in [slow.await.unwrap(), waiting.await.unwrap()] {
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    assert_eq!(exchange.budget.available_permits(), 1000);
}

#[test]
fn content_types() {
    let table = [
        (None, true),
        (Some("application/json"), true),
        (Some("Application/JSON; charset=utf-8"), true),
        (Some("application/vnd.x+json"), true),
        (Some("text/plain"), false),
        (Some("application/x-www-form-urlencoded"), false),
    ];
    for (value, expected) in table {
        let mut headers = HeaderMap::new();
        value.map(|value| headers.insert(CONTENT_TYPE, HeaderValue::from_static(value)));
        assert_eq!(is_json(&headers), expected, "{value:?}");
    }
}

#[test]
fn timeouts() {
    let table = [
        (Some("timeout=10s"), Some(10)),
        (Some("a=b&timeout=5s"), Some(5)),
        (Some("timeout=x"), None),
        (Some("timeout=-1s"), None),
        (None, None),
    ];
    for (query, expected) in table {
        assert_eq!(timeout_of(query), expected.map(Duration::from_secs), "{query:?}");
    }
}
