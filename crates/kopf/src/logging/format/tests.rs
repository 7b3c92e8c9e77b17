use std::sync::{Arc, Mutex};

use kopf_object::ObjectReference;
use tracing_subscriber::layer::SubscriberExt;

use super::super::{emit, span};
use super::*;

/// What is written while the work is done.
fn written(options: &LogOptions, work: impl FnOnce()) -> String {
    let lines = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&lines);
    let layer = FormatLayer::new(options, move |line: &str| sink.lock().unwrap().push_str(line));
    {
        // The subscriber goes before the lines are looked at.
        let _entered = tracing::subscriber::set_default(tracing_subscriber::Registry::default().with(layer));
        work();
    }
    Arc::into_inner(lines).unwrap().into_inner().unwrap()
}

fn reference() -> ObjectReference {
    ObjectReference {
        api_version: Some("kopf.dev/v1".into()),
        kind: Some("KopfExample".into()),
        name: Some("my".into()),
        uid: Some("u1".into()),
        namespace: Some("ns".into()),
    }
}

fn options(format: LogFormat) -> LogOptions {
    LogOptions { format, ..LogOptions::default() }
}

#[test]
fn plain() {
    let check = |options: LogOptions, object: Option<ObjectReference>, expected: &str| {
        let text = written(&options, || {
            emit(kopf_engine::Severity::Info, "kopf.objects", &"Hello.", object.as_ref(), None);
        });
        assert_eq!(text, expected, "{options:?}");
    };
    let clusterwide = ObjectReference { namespace: None, ..reference() };
    check(options(LogFormat::Plain), None, "Hello.\n");
    check(options(LogFormat::Plain), Some(reference()), "[ns/my] Hello.\n");
    check(options(LogFormat::Plain), Some(clusterwide), "[my] Hello.\n");
    check(LogOptions { prefix: Some(false), ..options(LogFormat::Plain) }, Some(reference()), "Hello.\n");
}

#[test]
fn full() {
    let text = written(&options(LogFormat::Full), || {
        emit(kopf_engine::Severity::Warning, "kopf.objects", &"Hello.", Some(&reference()), None);
    });
    let (time, rest) = text.split_once("] ").unwrap();
    assert_eq!(rest, "kopf.objects         [WARNING ] [ns/my] Hello.\n");
    assert_eq!(time.len(), "[2026-11-15 12:00:00,123".len(), "{text}");
}

#[test]
fn json() {
    let check = |options: LogOptions, key: &str, message: &str| {
        let text = written(&options, || {
            emit(kopf_engine::Severity::Warning, "kopf.objects", &"Hello.", Some(&reference()), Some(&"main.rs:1"));
        });
        let record: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(record["message"], message);
        assert_eq!(record["severity"], "warn");
        assert_eq!(record["exc_info"], "main.rs:1");
        assert_eq!(record[key], reference().to_json());
        assert!(record["timestamp"].as_str().unwrap().parse::<Timestamp>().is_ok(), "{text}");
    };
    check(options(LogFormat::Json), "object", "Hello.");
    let prefixed = LogOptions { prefix: Some(true), refkey: Some("k8s".into()), ..options(LogFormat::Json) };
    check(prefixed, "k8s", "[ns/my] Hello.");
}

#[test]
fn macros_of_tracing_are_about_the_object_of_the_span() {
    let work = || {
        let _entered = span("create", Some(&reference())).entered();
        tracing::info_span!("inner", depth = 2).in_scope(|| tracing::info!(size = 3, name = "x", "Resized."));
    };
    assert_eq!(written(&options(LogFormat::Plain), work), "[ns/my] Resized. size=3 name=\"x\"\n");
    let record: Value = serde_json::from_str(&written(&options(LogFormat::Json), work)).unwrap();
    assert_eq!((&record["object"]["name"], &record["size"]), (&json!("my"), &json!(3)));
}
