//! What a real kube-apiserver 1.36.3 answered, replayed on ours.
//!
//! The data files beside this one were recorded from a live server: schemas, objects sent, and
//! the status, the causes or the stored object that came back.

use serde_json::{Map, Value, json};

use super::{FieldError, Schema};

fn groups(text: &str) -> Vec<Value> {
    serde_json::from_str(text).expect("a recorded file")
}

/// The causes in an order that does not depend on the server's random one.
fn sorted_causes(causes: &Value) -> Vec<String> {
    let mut texts: Vec<String> = causes
        .as_array()
        .into_iter()
        .flatten()
        .map(|cause| format!("{} | {} | {}", cause["field"].as_str().unwrap(), cause["reason"].as_str().unwrap(), cause["message"].as_str().unwrap()))
        .collect();
    texts.sort();
    texts
}

/// The server's encoder writes whole floats without a point.
fn whole_floats_as_integers(value: &Value) -> Value {
    serde_json::from_str(&super::go_json(value)).unwrap()
}

/// Replays one create: the answer as (code, causes or warnings, stored spec).
fn create(schema: &Schema, kind: &str, spec: &Value) -> (u64, Vec<String>, Value) {
    let mut object = json!({"apiVersion": "h8.kopf.dev/v1", "kind": kind, "metadata": {"name": "x"}, "spec": spec});
    schema.default(&mut object);
    schema.prune(&mut object);
    let errors = schema.validate(&object, None);
    match errors.is_empty() {
        true => (201, Vec::new(), whole_floats_as_integers(&object["spec"])),
        false => (422, sorted_causes(&FieldError::causes(&errors)), Value::Null),
    }
}

#[test]
fn creates_are_answered_as_the_server_answered() {
    let mut failures = Vec::new();
    let mut count = 0;
    for group in groups(include_str!("validation.json")) {
        let schema = Schema::of_custom_resource(&group["schema"], &Map::new()).unwrap();
        for case in group["cases"].as_array().unwrap() {
            count += 1;
            let ours = create(&schema, group["kind"].as_str().unwrap(), &case["spec"]);
            let theirs = (case["code"].as_u64().unwrap(), sorted_causes(&case["causes"]), case["result"].clone());
            // Malformed embedded objects do not get as far as validation: the decoder refuses them.
            if ours != theirs && theirs.0 != 400 {
                failures.push(format!("{} {}\n  ours   {ours:?}\n  theirs {theirs:?}", group["name"], case["spec"]));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count} differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn unknown_fields_are_named_as_the_server_warned() {
    for group in groups(include_str!("validation.json")) {
        let schema = Schema::of_custom_resource(&group["schema"], &Map::new()).unwrap();
        for case in group["cases"].as_array().unwrap().iter().filter(|case| case["code"] == 201) {
            let object = json!({"apiVersion": "h8.kopf.dev/v1", "kind": "X", "metadata": {"name": "x"}, "spec": case["spec"]});
            let ours: Vec<String> = schema.unknown_fields(&object).iter().map(|path| format!("unknown field \"{path}\"")).collect();
            let theirs: Vec<String> = case["warnings"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|warning| warning.as_str().unwrap().trim_start_matches("299 - "))
                .filter_map(|warning| Some(warning.strip_prefix('"')?.strip_suffix('"')?.replace("\\\"", "\"")))
                .filter(|warning| !warning.is_empty() && warning.starts_with("unknown field"))
                .collect();
            assert_eq!(ours, theirs, "{}", case["spec"]);
        }
    }
}

#[test]
fn rules_and_changes_are_judged_as_the_server_judged() {
    let mut failures = Vec::new();
    let mut count = 0;
    for group in groups(include_str!("rules.json")) {
        let schema = Schema::of_custom_resource(&group["schema"], &Map::new()).unwrap();
        for case in group["cases"].as_array().unwrap() {
            count += 1;
            let object = |spec: &Value, status: &Value| {
                let mut object = json!({"apiVersion": "h8.kopf.dev/v1", "kind": group["kind"], "metadata": {"name": "x"}});
                object.as_object_mut().unwrap().extend([("spec", spec), ("status", status)].into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.to_owned(), value.clone())));
                object
            };
            let errors = match case.get("status") {
                Some(status) => schema.validate_status(&object(&Value::Null, status), Some(&object(&Value::Null, &case["old_status"]))),
                None => {
                    let old = case.get("old").map(|old| object(old, &Value::Null));
                    schema.validate(&object(&case["spec"], &Value::Null), old.as_ref())
                }
            };
            let ours = sorted_causes(&FieldError::causes(&errors));
            let theirs = sorted_causes(&case["causes"]);
            if ours != theirs {
                failures.push(format!("{case}\n  ours   {ours:?}\n  theirs {theirs:?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count} differ:\n{}", failures.len(), failures.join("\n"));
}
