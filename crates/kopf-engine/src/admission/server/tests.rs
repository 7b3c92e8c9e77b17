use super::*;

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
async fn what_cannot_be_used_is_told() {
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
