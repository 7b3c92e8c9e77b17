//! Daemons and timers: when they are called, how they are stopped, what holds the object.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use kopf_engine::{FrontFailure, Severity};
use kopf_reaction::{CallError, StopReasons};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cluster::{Fault, THINGS};
use crate::running::{Running, start};
use crate::script::{Call, Hold, Reply, Script, done, fail, patch, permanent, result, temporary};

const FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";

fn daemon(options: Value) -> Value {
    declaration("daemon", options)
}

fn timer(options: Value) -> Value {
    declaration("timer", options)
}

fn declaration(kind: &str, options: Value) -> Value {
    json!({"id": "background_fn", "kind": kind, "requires_finalizer": true, "background": options})
}

/// A function that exits once it gets a reason to stop.
fn obedient(call: Call) -> BoxFuture<'static, Reply> {
    Box::pin(async move {
        let mut stops = call.background.unwrap().stops;
        stops.wait_for(|reasons| !reasons.is_empty()).await.unwrap();
        done()
    })
}

/// The reasons to stop that a function got, with the times since the start of the test.
#[derive(Clone, Default)]
struct ReceivedStops(Arc<Mutex<Vec<(u64, StopReasons)>>>);

impl ReceivedStops {
    fn take(&self) -> Vec<(u64, StopReasons)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// A function that never exits, and records the reasons to stop.
    fn deaf(&self) -> impl Fn(Call) -> BoxFuture<'static, Reply> + Send + Sync + use<> {
        let received = self.clone();
        let start = Instant::now();
        move |call| {
            let received = received.clone();
            Box::pin(async move {
                let mut stops = call.background.unwrap().stops;
                loop {
                    // The sender goes when the call is dropped, which ends this, too.
                    if stops.changed().await.is_err() {
                        std::future::pending::<()>().await;
                    }
                    let reasons = *stops.borrow();
                    received.0.lock().unwrap().push((start.elapsed().as_millis() as u64, reasons));
                }
            })
        }
    }
}

async fn wait_for_finalizers(running: &Running, expected: &Value) {
    let is_so = |running: &Running| running.cluster.field("a", "/metadata/finalizers") == *expected;
    running.wait(&format!("the finalizers {expected}"), is_so).await;
}

async fn wait_for_end(running: &Running) {
    running.wait("the end of the object", |running| running.cluster.get("a").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn a_daemon_lives_as_long_as_its_object() {
    let script = Script::new(&[daemon(json!({}))]).on_async("background_fn", obedient);
    let running = start(script, |_| {});
    running.cluster.create("a", json!({}));
    running.wait_for_calls(1).await;
    wait_for_finalizers(&running, &json!([FINALIZER])).await;
    for field in 0..3 {
        running.cluster.update("a", json!({"spec": {"field": field}}));
        running.pass(1000).await;
    }
    let live = running.script.seen().calls[0].background.clone().unwrap().live;
    assert_eq!(live.body().unwrap().spec()["field"], 2);
    running.cluster.delete("a");
    wait_for_end(&running).await;
    running.expect_calls(&["background_fn(a)"]).await;
    assert_eq!(running.script.logged(Severity::Warning), Vec::<String>::new());
    let patches: Vec<String> = running.cluster.patches("a").into_iter().map(|(label, _)| label).collect();
    assert_eq!(patches, ["json a", "json a"], "{}", running.story());
    running.finish().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_exits_by_itself_is_not_started_again_and_the_object_is_free() {
    let script = Script::new(&[daemon(json!({}))]).on("background_fn", |_| result(json!({"x": 1})));
    let running = start(script, |_| {});
    running.cluster.create("a", json!({}));
    running.wait_for_calls(1).await;
    running.wait("the result", |running| running.cluster.field("a", "/status/background_fn/x") == 1).await;
    wait_for_finalizers(&running, &Value::Null).await;
    running.cluster.update("a", json!({"spec": {"field": 1}}));
    running.expect_calls(&["background_fn(a)"]).await;
}

/// Each case: the declaration, what the calls come to, and the seconds between them.
#[tokio::test(start_paused = true)]
async fn the_times_of_calls() {
    type Behave = fn(&Call) -> Reply;
    let arbitrary = |_: &Call| fail(CallError::Arbitrary { message: "oops".into(), display: "oops".into() });
    let cases: Vec<(&str, Value, Behave, &[u64])> = vec![
        ("a daemon that is to be retried", daemon(json!({})), |_| temporary(7.0), &[0, 7, 14]),
        ("a daemon with an error", daemon(json!({})), arbitrary, &[0, 60, 120]),
        ("a daemon that has failed", daemon(json!({})), |_| permanent("no"), &[0]),
        ("a daemon with a delay", daemon(json!({"initial_delay": 5})), |_| done(), &[5]),
        ("a timer", timer(json!({"interval": 10})), |_| done(), &[0, 10, 20]),
        ("a timer with a delay", timer(json!({"interval": 10, "initial_delay": 3})), |_| done(), &[3, 13, 23]),
        ("a timer with a function", timer(json!({"initial_delay": {"callback": true}})), |_| done(), &[42]),
        ("a timer that has failed", timer(json!({"interval": 10})), |_| permanent("no"), &[0, 10, 20]),
        ("a timer that is to be retried", timer(json!({"interval": 10})), |_| temporary(3.0), &[0, 3, 6]),
        ("a timer with an error", timer(json!({"interval": 10})), arbitrary, &[0, 60, 120]),
        ("a timer without an interval", timer(json!({})), |_| done(), &[0]),
        ("a timer of what is idle", timer(json!({"idle": 8})), |_| done(), &[8]),
        ("a timer of what is idle, again", timer(json!({"idle": 8, "interval": 3})), |_| done(), &[8, 11, 14]),
    ];
    for (what, declaration, behave, expected) in cases {
        let start_of_test = Instant::now();
        let times = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&times);
        let mut script = Script::new(&[declaration]).on("background_fn", move |call| {
            recorded.lock().unwrap().push(start_of_test.elapsed().as_secs());
            behave(call)
        });
        script.initial_delay = Box::new(|_| Ok(42.0));
        let running = start(script, |cluster| cluster.create("a", json!({})));
        running.wait_for_calls(expected.len()).await;
        if expected.len() == 1 {
            running.pass(1000).await;
        }
        assert_eq!(&*times.lock().unwrap(), expected, "{what}\n{}", running.story());
        running.finish().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_initial_delay_is_the_default_backoff() {
    let mut script = Script::new(&[timer(json!({"initial_delay": {"callback": true}}))]);
    script.initial_delay = Box::new(|_| Err(FrontFailure::new("oops")));
    let start_of_test = Instant::now();
    let running = start(script, |cluster| cluster.create("a", json!({})));
    running.wait_for_calls(1).await;
    assert_eq!(start_of_test.elapsed().as_secs(), 60);
    let expected =
        "[a] The function for the initial delay of Timer 'background_fn' has failed; the delay is 60 seconds: oops";
    assert_eq!(running.script.logged(Severity::Error), [expected]);
}

#[tokio::test(start_paused = true)]
async fn only_changes_that_matter_put_idling_off() {
    let script = Script::new(&[timer(json!({"idle": 10}))]);
    let running = start(script, |cluster| cluster.create("a", json!({"field": 0})));
    running.pass(8).await;
    running.cluster.update("a", json!({"spec": {"field": 1}}));
    running.pass(8).await;
    running.cluster.update("a", json!({"status": {"x": 1}}));
    assert_eq!(running.script.calls(), Vec::<String>::new());
    running.pass(3).await;
    assert_eq!(running.script.calls().len(), 1, "{}", running.story());
    running.cluster.update("a", json!({"status": {"x": 2}}));
    running.pass(1000).await;
    assert_eq!(running.script.calls().len(), 1, "{}", running.story());
    running.cluster.update("a", json!({"spec": {"field": 2}}));
    running.pass(11).await;
    assert_eq!(running.script.calls().len(), 2, "{}", running.story());
}

/// Which reasons to stop a function gets that never exits, at which milliseconds; and when the object is free.
#[tokio::test(start_paused = true)]
async fn stopping_by_steps() {
    let deleted = StopReasons::RESOURCE_DELETED;
    let signalled = deleted.union(StopReasons::DAEMON_SIGNALLED);
    let cases = [
        (json!({"cancellation_timeout": 5}), vec![(0, deleted)], 100, "is cancelled. Will escalate."),
        (
            json!({"cancellation_backoff": 3, "cancellation_timeout": 5}),
            vec![(0, deleted), (100, signalled)],
            3000,
            "is cancelled. Will escalate.",
        ),
    ];
    for (options, expected, free_at, warning) in cases {
        let received = ReceivedStops::default();
        let script = Script::new(&[daemon(options)]).on_async("background_fn", received.deaf());
        let running = start(script, |cluster| cluster.create("a", json!({})));
        running.wait_for_calls(1).await;
        wait_for_finalizers(&running, &json!([FINALIZER])).await;
        let start_of_stopping = Instant::now();
        running.cluster.delete("a");
        wait_for_end(&running).await;
        let free = start_of_stopping.elapsed().as_millis();
        assert!((free_at..free_at + 50).contains(&free), "{free}");
        assert_eq!(received.take(), expected, "{}", running.story());
        assert_eq!(running.script.logged(Severity::Warning), [format!("[a] Daemon 'background_fn' {warning}")]);
        running.finish().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_object_waits_for_what_has_no_timeout_and_is_free_at_once_then() {
    let hold = Hold::new();
    let script = Script::new(&[daemon(json!({}))]).held("background_fn", &hold);
    let running = start(script, |cluster| cluster.create("a", json!({})));
    running.wait_for_calls(1).await;
    wait_for_finalizers(&running, &json!([FINALIZER])).await;
    running.cluster.delete("a");
    running.pass(130).await;
    assert_eq!(running.cluster.field("a", "/metadata/finalizers"), json!([FINALIZER]));
    let looks =
        running.script.logged(Severity::Debug).into_iter().filter(|text| text.contains("is still exiting")).count();
    assert_eq!(looks, 3, "{}", running.story());
    let start_of_release = Instant::now();
    hold.release(1);
    wait_for_end(&running).await;
    assert!(start_of_release.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn deletion_handlers_are_called_once_however_long_the_daemons_take() {
    let hold = Hold::new();
    let deleting = json!({"id": "delete_fn", "reason": "delete", "requires_finalizer": true});
    let script = Script::new(&[daemon(json!({})), deleting]).held("background_fn", &hold);
    let running = start(script, |cluster| cluster.create("a", json!({})));
    running.wait_for_calls(1).await;
    wait_for_finalizers(&running, &json!([FINALIZER])).await;
    running.cluster.delete("a");
    running.wait_for_calls(2).await;
    for field in 0..3 {
        running.pass(100).await;
        running.cluster.update("a", json!({"metadata": {"labels": {"l": field.to_string()}}}));
    }
    running.pass(100).await;
    assert_eq!(running.cluster.field("a", "/metadata/finalizers"), json!([FINALIZER]));
    hold.release(1);
    wait_for_end(&running).await;
    running.expect_calls(&["background_fn(a)", "delete_fn(a)"]).await;
}

#[tokio::test(start_paused = true)]
async fn filters_stop_it_and_start_it_again_when_the_former_has_ended() {
    let mut declaration = daemon(json!({}));
    declaration["labels"] = json!({"run": {"equals": "yes"}});
    let hold = Hold::new();
    let script = Script::new(&[declaration]).held("background_fn", &hold);
    let running = start(script, |cluster| cluster.create("a", json!({})));
    let label = |value: &str| running.cluster.update("a", json!({"metadata": {"labels": {"run": value}}}));
    running.pass(5).await;
    assert_eq!(running.script.calls().len(), 0);
    label("yes");
    running.wait_for_calls(1).await;
    wait_for_finalizers(&running, &json!([FINALIZER])).await;
    label("no");
    running.pass(5).await;
    let stops = running.script.seen().calls[0].background.clone().unwrap().stops;
    assert_eq!(*stops.borrow(), StopReasons::FILTERS_MISMATCH);
    // It is wanted again before it has ended: one at a time.
    label("yes");
    running.pass(1000).await;
    assert_eq!(running.script.calls().len(), 1);
    hold.release(1);
    running.wait_for_calls(2).await;
    label("no");
    hold.release(1);
    wait_for_finalizers(&running, &Value::Null).await;
    running.pass(1000).await;
    assert_eq!(running.script.calls().len(), 2);
    assert_eq!(running.script.seen().under_way["background_fn"], (0, 1));
}

#[tokio::test(start_paused = true)]
async fn timers_survive_the_failures_of_patches() {
    let script = Script::new(&[timer(json!({"interval": 10}))]);
    let script = script.on("background_fn", |_| patch(json!({"metadata": {"labels": {"l": "1"}}})));
    let running = start(script, |cluster| {
        for _ in 0..30 {
            cluster.fault("merge a", Fault::Refused(500, "oops"));
        }
        cluster.create("a", json!({}));
    });
    running.wait_for_calls(1).await;
    running.wait("the patch", |running| running.cluster.field("a", "/metadata/labels/l") == "1").await;
    running.wait_for_calls(3).await;
    let failures = running.script.logged(Severity::Error);
    assert!(failures.iter().any(|text| text.contains("Patching has failed, and will be tried again")), "{failures:?}");
    running.finish().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn all_ends_with_the_operator() {
    let received = ReceivedStops::default();
    let mut deaf = daemon(json!({"cancellation_backoff": 1}));
    deaf["id"] = json!("deaf_fn");
    let handlers = [daemon(json!({})), deaf, json!({"id": "timer_fn", "kind": "timer", "background": {"interval": 5}})];
    let script = Script::new(&handlers).on_async("background_fn", obedient).on_async("deaf_fn", received.deaf());
    let running = start(script, |cluster| cluster.create("a", json!({})));
    running.wait_for_calls(3).await;
    received.take();
    let (script, cluster) = (Arc::clone(&running.script), running.cluster.clone());
    let start_of_exit = Instant::now();
    running.finish().await.unwrap();
    let exiting = StopReasons::OPERATOR_EXITING;
    let reasons: Vec<StopReasons> = received.take().into_iter().map(|(_, reasons)| reasons).collect();
    let signalled = exiting.union(StopReasons::DAEMON_SIGNALLED);
    let expected = [exiting, signalled, signalled.union(StopReasons::DAEMON_ABANDONED)];
    assert_eq!(reasons, expected);
    assert!((1..3).contains(&start_of_exit.elapsed().as_secs()), "{:?}", start_of_exit.elapsed());
    let warning = "[a] Daemon 'deaf_fn' did not exit in time. Leaving it orphaned.";
    assert_eq!(script.logged(Severity::Warning), [warning]);
    assert_eq!(cluster.field("a", "/metadata/finalizers"), json!([FINALIZER]));
}

#[tokio::test(start_paused = true)]
async fn what_vanishes_is_stopped() {
    let received = ReceivedStops::default();
    let script = Script::new(&[daemon(json!({}))]).on_async("background_fn", received.deaf());
    let running = start(script, |cluster| cluster.create("a", json!({})));
    running.wait_for_calls(1).await;
    wait_for_finalizers(&running, &json!([FINALIZER])).await;
    running.cluster.change(|store| store.remove(THINGS, "ns", "a"));
    running.pass(5).await;
    let reasons: Vec<StopReasons> = received.take().into_iter().map(|(_, reasons)| reasons).collect();
    assert_eq!(reasons, [StopReasons::RESOURCE_DELETED]);
    // The orphan is not the business of the next object with the same name.
    running.cluster.create("a", json!({}));
    running.wait_for_calls(2).await;
    running.finish().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn thousands_of_timers_tick_without_overlaps() {
    let mut declaration = timer(json!({"interval": 60}));
    declaration["concurrency"] = json!(50);
    let script = Script::new(&[declaration]).on_async("background_fn", |_| {
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            done()
        })
    });
    let running = start(script, |cluster| {
        for number in 0..1000 {
            cluster.create(&format!("object-{number}"), json!({"field": number}));
        }
    });
    running.wait_for_calls(3000).await;
    let mut counts = std::collections::BTreeMap::new();
    {
        let seen = running.script.seen();
        assert_eq!(seen.under_way["background_fn"].1, 50);
        for call in seen.calls.iter().take(2000) {
            *counts.entry(call.name.clone()).or_insert(0) += 1;
        }
    }
    assert!(counts.len() == 1000 && counts.values().all(|count| *count == 2), "{counts:?}");
    running.finish().await.unwrap();
}

/// How many calls were under way at most, with this number of objects and a timer for each of them.
async fn most_under_way(
    objects: usize,
    call: impl Fn(Call) -> BoxFuture<'static, Reply> + Send + Sync + 'static,
) -> usize {
    let script = Script::new(&[timer(json!({"interval": 86400}))]).on_async("background_fn", call);
    let running = start(script, |cluster| {
        for number in 0..objects {
            cluster.create(&format!("object-{number}"), json!({"field": number}));
        }
    });
    running.wait_for_calls(objects).await;
    running.script.seen().under_way["background_fn"].1
}

/// As on a machine with too few processors or threads: each function is short, but waits for the others.
#[tokio::test(start_paused = true)]
async fn a_burst_of_short_calls_is_not_taken_for_long_ones() {
    let processor = Arc::new(tokio::sync::Semaphore::new(1));
    let most = most_under_way(2000, move |_| {
        let processor = Arc::clone(&processor);
        Box::pin(async move {
            let _turn = processor.acquire_owned().await;
            tokio::time::sleep(Duration::from_millis(2)).await;
            done()
        })
    });
    assert_eq!(most.await, 256);
}

#[tokio::test(start_paused = true)]
async fn long_calls_make_room_for_others() {
    assert_eq!(most_under_way(1000, |_| Box::pin(std::future::pending())).await, 1000);
}
