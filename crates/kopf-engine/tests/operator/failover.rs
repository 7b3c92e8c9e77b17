//! The address of the API moves to another machine: new connections work, those of before are silent for ever.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::running::{Running, start_with};
use crate::script::{Hold, Script, result};
use crate::wire::Wire;

/// An operator that has handled some objects, so that there are connections which wait for the next request.
async fn start(script: Script) -> (Running, Wire) {
    let wire = Wire::open().await;
    let server = wire.url();
    let login = json!({"id": "login_fn", "kind": "activity", "activity": "authentication", "selector": null});
    let script = script.on("login_fn", move |_| result(json!({"server": server, "token": "t"})));
    let running = start_with(script, &[login], |_| {}, |options| options.client = None);
    wire.accept_token("t");
    wire.serve(&running.cluster);
    for number in 0..8 {
        running.cluster.create(&format!("early{number}"), json!({"field": 1}));
    }
    for number in 0..8 {
        running.wait_for_handling(&format!("early{number}")).await;
    }
    (running, wire)
}

fn script() -> Script {
    Script::new(&[json!({"id": "create_fn", "reason": "create"})])
}

/// The longest silence of a watch, and how long the operator may be blind at most.
#[tokio::test(start_paused = true)]
async fn watches_come_back_in_time() {
    for (inactivity, expected) in [(70.0, 75), (7.0, 12)] {
        let script = script().with(|settings| settings.watching.inactivity_timeout = inactivity);
        let (running, wire) = start(script).await;
        wire.fail_over();
        let (began, before) = (Instant::now(), wire.connections());
        running.cluster.create("late", json!({"field": 1}));
        running.wait_for_handling("late").await;
        assert!(began.elapsed() <= Duration::from_secs(expected), "{:?}\n{}", began.elapsed(), running.story());
        assert!(wire.connections() > before);
        running.finish().await.unwrap();
    }
}

/// The handlers are under way when it happens; their results go by connections that are silent.
#[tokio::test(start_paused = true)]
async fn patches_come_through_in_time() {
    let hold = Hold::new();
    let waiting = hold.clone();
    let script = script().on_async("create_fn", move |call| {
        let hold = waiting.clone();
        Box::pin(async move {
            if call.name.starts_with("held") {
                hold.wait().await;
            }
            result(json!("done"))
        })
    });
    let (running, wire) = start(script).await;
    for number in 0..8 {
        running.cluster.create(&format!("held{number}"), json!({"field": 1}));
    }
    running.wait_for_calls(16).await;
    wire.fail_over();
    let began = Instant::now();
    hold.release(8);
    for number in 0..8 {
        running.wait_for_handling(&format!("held{number}")).await;
    }
    assert!(began.elapsed() <= Duration::from_secs(75), "{:?}\n{}", began.elapsed(), running.story());
    assert_eq!(running.script.calls().len(), 16, "{}", running.story());
    running.finish().await.unwrap();
}
