//! How much happens at the same time.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::Fault;
use crate::running::{Running, start};
use crate::script::{Hold, Script, done, patch};

fn objects(running: &crate::cluster::Cluster, names: &[&str]) {
    for name in names {
        running.create(name, json!({"field": 1}));
    }
}

fn most(running: &Running, id: &str) -> usize {
    running.script.seen().under_way.get(id).map_or(0, |(_, most)| *most)
}

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// Settings and declarations, and how many calls of `create_fn` are then under way at once.
#[tokio::test(start_paused = true)]
async fn calls_at_the_same_time_are_limited() {
    let cases: [(Option<usize>, Value, usize); 4] =
        [(None, json!(null), 8), (Some(3), json!(null), 3), (None, json!(2), 2), (Some(1), json!(5), 1)];
    for (workers, concurrency, expected) in cases {
        let hold = Hold::new();
        let script = Script::new(&[json!({"id": "create_fn", "reason": "create", "concurrency": concurrency})]);
        let script = script.held("create_fn", &hold).with(|settings| settings.queueing.worker_limit = workers);
        let running = start(script, |cluster| objects(cluster, &NAMES));
        running.wait_for_calls(expected).await;
        for left in (0..NAMES.len()).rev() {
            running.pass(1).await;
            assert_eq!(most(&running, "create_fn"), expected, "{workers:?} {concurrency}");
            hold.release(1);
            running.wait_for_calls((NAMES.len() - left).max(expected)).await;
        }
        for name in NAMES {
            running.wait_for_handling(name).await;
        }
        assert_eq!(running.script.calls().len(), NAMES.len());
        assert_eq!(most(&running, "create_fn"), expected, "{workers:?} {concurrency}");
        running.finish().await.unwrap();
    }
}

/// Handlers that take long are called for many objects at once; but nobody starts only to wait for a slow API.
#[tokio::test(start_paused = true)]
async fn as_many_objects_are_handled_as_the_api_has_time_for() {
    let names: Vec<String> = (0..100).map(|number| format!("thing-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (is_api_slow, expected) in [(false, 100), (true, 24)] {
        let hold = Hold::new();
        let script = Script::new(&[json!({"id": "create_fn", "reason": "create"})]).held("create_fn", &hold);
        let running = start(script, |cluster| {
            objects(cluster, &names);
            for name in names.iter().filter(|_| is_api_slow) {
                cluster.fault(&format!("merge {name}"), Fault::Slow(Duration::from_secs(60)));
            }
        });
        if is_api_slow {
            // Nobody waits in the handlers: all do for their patches.
            hold.release(100);
        }
        running.wait_for_calls(expected).await;
        running.pass(30).await;
        assert_eq!(running.script.calls().len(), expected, "slow: {is_api_slow}");
        hold.release(100);
        for name in &names {
            running.wait_for_handling(name).await;
        }
        assert_eq!(running.script.calls().len(), names.len());
        running.finish().await.unwrap();
    }
}

/// Those who wait for a busy handler keep nobody else from working.
#[tokio::test(start_paused = true)]
async fn a_busy_handler_leaves_the_workers_to_others() {
    let hold = Hold::new();
    let script = Script::new(&[
        json!({"id": "slow_fn", "reason": "create", "concurrency": 1, "labels": {"slow": {"present": true}}}),
        json!({"id": "quick_fn", "reason": "create", "labels": {"slow": {"absent": true}}}),
    ]);
    let script = script.held("slow_fn", &hold).with(|settings| settings.queueing.worker_limit = Some(2));
    let running = start(script, |_| {});
    for name in NAMES {
        let object = json!({"metadata": {"name": name, "labels": {"slow": "yes"}}, "spec": {"field": 1}});
        running.cluster.change(|store| store.create("things", "ns", object));
    }
    running.wait_for_calls(1).await;
    running.pass(10).await;
    running.cluster.create("quick", json!({"field": 1}));
    running.wait_for_handling("quick").await;
    assert_eq!(running.script.calls(), ["slow_fn(a)", "quick_fn(quick)"]);
    hold.release(8);
    for name in NAMES {
        running.wait_for_handling(name).await;
    }
    assert_eq!((most(&running, "slow_fn"), running.script.calls().len()), (1, 9));
    running.finish().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn sub_handlers_have_their_limits_over_all_objects() {
    let hold = Hold::new();
    let script = Script::new(&[json!({"id": "create_fn", "reason": "create"})]).held("create_fn/sub", &hold).on_async(
        "create_fn",
        |call| {
            // Declared again in every call, as the fronts do.
            let index = 100 + call.name.bytes().map(usize::from).sum::<usize>();
            let declaration = json!({"id": "create_fn/sub", "reason": "create", "concurrency": 2});
            let child = crate::script::handler(index, &declaration);
            Box::pin(async move {
                call.children.execute(vec![child], None).await.unwrap();
                done()
            })
        },
    );
    let running = start(script, |cluster| objects(cluster, &NAMES));
    running.wait("two sub-handlers", |running| most(running, "create_fn/sub") == 2).await;
    running.pass(5).await;
    hold.release(8);
    for name in NAMES {
        running.wait_for_handling(name).await;
    }
    assert_eq!(most(&running, "create_fn/sub"), 2);
    running.finish().await.unwrap();
}

/// In a burst, timers are called by and by; calls that take long make room for the others.
#[tokio::test(start_paused = true)]
async fn a_burst_of_timers_is_paced() {
    let hold = Hold::new();
    let declaration = json!({"id": "timer_fn", "kind": "timer", "background": {"interval": 3600.0}});
    let script = Script::new(&[declaration]).held("timer_fn", &hold);
    let names: Vec<String> = (0..600).map(|number| format!("thing-{number}")).collect();
    let running = start(script, |cluster| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        objects(cluster, &names);
    });
    running.wait_for_calls(256).await;
    assert_eq!(most(&running, "timer_fn"), 256);
    // The first ones are done quickly, so that there are never more.
    hold.release(100);
    running.wait_for_calls(356).await;
    assert_eq!(most(&running, "timer_fn"), 256);
    running.pass(2).await;
    running.wait_for_calls(600).await;
    assert_eq!(most(&running, "timer_fn"), 500, "the others take long");
    hold.release(500);
    running.finish().await.unwrap();
}

/// Listed objects wait for their workers as bytes. The budget is enough for three objects of this size.
const LARGE: usize = 128 * 1024;

fn large_objects(cluster: &crate::cluster::Cluster) {
    for number in 0..6 {
        cluster.create(&format!("listed-{number:02}"), json!({"field": "x".repeat(LARGE)}));
    }
}

/// A listing goes on when there is room for the next object, and not before.
#[tokio::test(start_paused = true)]
async fn listed_objects_wait_for_room() {
    let hold = Hold::new();
    let script = Script::new(&[json!({"id": "create_fn", "reason": "create"})]);
    let script = script.held("create_fn", &hold).with(|settings| settings.queueing.worker_limit = Some(1));
    let running = start(script, large_objects);
    running.wait_for_calls(1).await;
    running.cluster.create("live", json!({"field": 1}));
    for calls in 2..=7 {
        running.pass(1).await;
        hold.release(1);
        running.wait_for_calls(calls).await;
    }
    let calls = running.script.calls();
    let live = calls.iter().position(|call| call == "create_fn(live)");
    // One is being handled, three wait for it, and two have no room: they must come in before the live one does.
    assert_eq!(live, Some(1 + 2), "{calls:?}");
    hold.release(1);
    running.finish().await.unwrap();
}

/// What is indexed first has to be listed to its end, however much it is.
#[tokio::test(start_paused = true)]
async fn handlers_that_wait_for_indexes_need_no_room() {
    let script =
        Script::new(&[json!({"id": "index_fn", "kind": "indexing"}), json!({"id": "create_fn", "reason": "create"})]);
    let running = start(script, large_objects);
    running.wait_for_calls(6 + 6).await;
    let calls = running.script.calls();
    assert!(calls[..6].iter().all(|call| call.starts_with("index_fn")), "{calls:?}");
    running.finish().await.unwrap();
}

/// Handlers that wait keep nobody from being handled: neither other objects nor the deletions among them.
#[tokio::test(start_paused = true)]
async fn waiting_handlers_stop_nobody_else() {
    let hold = Hold::new();
    let slow = json!({"slow": {"present": true}});
    let script = Script::new(&[
        json!({"id": "slow_fn", "reason": "create", "labels": slow}),
        json!({"id": "quick_fn", "reason": "create", "labels": {"slow": {"absent": true}}}),
        json!({"id": "event_fn", "kind": "watching", "labels": {"slow": {"absent": true}}}),
    ]);
    let running = start(script.held("slow_fn", &hold), |_| {});
    for number in 0..2000 {
        let name = format!("slow-{number}");
        let object = json!({"metadata": {"name": name, "labels": {"slow": "yes"}}, "spec": {"field": 1}});
        running.cluster.change(|store| store.create("things", "ns", object));
    }
    let began = tokio::time::Instant::now();
    running.wait_for_calls(2000).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(most(&running, "slow_fn"), 2000);
    running.cluster.create("quick", json!({"field": 1}));
    running.wait_for_handling("quick").await;
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    hold.release(2000);
    running.wait_for_handling("slow-1999").await;
    running.finish().await.unwrap();
}

/// The first listing is handled even if live changes never leave a worker idle.
#[tokio::test(start_paused = true)]
async fn listed_objects_do_not_starve() {
    let script =
        Script::new(&[json!({"id": "change_fn", "reason": "update"}), json!({"id": "create_fn", "reason": "create"})])
            .with(|settings| settings.queueing.worker_limit = Some(1))
            .on_async("change_fn", |_| {
                Box::pin(async {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    done()
                })
            });
    let running = start(script, |cluster| objects(cluster, &NAMES));
    // Two objects change faster than one worker can handle them, from the beginning on.
    let cluster = running.cluster.clone();
    let changing = tokio::spawn(async move {
        for number in 2.. {
            cluster.update("a", json!({"spec": {"field": number}}));
            cluster.update("b", json!({"spec": {"field": number}}));
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    });
    for name in &NAMES[2..] {
        running.wait_for_handling(name).await;
    }
    changing.abort();
    running.finish().await.unwrap();
}

/// A handler that changes what it is called for is called again and again: slower and slower, and with a warning.
#[tokio::test(start_paused = true)]
async fn handlers_that_change_their_own_objects_are_delayed() {
    let script =
        Script::new(&[json!({"id": "update_fn", "reason": "update"}), json!({"id": "create_fn", "reason": "create"})])
            .on("update_fn", |call| {
                let field = call.body.spec().get("field").and_then(Value::as_u64).unwrap_or_default();
                patch(json!({"spec": {"field": field + 1}}))
            });
    let running = start(script, |cluster| objects(cluster, &["a"]));
    running.wait_for_handling("a").await;
    running.cluster.update("a", json!({"spec": {"field": 2}}));
    running.pass(60).await;
    let calls = running.script.calls().len();
    assert!((12..20).contains(&calls), "{calls}");
    let warnings = running.script.logged(kopf_engine::Severity::Warning);
    let text = "[a] Handler 'update_fn' changes spec.field of the object it handles at each call, which calls it again: 10 times";
    assert!(warnings[0].starts_with(text), "{warnings:?}");
    // A change by somebody else is not delayed.
    running.cluster.update("a", json!({"spec": {"other": 1}}));
    running.wait("the update", |running| running.script.calls().len() > calls).await;
    running.finish().await.unwrap();
}
