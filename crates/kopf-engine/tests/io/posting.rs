//! Events: posted in the background, in order, and never a reason to fail.

use std::time::Duration;

use kopf_engine::{EventDraft, EventSource, Poster, PostingSettings};
use kopf_object::ObjectReference;
use serde_json::{Value, json};

use crate::fake::{Answer, Fake, status};

fn draft(namespace: Option<&str>, message: &str) -> EventDraft {
    let reference = ObjectReference {
        kind: Some("Thing".into()),
        uid: Some("uid".into()),
        namespace: namespace.map(str::to_owned),
        ..ObjectReference::default()
    };
    let backoffs = vec![1.0];
    EventDraft { reference, kind: "Normal".into(), reason: "Why".into(), message: message.into(), backoffs }
}

fn start(fake: &Fake) -> (Poster, kopf_engine::PosterWorkers) {
    let settings = PostingSettings::default();
    Poster::start(fake.api(), &settings, EventSource::default(), fake.clock.clone(), fake.log.clone())
}

fn messages(fake: &Fake) -> Vec<String> {
    let bodies = fake.requests().into_iter().map(|seen| serde_json::from_str::<Value>(&seen.body).unwrap());
    bodies.map(|body| body["message"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn events_of_one_object_are_posted_in_order_to_their_namespace() {
    let fake = Fake::new(|_| Answer::Json(201, json!({})));
    let (poster, workers) = start(&fake);
    poster.post(draft(Some("ns"), "1"));
    poster.post(draft(Some("ns"), "2"));
    poster.post(draft(None, "3"));
    workers.finish(Duration::from_secs(10)).await;
    assert_eq!(messages(&fake), ["1", "2", "3"]);
    let urls = ["/api/v1/namespaces/ns/events", "/api/v1/namespaces/ns/events", "/api/v1/namespaces/default/events"];
    assert_eq!(fake.urls(), urls);
    // After the end, nothing is taken and nothing fails.
    poster.post(draft(None, "4"));
}

#[tokio::test(start_paused = true)]
async fn events_about_events_and_disabled_ones_are_not_posted() {
    let fake = Fake::new(|_| Answer::Json(201, json!({})));
    let (poster, workers) = start(&fake);
    let mut about_event = draft(Some("ns"), "1");
    about_event.reference.api_version = Some("v1".into());
    about_event.reference.kind = Some("Event".into());
    poster.post(about_event);
    workers.finish(Duration::from_secs(10)).await;

    let settings = PostingSettings { enabled: false, ..PostingSettings::default() };
    let (poster, workers) =
        Poster::start(fake.api(), &settings, EventSource::default(), fake.clock.clone(), fake.log.clone());
    poster.post(draft(Some("ns"), "2"));
    workers.finish(Duration::from_secs(10)).await;
    assert!(fake.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn failed_events_are_logged_and_dropped() {
    let mut count = 0;
    let fake = Fake::new(move |_| {
        count += 1;
        match count {
            // Two attempts to post the first event, then refusals, then success.
            1 | 2 => status(500),
            3..=5 => status(403),
            6 => status(422),
            _ => Answer::Json(201, json!({})),
        }
    });
    let (poster, workers) = start(&fake);
    for number in 0..7 {
        poster.post(draft(Some("ns"), &number.to_string()));
    }
    workers.finish(Duration::from_secs(10)).await;
    assert_eq!(messages(&fake), ["0", "0", "1", "2", "3", "4", "5", "6"]);
    let failures: Vec<_> =
        fake.warnings().into_iter().filter(|text| text.starts_with("Failed to post an event.")).collect();
    let codes: Vec<_> = failures.iter().map(|text| text.split("Code: ").nth(1).unwrap()[..3].to_owned()).collect();
    assert_eq!(codes, ["500", "403", "422"], "{failures:?}");
    assert!(failures[0].ends_with("Event: type='Normal', reason='Why', message='0'."), "{failures:?}");
}

#[tokio::test(start_paused = true)]
async fn too_many_events_are_dropped_with_one_warning() {
    let fake = Fake::new(|_| Answer::Silence);
    let (poster, workers) = start(&fake);
    for _ in 0..2000 {
        poster.post(draft(Some("ns"), "x"));
    }
    assert_eq!(fake.warnings(), ["Too many events to post. Some of them are dropped."]);
    // What cannot be posted does not hold up the end.
    let start = fake.clock.instant();
    workers.finish(Duration::from_secs(2)).await;
    assert_eq!(start.elapsed().as_secs(), 2);
}
