//! What the engine asks of the front besides calls: selectors, filters, storages, lifecycles.

use std::sync::{Arc, Mutex};

use kopf_engine::{Severity, StorageContent};
use kopf_reaction::{DiffBaseStorage, Lifecycle, ProgressStorage, StorageOperation};
use serde_json::{Value, json};

use crate::cluster::Fault;
use crate::running::start;
use crate::script::{Script, result};

#[tokio::test(start_paused = true)]
async fn selectors_by_functions() {
    let mut script = Script::new(&[
        json!({"id": "chosen_fn", "reason": "create", "selector": {"callback": true}}),
        json!({"id": "other_fn", "reason": "create", "selector": {"group": "other.io", "callback": true}}),
    ]);
    script.select = Box::new(|resource| resource == "things.v1.g.io");
    let running = start(script, |cluster| cluster.create("a", json!({"field": 1})));
    running.wait_for_handling("a").await;
    running.expect_calls(&["chosen_fn(a)"]).await;
    let asks = running.script.seen().asks.clone();
    assert!(asks.contains(&"select 0 things.v1.g.io".to_owned()), "{asks:?}");
    assert!(!asks.iter().any(|ask| ask.starts_with("select 1")), "{asks:?}");
}

#[tokio::test(start_paused = true)]
async fn filters_by_functions() {
    let mut script =
        Script::new(&[json!({"id": "create_fn", "reason": "create", "labels": {"l": {"callback": true}}})]);
    script.filter = Box::new(|question| question.value == Some(json!("yes")));
    let running = start(script, |cluster| {
        for (name, label) in [("a", "yes"), ("b", "no")] {
            let object = json!({"metadata": {"name": name, "labels": {"l": label}}, "spec": {"field": 1}});
            cluster.change(|store| store.create("things", "ns", object));
        }
    });
    running.wait_for_handling("a").await;
    running.expect_calls(&["create_fn(a)"]).await;
    assert!(running.cluster.patches("b").is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_lifecycle_of_the_user_chooses() {
    let mut script =
        Script::new(&[json!({"id": "first_fn", "reason": "create"}), json!({"id": "second_fn", "reason": "create"})])
            .with(|settings| settings.lifecycle = Lifecycle::Front);
    script.choose = Box::new(|candidates| candidates.iter().map(|handler| handler.index).max().into_iter().collect());
    let running = start(script, |cluster| cluster.create("a", json!({"field": 1})));
    running.wait_for_handling("a").await;
    running.expect_calls(&["second_fn(a)", "first_fn(a)"]).await;
    let asks = running.script.seen().asks.clone();
    let choices: Vec<_> = asks.into_iter().filter(|ask| ask.starts_with("choose")).collect();
    assert_eq!(choices[0], "choose from first_fn,second_fn knowing first_fn:false,second_fn:false");
    assert!(choices[1].starts_with("choose from first_fn knowing"), "{choices:?}");
}

/// A storage of the user: a database elsewhere, in which nothing of the object is seen.
#[derive(Clone, Default)]
struct Database {
    old: Arc<Mutex<Option<Value>>>,
    records: Arc<Mutex<Records>>,
}

type Records = Vec<(Arc<str>, Value)>;

impl Database {
    fn attach(&self, script: &mut Script, patch: Option<Value>) {
        let (reading, writing) = (self.clone(), self.clone());
        script.read_storage = Box::new(move |body| StorageContent {
            old: reading.old.lock().unwrap().clone(),
            new: Some(json!({"spec": body.spec()})),
            records: reading.records.lock().unwrap().clone(),
        });
        script.write_storage = Box::new(move |operations| {
            let mut records = writing.records.lock().unwrap();
            for operation in operations {
                match operation {
                    StorageOperation::Store { id, record } => {
                        records.retain(|(known, _)| *known != id);
                        records.push((id, record));
                    }
                    StorageOperation::Purge { id } => records.retain(|(known, _)| *known != id),
                    StorageOperation::DiffBase { essence } => *writing.old.lock().unwrap() = Some(essence),
                    StorageOperation::Touch { .. } => {}
                }
            }
            patch.clone()
        });
        script.settings.persistence.progress_storage = ProgressStorage::Front;
        script.settings.persistence.diffbase_storage = DiffBaseStorage::Front;
    }
}

#[tokio::test(start_paused = true)]
async fn storages_of_the_user_are_read_and_written() {
    let database = Database::default();
    let mut script = Script::new(&[
        json!({"id": "create_fn", "reason": "create"}),
        json!({"id": "second_fn", "reason": "create"}),
        json!({"id": "update_fn", "reason": "update"}),
    ]);
    script =
        script.on("create_fn", |call| if call.retry == 0 { crate::script::temporary(5.0) } else { result(json!(1)) });
    database.attach(&mut script, None);
    let running = start(script, |cluster| cluster.create("a", json!({"field": 1})));
    running.expect_calls(&["create_fn(a)", "second_fn(a)", "create_fn(a)#1"]).await;
    running.cluster.update("a", json!({"spec": {"field": 2}}));
    running.expect_calls(&["create_fn(a)", "second_fn(a)", "create_fn(a)#1", "update_fn(a)"]).await;
    assert_eq!(*database.old.lock().unwrap(), Some(json!({"spec": {"field": 2}})));
    assert!(database.records.lock().unwrap().is_empty());
    let patches = running.cluster.patches("a");
    let expected = json!({"status": {"create_fn": 1}, "metadata": {"uid": "uid-3"}});
    assert_eq!(patches, [("merge a/status".to_owned(), expected)], "{}", running.story());
}

/// In a patch, nothing separates what the storage writes from what the handler wants: a refused patch loses neither silently.
#[tokio::test(start_paused = true)]
async fn a_refused_patch_with_a_storage_of_the_user_is_retried_later() {
    let records = json!({"metadata": {"annotations": {"mine": "stored"}}});
    let mut script = Script::new(&[json!({"id": "create_fn", "reason": "create"})]);
    script.settings.persistence.diffbase_storage = DiffBaseStorage::Front;
    script.settings.persistence.progress_storage = ProgressStorage::Front;
    script.read_storage = Box::new(|body| StorageContent {
        old: body.annotation("mine").map(|_| json!({"spec": body.spec()})),
        new: Some(json!({"spec": body.spec()})),
        records: Vec::new(),
    });
    script.write_storage = Box::new(move |_| Some(records.clone()));
    let running = start(script, |cluster| {
        cluster.fault("merge a", Fault::Refused(422, "not so"));
        cluster.create("a", json!({"field": 1}));
    });
    running.expect_calls(&["create_fn(a)"; 2]).await;
    assert_eq!(running.cluster.field("a", "/metadata/annotations/mine"), "stored");
    let errors = running.script.logged(Severity::Error);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].starts_with("[a] Throttling for 1 seconds due to an unexpected error: PATCH"), "{errors:?}");
}
