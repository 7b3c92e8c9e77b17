//! Requests: what is repeated, what is not, and how many there are at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use kopf_engine::{Api, ApiError, NetworkingSettings, PatchKind, Severity, Vault};
use serde_json::{Value, json};

use crate::fake::{Answer, Fake, status};

/// Answers one after the other; the last one for ever.
fn script(answers: Vec<fn() -> Answer>) -> Fake {
    let mut index = 0;
    Fake::new(move |_| {
        let answer = answers[index.min(answers.len() - 1)];
        index += 1;
        answer()
    })
}

fn ok() -> Answer {
    Answer::Json(200, json!({"fine": true}))
}

async fn patch(api: &Api) -> Result<Bytes, ApiError> {
    api.patch("/x", PatchKind::Merge, Bytes::from_static(b"{}")).await
}

#[tokio::test(start_paused = true)]
async fn reads_are_repeated_with_the_backoffs() {
    let fake = script(vec![|| status(500), || Answer::Broken, || status(429), ok]);
    let api = fake.api();
    let start = fake.clock.instant();
    let answer: Value = api.get_json("/x").await.unwrap();
    assert_eq!(answer, json!({"fine": true}));
    assert_eq!(start.elapsed().as_secs(), 1 + 1 + 2);
    assert_eq!(fake.requests().len(), 4);
    let warnings = fake.warnings();
    assert_eq!(warnings[0], "Request attempt #1/9 failed; will retry: GET /x: 500 code 500");
    let counts = api.counters().snapshot();
    assert_eq!(counts, [("get", "2xx", 1), ("get", "429", 1), ("get", "5xx", 1), ("get", "error", 1)]);
}

/// A silence is most probably that of a dead connection; but a server that is just slow gets the whole time at last.
#[tokio::test(start_paused = true)]
async fn silence_is_taken_for_a_dead_connection_first() {
    let fake = script(vec![|| Answer::Silence, || Answer::Late(Duration::from_secs(200), json!({"fine": true}))]);
    let api = fake.api();
    let start = fake.clock.instant();
    // It is tried once, as the first page of a list; that there was no connection does not count.
    assert_eq!(api.get_as("/x", "application/json", Some(&[])).await.unwrap(), r#"{"fine":true}"#);
    assert_eq!(start.elapsed().as_secs(), 65 + 200);
    let text = "Request attempt #1/1 failed; will retry on a new connection: GET /x: no answer in 65 seconds";
    assert_eq!(fake.warnings(), [text]);

    let fake = script(vec![|| Answer::Silence]);
    let start = fake.clock.instant();
    assert!(matches!(fake.api().get_as("/x", "application/json", Some(&[])).await, Err(ApiError::Timeout { .. })));
    assert_eq!(start.elapsed().as_secs(), 65 + 300);
}

/// The setting, and how long a silent patch and a silent watch are waited for.
#[tokio::test(start_paused = true)]
async fn silent_answers_are_waited_for_as_long_as_servers_live() {
    for (request_timeout, patching, watching) in
        [(None, 65, 30), (Some(300.0), 65, 30), (Some(400.0), 400, 30), (Some(7.0), 7, 7)]
    {
        let fake = script(vec![|| Answer::Silence]);
        let api = fake.api_with(&NetworkingSettings { request_timeout, ..NetworkingSettings::default() });
        let start = fake.clock.instant();
        let error = patch(&api).await.unwrap_err();
        assert!(matches!(error, ApiError::Unclear { .. }), "{error}");
        assert_eq!(start.elapsed().as_secs(), patching, "{request_timeout:?}");
        let start = fake.clock.instant();
        assert!(matches!(api.watch_stream("/x?watch=true", None).await, Err(ApiError::Timeout { .. })));
        assert_eq!(start.elapsed().as_secs(), watching, "{request_timeout:?}");
        let start = fake.clock.instant();
        assert!(api.watch_stream("/x?watch=true", Some(Duration::from_secs(50))).await.is_err());
        assert_eq!(start.elapsed().as_secs(), 50, "{request_timeout:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn reads_give_up_after_the_last_backoff() {
    let fake = script(vec![|| status(503)]);
    let settings = NetworkingSettings { error_backoffs: vec![1.0, 2.0], ..NetworkingSettings::default() };
    let error = fake.api_with(&settings).get("/x").await.unwrap_err();
    assert!(matches!(error, ApiError::Server(_)), "{error}");
    assert_eq!(fake.requests().len(), 3);
    assert!(fake.warnings()[2].starts_with("Request attempt #3/3 failed; escalating: GET /x"));
}

#[tokio::test(start_paused = true)]
async fn the_server_may_ask_for_a_longer_pause() {
    // What the server asks for, whether that is enforced, and the pause.
    let cases = [("7", false, 7), ("0", false, 1), ("0", true, 0)];
    for (asked, enforce_retry_after, expected) in cases {
        let mut count = 0;
        let fake = Fake::new(move |_| {
            count += 1;
            if count == 1 { Answer::Later(429, asked) } else { ok() }
        });
        let settings = NetworkingSettings { enforce_retry_after, ..NetworkingSettings::default() };
        let start = fake.clock.instant();
        fake.api_with(&settings).get("/x").await.unwrap();
        assert_eq!(start.elapsed().as_secs(), expected, "{asked} {enforce_retry_after}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_refusal_is_its_own_error_and_is_never_retried() {
    type Check = fn(&ApiError) -> bool;
    let cases: [(fn() -> Answer, Check); 6] = [
        (|| status(400), |error| matches!(error, ApiError::Client(_))),
        (|| status(403), |error| matches!(error, ApiError::Forbidden(_))),
        (|| status(404), |error| matches!(error, ApiError::NotFound(_))),
        (|| status(409), |error| matches!(error, ApiError::Conflict(_))),
        (|| status(410), |error| matches!(error, ApiError::Gone(_))),
        (|| status(422), |error| matches!(error, ApiError::Unprocessable(_))),
    ];
    for (answer, check) in cases {
        let fake = script(vec![answer]);
        let error = patch(&fake.api()).await.unwrap_err();
        assert!(check(&error), "{error}");
        assert_eq!(fake.requests().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_may_be_done_is_not_repeated() {
    let cases: [fn() -> Answer; 4] = [|| status(504), || status(500), || Answer::Broken, || Answer::Silence];
    for answer in cases {
        let fake = script(vec![answer, ok]);
        let error = patch(&fake.api()).await.unwrap_err();
        assert!(matches!(error, ApiError::Unclear { .. }), "{error}");
        assert_eq!(fake.requests().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_was_turned_away_is_repeated() {
    let fake = script(vec![|| status(429), || Answer::Later(503, "2"), ok]);
    assert_eq!(patch(&fake.api()).await.unwrap(), r#"{"fine":true}"#);
    assert_eq!(fake.requests().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn requests_say_what_they_are() {
    let fake = script(vec![ok]);
    let api = fake.api();
    patch(&api).await.unwrap();
    api.patch("/y", PatchKind::Json, Bytes::from_static(b"[]")).await.unwrap();
    api.post("/z", Bytes::from_static(b"{}"), None).await.unwrap();
    let requests = fake.requests();
    let types = ["application/merge-patch+json", "application/json-patch+json", "application/json"];
    for (request, content_type) in requests.iter().zip(types) {
        assert_eq!(request.headers["content-type"], content_type);
        assert_eq!(request.headers["user-agent"], "kopf/2.0.0");
    }
    assert_eq!(requests.iter().map(|one| one.method.as_str()).collect::<Vec<_>>(), ["PATCH", "PATCH", "POST"]);
    assert_eq!(requests[1].body, "[]");
}

#[tokio::test(start_paused = true)]
async fn refused_credentials_are_replaced_and_the_request_is_repeated() {
    let (refusing, accepting) = (script(vec![|| status(401)]), script(vec![ok]));
    let vault = Vault::new(refusing.clock.clone(), refusing.log.clone(), None);
    let api = Api::new(vault.clone(), &NetworkingSettings::default(), refusing.clock.clone(), refusing.log.clone());
    vault.populate(vec![(0, refusing.client.clone())]);
    let request = tokio::spawn(async move { patch(&api).await });
    // Nothing is left after the refusal: the request waits for the next login, however long.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(vault.current().is_none() && !request.is_finished());
    vault.populate(vec![(0, accepting.client.clone())]);
    assert_eq!(request.await.unwrap().unwrap(), r#"{"fine":true}"#);
    // Before the client drops the credentials, it asks the core API about them.
    let refused: Vec<String> = refusing.requests().iter().map(|seen| seen.path.clone()).collect();
    assert_eq!(refused, ["/x", "/apis/authentication.k8s.io/v1/selfsubjectreviews"]);
    assert_eq!(accepting.requests().len(), 1);
}

/// What the core API says to the credentials after a path has refused them, and whether they are kept.
#[tokio::test(start_paused = true)]
async fn a_path_that_refuses_accepted_credentials_fails_alone() {
    let anonymous = || Answer::Json(403, json!({"kind": "Status", "message": "User \"system:anonymous\" cannot"}));
    type Reply = fn() -> Answer;
    let cases: [(&str, Reply, Reply, bool); 8] = [
        ("accepted", || status(201), || status(500), true),
        ("known, but without permissions", || status(403), || status(500), true),
        ("nobody", anonymous, || status(500), false),
        ("refused", || status(401), || status(500), false),
        ("accepted by an old server", || status(404), || status(201), true),
        ("refused by an old server", || status(404), || status(401), false),
        ("unknown", || status(404), || status(404), false),
        ("silent", || Answer::Silence, || status(201), false),
    ];
    for (what, review, access_review, kept) in cases {
        let fake = Fake::new(move |seen| match seen.path.as_str() {
            "/apis/authentication.k8s.io/v1/selfsubjectreviews" => review(),
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" => access_review(),
            "/bad" => status(401),
            _ => ok(),
        });
        let vault = Vault::new(fake.clock.clone(), fake.log.clone(), None);
        vault.populate(vec![(0, fake.client.clone())]);
        let api = Api::new(vault.clone(), &NetworkingSettings::default(), fake.clock.clone(), fake.log.clone());
        let asked = api.clone();
        let refused = tokio::spawn(async move { asked.get_as("/bad?limit=1", "application/json", Some(&[1.0])).await });
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(vault.current().is_some(), kept, "{what}");
        assert_eq!(refused.is_finished(), kept, "{what}");
        let warnings: Vec<String> =
            fake.logged(Severity::Warning).into_iter().filter(|text| text.contains("/bad was refused")).collect();
        assert_eq!(warnings.len(), usize::from(kept), "{what}: {:?}", fake.warnings());
        if kept {
            let error = refused.await.unwrap().unwrap_err();
            assert!(matches!(error, ApiError::Unauthorized(_)), "{what}: {error}");
            assert!(api.get("/good").await.is_ok(), "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_fixed_client_that_is_refused_gives_an_error_in_the_end() {
    let fake = script(vec![|| status(401)]);
    let error = patch(&fake.api()).await.unwrap_err();
    assert!(matches!(error, ApiError::Unauthorized(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn requests_in_flight_are_bounded_but_watches_do_not_count() {
    let arrived = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&arrived);
    let fake = Fake::new(move |seen| {
        if seen.is_watch() {
            return Answer::Stream(Vec::new());
        }
        counted.fetch_add(1, Ordering::SeqCst);
        Answer::Silence
    });
    let api = fake.api();
    for _ in 0..50 {
        let api = api.clone();
        tokio::spawn(async move { api.get("/x").await });
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(arrived.load(Ordering::SeqCst), 12);
    assert!(api.watch_stream("/y?watch=true", None).await.is_ok());
}
