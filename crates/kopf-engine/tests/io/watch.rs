//! Streams: listing, watching, and coming back from whatever ends them.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kopf_engine::{
    EventType, OnForbidden, SelectorCallbacks, Severity, StreamHealth, StreamItem, StreamState, WatchStream,
    WatchingSettings,
};
use kopf_reaction::Resource;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::fake::{Answer, Fake, Seen, Step, status};

/// The functions of the user, by their indexes.
struct OnlyThings;

const YES: usize = 5;
const NO: usize = 6;

impl SelectorCallbacks for OnlyThings {
    fn resource(&self, _: usize, _: Arc<Resource>) -> BoxFuture<'_, bool> {
        Box::pin(async { false })
    }

    fn setting(&self, index: usize, resource: Arc<Resource>) -> BoxFuture<'_, bool> {
        Box::pin(async move { index == YES && resource.plural == "things" })
    }

    fn namespace(&self, _: usize, _: String) -> BoxFuture<'_, bool> {
        Box::pin(async { false })
    }
}

struct Running {
    fake: Fake,
    items: mpsc::Receiver<StreamItem>,
    health: Arc<StreamHealth>,
    task: tokio::task::JoinHandle<()>,
}

fn start(settings: WatchingSettings, on_forbidden: OnForbidden, fake: Fake) -> Running {
    let (sender, items) = mpsc::channel(100);
    let health = Arc::new(StreamHealth::default());
    let resource = Resource {
        group: "g.io".into(),
        version: "v1".into(),
        plural: "things".into(),
        namespaced: true,
        preferred: true,
        ..Resource::default()
    };
    let stream = WatchStream {
        api: fake.api(),
        settings: Arc::new(settings),
        clock: fake.clock.clone(),
        log: fake.log.clone(),
        resource: Arc::new(resource),
        namespace: Some("ns".into()),
        health: Arc::clone(&health),
        on_forbidden,
        selector_callbacks: Arc::new(OnlyThings),
    };
    let task = tokio::spawn(stream.run(sender));
    Running { fake, items, health, task }
}

fn run(respond: impl FnMut(&Seen) -> Answer + Send + 'static) -> Running {
    start(WatchingSettings::default(), OnForbidden::Warn, Fake::new(respond))
}

impl Running {
    /// The next items as short texts: `list`, `done`, or the kind with the name and the version.
    async fn next(&mut self, count: usize) -> Vec<String> {
        let mut texts = Vec::new();
        for _ in 0..count {
            let item = tokio::time::timeout(Duration::from_secs(100_000), self.items.recv()).await;
            texts.push(match item.expect("an item in time").expect("a running stream") {
                StreamItem::ListStarted => "list".to_owned(),
                StreamItem::Rewound => "rewound".to_owned(),
                StreamItem::ListDone => "done".to_owned(),
                StreamItem::Forbidden { listing } => format!("forbidden listing={listing}"),
                StreamItem::Event { event, raw } => {
                    let object: Value = serde_json::from_slice(&raw).unwrap();
                    assert_eq!((&object["apiVersion"], &object["kind"]), (&json!("g.io/v1"), &json!("Thing")));
                    let kind = match event {
                        EventType::Listed => "=",
                        EventType::Added => "+",
                        EventType::Modified => "~",
                        EventType::Deleted => "-",
                    };
                    let metadata = &object["metadata"];
                    format!(
                        "{kind}{}@{}",
                        metadata["name"].as_str().unwrap(),
                        metadata["resourceVersion"].as_str().unwrap()
                    )
                }
            });
        }
        texts
    }

    fn watches(&self) -> Vec<Seen> {
        self.fake.requests().into_iter().filter(Seen::is_watch).collect()
    }
}

fn object(name: &str, version: &str) -> Value {
    json!({"apiVersion": "g.io/v1", "kind": "Thing", "metadata": {"name": name, "resourceVersion": version}})
}

fn line(kind: &str, name: &str, version: &str) -> Step {
    Step::Line(json!({"type": kind, "object": object(name, version)}))
}

/// The end of the initial events of a watch.
fn last_bookmark(version: &str) -> Step {
    let metadata = json!({"resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"}});
    Step::Line(json!({"type": "BOOKMARK", "object": {"metadata": metadata}}))
}

fn bookmark(version: &str) -> Step {
    Step::Line(json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": version}}}))
}

fn error(code: u16) -> Step {
    Step::Line(json!({"type": "ERROR", "object": {"kind": "Status", "code": code}}))
}

/// A page of items without what lists leave out.
fn page(version: &str, next: &str, names: &[&str]) -> Answer {
    let items = names.iter().map(|name| json!({"metadata": {"name": name, "resourceVersion": "1"}}));
    Answer::Json(
        200,
        json!({
            "apiVersion": "g.io/v1", "kind": "ThingList",
            "metadata": {"resourceVersion": version, "continue": next},
            "items": items.collect::<Vec<_>>(),
        }),
    )
}

#[tokio::test(start_paused = true)]
async fn pages_are_listed_and_then_watched_across_reconnects() {
    let mut watches = 0;
    let mut running = run(move |seen| {
        if !seen.is_watch() {
            return match (seen.parameter("limit"), seen.parameter("continue")) {
                // After the break: is it the same server still?
                (Some("1"), _) => page("20", "t/k", &["a"]),
                (_, None) => page("10", "t/k", &["a", "b"]),
                (_, Some(_)) => page("10", "", &["c"]),
            };
        }
        watches += 1;
        match watches {
            1 => Answer::Stream(vec![line("ADDED", "d", "11"), line("MODIFIED", "a", "12"), Step::End]),
            2 => Answer::Stream(vec![bookmark("20"), Step::Wait(Duration::from_secs(9)), Step::Break]),
            _ => Answer::Stream(vec![line("DELETED", "a", "21")]),
        }
    });
    let items = running.next(8).await;
    assert_eq!(items, ["list", "=a@1", "=b@1", "=c@1", "done", "+d@11", "~a@12", "-a@21"]);
    let urls = running.fake.urls();
    assert_eq!(urls[0], "/apis/g.io/v1/namespaces/ns/things?limit=250");
    assert_eq!(urls[1], "/apis/g.io/v1/namespaces/ns/things?limit=250&continue=t%2Fk");
    assert_eq!(urls[2], "/apis/g.io/v1/namespaces/ns/things?watch=true&allowWatchBookmarks=true&resourceVersion=10");
    let versions: Vec<_> =
        running.watches().iter().map(|seen| seen.parameter("resourceVersion").unwrap().to_owned()).collect();
    assert_eq!(versions, ["10", "12", "20"]);
    assert!(running.fake.warnings().is_empty(), "{:?}", running.fake.warnings());
    assert_eq!((running.health.state(), running.health.restarts()), (StreamState::Watching, 2));
    assert_eq!((running.health.failures(), running.health.listings()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_version_too_old_lists_again() {
    let (mut lists, mut watches) = (0, 0);
    let mut running = run(move |seen| {
        if !seen.is_watch() {
            lists += 1;
            return if lists == 1 { page("10", "", &["a", "b"]) } else { page("30", "", &["b"]) };
        }
        watches += 1;
        match watches {
            1 => Answer::Stream(vec![error(410)]),
            // The same by the code of the answer.
            2 => status(410),
            _ => Answer::Stream(vec![line("ADDED", "c", "31")]),
        }
    });
    let expected = ["list", "=a@1", "=b@1", "done", "list", "=b@1", "done", "list", "=b@1", "done", "+c@31"];
    assert_eq!(running.next(11).await, expected);
    assert!(running.fake.warnings().is_empty(), "{:?}", running.fake.warnings());
}

/// A 410 with the token to go on from, as servers send it.
fn expired(next: &str) -> Answer {
    Answer::Json(410, json!({"kind": "Status", "code": 410, "metadata": {"continue": next}}))
}

/// The stream lists the current state of the rest of an expired listing, then all objects once more, without pauses.
#[tokio::test(start_paused = true)]
async fn listings_that_expire_go_on_and_are_repeated() {
    let mut lists = 0;
    let mut running = run(move |seen| {
        if seen.is_watch() {
            return Answer::Stream(vec![line("ADDED", "d", "31")]);
        }
        lists += 1;
        match (lists, seen.parameter("continue")) {
            (1, None) => page("10", "t1", &["a"]),
            (2, Some("t1")) => expired("t2"),
            (3, Some("t2")) => page("20", "t3", &["b"]),
            (4, Some("t3")) => expired("t4"),
            (5, Some("t4")) => page("29", "", &["c"]),
            (6, None) => page("30", "", &["b", "c"]),
            other => panic!("{other:?}"),
        }
    });
    let start = running.fake.clock.instant();
    let expected = ["list", "=a@1", "=b@1", "=c@1", "list", "=b@1", "=c@1", "done", "+d@31"];
    assert_eq!(running.next(9).await, expected);
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(running.watches()[0].parameter("resourceVersion"), Some("30"));
    assert_eq!((running.health.failures(), running.health.restarts(), running.health.listings()), (0, 0, 1));
    assert!(running.fake.warnings().is_empty(), "{:?}", running.fake.warnings());
}

/// If there is no end of that, then there are pauses in it.
#[tokio::test(start_paused = true)]
async fn listings_that_always_expire_are_repeated_with_pauses() {
    let mut running = run(move |seen| match seen.parameter("continue") {
        None => page("10", "t1", &["a"]),
        Some("t1") => expired("t2"),
        _ => page("20", "", &["b"]),
    });
    let start = running.fake.clock.instant();
    running.next(3 * 5).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    running.next(1).await;
    assert!(start.elapsed() > Duration::ZERO);
    assert_eq!(running.health.listings(), 0);
}

/// A server that always refuses with yet another token gets no endless sequence of requests.
#[tokio::test(start_paused = true)]
async fn listings_that_never_go_on_start_again_after_a_pause() {
    let mut lists = 0;
    let mut running = run(move |seen| {
        if seen.is_watch() {
            return Answer::Stream(Vec::new());
        }
        lists += 1;
        match (lists, seen.parameter("continue")) {
            (1, None) => page("10", "t1", &["a"]),
            (2, Some("t1")) => expired("t2"),
            (3, Some("t2")) => expired("t3"),
            (4, None) => page("20", "", &["a"]),
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(running.next(5).await, ["list", "=a@1", "list", "=a@1", "done"]);
}

#[tokio::test(start_paused = true)]
async fn silence_ends_a_watch_but_events_keep_it_alive() {
    let mut watches = 0;
    let mut running = run(move |seen| {
        if !seen.is_watch() {
            return page("10", "", &[]);
        }
        watches += 1;
        match watches {
            1 => Answer::Stream(vec![
                Step::Wait(Duration::from_secs(60)),
                line("ADDED", "a", "11"),
                Step::Wait(Duration::from_secs(60)),
                line("ADDED", "b", "12"),
            ]),
            _ => Answer::Stream(vec![line("ADDED", "c", "13")]),
        }
    });
    let start = running.fake.clock.instant();
    assert_eq!(running.next(5).await, ["list", "done", "+a@11", "+b@12", "+c@13"]);
    // Two pauses with events, one silence, and the pause before the reconnect.
    assert_eq!(start.elapsed().as_secs(), 60 + 60 + 70);
    assert_eq!(running.watches().last().unwrap().parameter("resourceVersion"), Some("12"));
    let debug = running.fake.logged(Severity::Debug);
    assert!(
        debug.contains(&"Watch-stream for things.v1.g.io in 'ns' is inactive, reconnecting.".to_owned()),
        "{debug:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_for_ever_and_logged_once() {
    let mut count = 0;
    let mut running = run(move |seen| {
        if !seen.is_watch() {
            count += 1;
            return match count {
                1..=30 => status(403),
                31 => Answer::Broken,
                32 => Answer::Json(200, json!("nonsense")),
                _ => page("10", "", &["a"]),
            };
        }
        Answer::Stream(vec![line("ADDED", "b", "11")])
    });
    assert_eq!(running.next(4).await, ["list", "=a@1", "done", "+b@11"]);
    let warnings = running.fake.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("The watch-stream for things.v1.g.io in 'ns' has failed, retrying: GET /apis/"),
        "{warnings:?}"
    );
    let restored = "The watch-stream for things.v1.g.io in 'ns' works again.".to_owned();
    assert!(running.fake.logged(Severity::Info).contains(&restored));
    assert_eq!((running.health.failures(), running.health.last_error()), (0, None));
    assert_eq!(running.health.restarts(), 32);
}

#[tokio::test(start_paused = true)]
async fn a_resource_on_its_way_is_awaited_quickly_and_silently() {
    let mut count = 0;
    let mut running = run(move |seen| {
        if seen.is_watch() {
            return Answer::Stream(Vec::new());
        }
        count += 1;
        match count {
            1..=3 => status(404),
            4..=6 => Answer::Later(429, "1"),
            _ => page("10", "", &[]),
        }
    });
    let start = running.fake.clock.instant();
    assert_eq!(running.next(2).await, ["list", "done"]);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert!(running.fake.warnings().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_does_not_spin() {
    let running = run(|seen| if seen.is_watch() { Answer::Stream(vec![Step::End]) } else { page("10", "", &[]) });
    tokio::time::sleep(Duration::from_secs(600)).await;
    let watches = running.watches().len();
    assert!((10..40).contains(&watches), "{watches}");
    assert_eq!(running.fake.warnings().len(), 1);
    assert_eq!(running.health.state(), StreamState::Waiting);
}

#[tokio::test(start_paused = true)]
async fn a_broken_line_or_an_unknown_error_is_no_end() {
    let mut watches = 0;
    let mut running = run(move |seen| {
        if !seen.is_watch() {
            return page("10", "", &[]);
        }
        watches += 1;
        match watches {
            1 => Answer::Stream(vec![line("ADDED", "a", "11"), Step::Raw("{\"type\":\"ADD"), Step::End]),
            2 => Answer::Stream(vec![Step::Raw("rubbish\n")]),
            3 => Answer::Stream(vec![error(500)]),
            4 => Answer::Stream(vec![Step::Line(json!({"type": "NOVEL", "object": {}})), line("ADDED", "b", "12")]),
            _ => Answer::Silence,
        }
    });
    assert_eq!(running.next(4).await, ["list", "done", "+a@11", "+b@12"]);
    let versions: Vec<_> =
        running.watches().iter().map(|seen| seen.parameter("resourceVersion").unwrap().to_owned()).collect();
    assert_eq!(versions, ["10", "11", "11", "11"]);
    assert!(running.fake.warnings().contains(&"Ignoring an unsupported event type: \"NOVEL\"".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn initial_streaming_lists_by_the_watch() {
    let mut watches = 0;
    let fake = Fake::new(move |seen| {
        assert!(seen.is_watch());
        watches += 1;
        match watches {
            // It breaks off before the end of the initial events: all of them come again.
            1 => Answer::Stream(vec![line("ADDED", "a", "5"), Step::End]),
            // A bookmark in the middle does not end them: what comes after it is still a part of the list.
            2 => Answer::Stream(vec![line("ADDED", "a", "5"), bookmark("7"), Step::End]),
            3 => Answer::Stream(vec![
                line("ADDED", "a", "5"),
                bookmark("7"),
                line("ADDED", "c", "8"),
                last_bookmark("9"),
                line("ADDED", "b", "10"),
                Step::End,
            ]),
            _ => Answer::Stream(vec![line("MODIFIED", "b", "11")]),
        }
    });
    let settings = WatchingSettings { initial_streaming: true, ..WatchingSettings::default() };
    let mut running = start(settings, OnForbidden::Warn, fake);
    let expected = ["list", "=a@5", "list", "=a@5", "list", "=a@5", "=c@8", "done", "+b@10", "~b@11"];
    assert_eq!(running.next(10).await, expected);
    let watches = running.watches();
    for watch in &watches[..3] {
        assert_eq!(watch.parameter("sendInitialEvents"), Some("true"));
        assert_eq!(watch.parameter("resourceVersionMatch"), Some("NotOlderThan"));
        assert_eq!(watch.parameter("resourceVersion"), None);
    }
    assert_eq!(watches[3].parameter("sendInitialEvents"), None);
    assert_eq!(watches[3].parameter("resourceVersion"), Some("10"));
}

#[tokio::test(start_paused = true)]
async fn initial_streaming_falls_back_to_lists() {
    let fake = Fake::new(|seen| match (seen.is_watch(), seen.parameter("sendInitialEvents")) {
        (true, Some(_)) => status(422),
        (true, None) => Answer::Stream(Vec::new()),
        (false, _) => page("10", "", &["a"]),
    });
    let settings = WatchingSettings { initial_streaming: true, ..WatchingSettings::default() };
    let mut running = start(settings, OnForbidden::Warn, fake);
    assert_eq!(running.next(3).await, ["list", "=a@1", "done"]);
}

#[tokio::test(start_paused = true)]
async fn settings_shape_the_requests() {
    let selector = |name: &str, value: &str| {
        serde_json::from_value(json!({"selector": {"any_name": name}, "value": value})).unwrap()
    };
    let function = |index: usize, value: &str| {
        serde_json::from_value(json!({"selector": {"callback": true}, "value": value, "index": index})).unwrap()
    };
    let settings = WatchingSettings {
        chunk_size: Some(7),
        server_timeout: Some(9.5),
        client_timeout: Some(30.0),
        label_selectors: vec![selector("things", "b=1"), selector("things", "a"), selector("others", "x")],
        field_selectors: vec![selector("things", "metadata.name=n"), function(YES, "x=y"), function(NO, "z=z")],
        shard_selectors: vec![function(NO, "no"), function(YES, "yes"), selector("things", "late")],
        ..WatchingSettings::default()
    };
    let fake = Fake::new(|seen| if seen.is_watch() { Answer::Stream(Vec::new()) } else { page("10", "", &[]) });
    let mut running = start(settings, OnForbidden::Warn, fake);
    running.next(2).await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    let urls = running.fake.urls();
    let filters = "labelSelector=a%2Cb%3D1&fieldSelector=metadata.name%3Dn%2Cx%3Dy&shardSelector=yes";
    assert_eq!(urls[0], format!("/apis/g.io/v1/namespaces/ns/things?limit=7&{filters}"));
    let watch = format!(
        "/apis/g.io/v1/namespaces/ns/things?watch=true&allowWatchBookmarks=true&{filters}&resourceVersion=10&timeoutSeconds=10"
    );
    assert_eq!(urls[1..], [watch.clone(), watch]);
}

#[tokio::test(start_paused = true)]
async fn consumers_may_be_notified_of_missing_permissions() {
    let fake = Fake::new(|seen| if seen.is_watch() { status(403) } else { page("10", "", &[]) });
    let mut running = start(WatchingSettings::default(), OnForbidden::Notify, fake);
    assert_eq!(running.next(3).await, ["list", "done", "forbidden listing=false"]);
    assert!(running.fake.warnings().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_nobody_reads() {
    let Running { items, health, task, .. } =
        run(
            |seen| {
                if seen.is_watch() { Answer::Stream(vec![line("ADDED", "a", "11")]) } else { page("10", "", &["b"]) }
            },
        );
    drop(items);
    task.await.unwrap();
    assert_eq!(health.state(), StreamState::Stopped);
}
