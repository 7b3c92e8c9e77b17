use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::client::TlsStream;
use x509_parser::prelude::*;

use super::*;
use crate::TimeShift;

fn options(change: impl Fn(&mut ServerOptions)) -> ServerOptions {
    let mut options = ServerOptions::default();
    change(&mut options);
    options
}

#[test]
fn addresses() {
    type Case = (fn(&mut ServerOptions), u16, &'static str);
    let table: &[Case] = &[
        (|_| {}, 9443, "https://localhost:9443"),
        (|options| options.addr = Some("0.0.0.0".into()), 1, "https://127.0.0.1:1"),
        (|options| options.addr = Some("::".into()), 1, "https://[::1]:1"),
        (|options| options.addr = Some("10.1.2.3".into()), 443, "https://10.1.2.3"),
        (|options| options.host = Some("svc.ns".into()), 443, "https://svc.ns"),
        (|options| options.path = Some("/hooks".into()), 1, "https://localhost:1/hooks"),
        (|options| options.path = Some("hooks".into()), 1, "https://localhost:1/hooks"),
        (|options| options.insecure = true, 80, "http://localhost"),
    ];
    for (change, port, expected) in table {
        assert_eq!(options(change).url(*port), *expected);
    }
}

#[tokio::test]
async fn loopback_unless_others_are_to_reach_it() {
    let ips = async |options: ServerOptions| -> Vec<IpAddr> {
        let listeners = options.listen().await.unwrap();
        listeners.iter().map(|listener| listener.local_addr().unwrap().ip()).collect()
    };
    assert!(ips(options(|_| {})).await.iter().all(IpAddr::is_loopback));
    assert!(ips(options(|options| options.addr = Some("127.0.0.1".into()))).await.iter().all(IpAddr::is_loopback));
    assert!(ips(options(|options| options.host = Some("x".into()))).await.iter().all(IpAddr::is_unspecified));
    assert!(ips(options(|options| options.certfile = Some("x".into()))).await.iter().all(IpAddr::is_unspecified));
}

#[tokio::test]
async fn the_error_names_what_cannot_be_used() {
    let failing = async |options: ServerOptions| -> String {
        let answering: Answering = Arc::new(|review| Box::pin(async move { Ok(review.content) }));
        serve(options, &Clock::system(), &Log::silent(), answering, |_| {}).await.unwrap_err().to_string()
    };
    let missing = failing(options(|options| {
        options.certfile = Some("/nonexistent/cert".into());
        options.pkeyfile = Some("/nonexistent/key".into());
    }));
    assert!(missing.await.starts_with("cannot use /nonexistent/cert: "));
    let half = failing(options(|options| options.pkeyfile = Some("/nonexistent/key".into())));
    assert_eq!(half.await, "certfile and pkeyfile are to be given both, or none of them");
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let text = failing(ServerOptions { addr: Some("127.0.0.1".into()), port: Some(port), ..Default::default() }).await;
    assert!(text.starts_with(&format!("cannot listen for webhooks on 127.0.0.1:{port}: ")), "{text}");
}

/// A running server, and the addresses that it has published.
struct Running {
    published: mpsc::UnboundedReceiver<Value>,
    _task: AbortOnDropHandle,
}

struct AbortOnDropHandle(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDropHandle {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Running {
    fn start(options: ServerOptions, clock: &Clock) -> Self {
        let (publish, published) = mpsc::unbounded_channel();
        let clock = clock.clone();
        // The answer shows who has asked.
        let answering: Answering = Arc::new(|review| Box::pin(async move { Ok(review.peer) }));
        let task = tokio::spawn(async move {
            let served = serve(options, &clock, &Log::silent(), answering, |address| drop(publish.send(address))).await;
            panic!("it has ended: {served:?}");
        });
        Self { published, _task: AbortOnDropHandle(task) }
    }

    /// The next address: the port, and the certificate to be trusted.
    async fn address(&mut self) -> (u16, String) {
        let address = self.published.recv().await.unwrap();
        let port = address["url"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
        (port, String::from_utf8(STANDARD.decode(address["caBundle"].as_str().unwrap()).unwrap()).unwrap())
    }
}

/// Asks the server as a client with or without a certificate; gives the server's certificate and its answer.
async fn ask(port: u16, trusted: &str, client: Option<Identity>) -> Result<(Vec<u8>, Value), String> {
    let mut stream = connect(port, trusted, client).await?;
    let certificate = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
    let request = "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
    stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.map_err(|error| error.to_string())?;
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    Ok((certificate, serde_json::from_str(body).unwrap()))
}

/// A connection that has agreed on TLS, and says nothing.
async fn connect(port: u16, trusted: &str, client: Option<Identity>) -> Result<TlsStream<TcpStream>, String> {
    let mut roots = RootCertStore::empty();
    certificates(trusted.as_bytes(), "the authority").unwrap().into_iter().for_each(|root| roots.add(root).unwrap());
    let builder = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match client {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
        None => builder.with_no_client_auth(),
    };
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    connector.connect("localhost".try_into().unwrap(), stream).await.map_err(|error| error.to_string())
}

/// The day when it expires.
fn expiry(certificate: &[u8]) -> i64 {
    let (_, certificate) = X509Certificate::from_der(certificate).unwrap();
    certificate.validity().not_after.timestamp() / 86_400
}

/// In good time, and also if there are files, which do not change.
#[tokio::test]
async fn own_certificates_are_renewed() {
    let file = std::env::temp_dir().join(format!("kopf-clients-{}.pem", std::process::id()));
    let clients = Authority::new(&["client".to_owned()], Clock::system().now()).unwrap();
    std::fs::write(&file, &clients.pem).unwrap();
    for verify_cafile in [None, Some(file.clone())] {
        let time = TimeShift::new();
        let clock = Clock::shifted(time.clone());
        let mut server = Running::start(ServerOptions { verify_cafile, ..Default::default() }, &clock);
        let (port, trusted) = server.address().await;
        let (first, _) = ask(port, &trusted, None).await.unwrap();
        for _ in 0..3 {
            let (before, _) = ask(port, &trusted, None).await.unwrap();
            time.advance(RENEWAL);
            // The address and the authority stay: what was configured in the cluster before goes on to work.
            assert_eq!(server.address().await, (port, trusted.clone()));
            let (after, _) = ask(port, &trusted, None).await.unwrap();
            assert_eq!(expiry(&after) - expiry(&before), 60);
        }
        assert_eq!(expiry(&ask(port, &trusted, None).await.unwrap().0) - expiry(&first), 180);
    }
    std::fs::remove_file(&file).unwrap();
}

#[tokio::test]
async fn certificate_files_are_read_again() {
    let folder = std::env::temp_dir().join(format!("kopf-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (certfile, pkeyfile) = (folder.join("tls.crt"), folder.join("tls.key"));
    let names = ["localhost".to_owned()];
    let write = |now: jiff::Timestamp| {
        let (certificate, key) = crate::self_signed(&names, now).unwrap();
        std::fs::write(&certfile, certificate).unwrap();
        std::fs::write(&pkeyfile, key).unwrap();
    };
    let time = TimeShift::new();
    let clock = Clock::shifted(time.clone());
    write(clock.now());
    let options = ServerOptions {
        addr: Some("127.0.0.1".into()),
        host: Some("localhost".into()),
        certfile: Some(certfile.clone()),
        pkeyfile: Some(pkeyfile.clone()),
        ..Default::default()
    };
    let mut server = Running::start(options, &clock);
    let (port, trusted) = server.address().await;
    let (first, _) = ask(port, &trusted, None).await.unwrap();

    // Half-written files are not used, and do no harm.
    std::fs::write(&certfile, "-----BEGIN CERTIFICATE-----").unwrap();
    time.advance(Duration::from_secs(60));
    assert_eq!(ask(port, &trusted, None).await.unwrap().0, first);

    time.advance(Duration::from_secs(86_400 * 30));
    write(clock.now());
    time.advance(Duration::from_secs(60));
    let (same_port, renewed) = server.address().await;
    assert_eq!(same_port, port);
    assert_ne!(renewed, trusted);
    assert_eq!(expiry(&ask(port, &renewed, None).await.unwrap().0) - expiry(&first), 30);
    assert!(ask(port, &trusted, None).await.is_err());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn clients_are_known_by_their_certificates() {
    let clock = Clock::system();
    let clients = Authority::for_clients(clock.now());
    let strangers = Authority::for_clients(clock.now());
    for verify in [ClientCertificates::Unasked, ClientCertificates::Optional, ClientCertificates::Required] {
        let options = ServerOptions { verify, verify_cadata: Some(clients.pem.clone()), ..Default::default() };
        let mut server = Running::start(options, &clock);
        let (port, trusted) = server.address().await;
        let (_, peer) = ask(port, &trusted, Some(clients.issue_for_client("apiserver", clock.now()))).await.unwrap();
        assert_eq!(peer["subject"], json!([[["commonName", "apiserver"]]]));
        assert_eq!(peer["issuer"], json!([[["commonName", "kopf webhooks"]]]));
        let unknown = ask(port, &trusted, Some(strangers.issue_for_client("apiserver", clock.now()))).await;
        assert!(unknown.is_err(), "{unknown:?}");
        let unnamed = ask(port, &trusted, None).await;
        match verify {
            ClientCertificates::Required => assert!(unnamed.is_err(), "{unnamed:?}"),
            _ => assert_eq!(unnamed.unwrap().1, json!({})),
        }
    }
}

/// Whether the other side has closed the connection by now; nothing is waited for.
fn is_closed(stream: &TcpStream) -> bool {
    match stream.try_read(&mut [0; 1024]) {
        Ok(0) => true,
        Ok(_) => is_closed(stream),
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

/// As many as there are permits, twice: some that have agreed on TLS, and some that have not.
#[tokio::test(start_paused = true)]
async fn silent_connections_keep_nobody_out() {
    let clock = Clock::system();
    let mut server = Running::start(ServerOptions::default(), &clock);
    let (port, trusted) = server.address().await;
    let mut silent = Vec::new();
    for _ in 0..256 {
        silent.push(connect(port, &trusted, None).await.unwrap());
    }
    let began = clock.instant();
    assert_eq!(ask(port, &trusted, None).await.unwrap().1, json!({}));
    assert!(is_closed(silent[0].get_ref().0) && !is_closed(silent[255].get_ref().0));
    let mut mute = Vec::new();
    for _ in 0..256 {
        mute.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
    }
    assert_eq!(ask(port, &trusted, None).await.unwrap().1, json!({}));
    // They were closed for others, not because of their silence.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// What a client sends, and when the server closes its connection.
#[tokio::test(start_paused = true)]
async fn connections_that_say_nothing_are_closed_in_time() {
    let clock = Clock::system();
    let mut server = Running::start(ServerOptions::default(), &clock);
    let (port, trusted) = server.address().await;
    let began = clock.instant();
    let mut mute = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let _ = mute.read_to_end(&mut Vec::new()).await;
    assert_eq!(began.elapsed().as_secs(), 10, "before TLS");

    let began = clock.instant();
    let mut silent = connect(port, &trusted, None).await.unwrap();
    let _ = silent.read_to_end(&mut Vec::new()).await;
    assert_eq!(began.elapsed().as_secs(), 10, "before the first request");

    let began = clock.instant();
    let mut slow = connect(port, &trusted, None).await.unwrap();
    slow.write_all(b"POST / HTTP/1.1\r\nHost: local").await.unwrap();
    let _ = slow.read_to_end(&mut Vec::new()).await;
    assert_eq!(began.elapsed().as_secs(), 10, "in the middle of the first head");

    let began = clock.instant();
    let mut idle = connect(port, &trusted, None).await.unwrap();
    idle.write_all(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}").await.unwrap();
    let mut answer = Vec::new();
    let _ = idle.read_to_end(&mut answer).await;
    assert!(answer.starts_with(b"HTTP/1.1 200 "));
    assert_eq!(began.elapsed().as_secs(), 60, "after an answer");

    let began = clock.instant();
    let mut slow = connect(port, &trusted, None).await.unwrap();
    slow.write_all(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{").await.unwrap();
    let mut answer = Vec::new();
    let _ = slow.read_to_end(&mut answer).await;
    assert!(answer.starts_with(b"HTTP/1.1 408 "));
    assert!((30..=90).contains(&began.elapsed().as_secs()), "in the middle of a body: {:?}", began.elapsed());
}
