//! Requests: what is repeated, what is not, and how many there are at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use kopf_engine::{Api, ApiError, NetworkingSettings, PatchKind, Vault};
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
    let fake = script(vec![|| status(500), || Answer::Broken, || Answer::Silence, || status(429), ok]);
    let api = fake.api();
    let start = fake.clock.instant();
    let answer: Value = api.get_json("/x").await.unwrap();
    assert_eq!(answer, json!({"fine": true}));
    // The backoffs, and the time-out of the silent one.
    assert_eq!(start.elapsed().as_secs(), 1 + 1 + 300 + 2 + 3);
    assert_eq!(fake.requests().len(), 5);
    let warnings = fake.warnings();
    assert_eq!(warnings[0], "Request attempt #1/9 failed; will retry: GET /x: 500 code 500");
    let counts = api.counters().snapshot();
    assert_eq!(counts, [("get", "2xx", 1), ("get", "429", 1), ("get", "5xx", 1), ("get", "error", 2)]);
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
async fn refusals_are_told_apart_and_never_repeated() {
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
    assert_eq!((refusing.requests().len(), accepting.requests().len()), (1, 1));
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
