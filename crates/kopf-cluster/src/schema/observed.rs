//! What a real kube-apiserver 1.36.3 answered, replayed on ours.
//!
//! The data files beside this one were recorded from a live server: schemas, objects sent, and
//! the status, the causes or the stored object that came back.

use serde_json::{Map, Value, json};

use super::{Schema, check_definition};
use crate::go::{FieldError, encode_whole_floats};

fn groups(text: &str) -> Vec<Value> {
    serde_json::from_str(text).expect("a recorded file")
}

/// The causes in an order that does not depend on the server's random one.
fn sorted_causes(causes: &Value) -> Vec<String> {
    let mut texts: Vec<String> = causes
        .as_array()
        .into_iter()
        .flatten()
        .map(|cause| {
            format!(
                "{} | {} | {}",
                cause["field"].as_str().unwrap(),
                cause["reason"].as_str().unwrap(),
                cause["message"].as_str().unwrap()
            )
        })
        .collect();
    texts.sort();
    texts
}

/// Replays one create: the answer as (code, causes or warnings, stored spec).
fn create(schema: &Schema, kind: &str, spec: &Value) -> (u64, Vec<String>, Value) {
    let mut object = json!({"apiVersion": "h8.kopf.dev/v1", "kind": kind, "metadata": {"name": "x"}, "spec": spec});
    schema.default(&mut object);
    schema.prune(&mut object);
    let errors = schema.validate(&object, None);
    encode_whole_floats(&mut object);
    match errors.is_empty() {
        true => (201, Vec::new(), object["spec"].clone()),
        false => (422, sorted_causes(&FieldError::causes(&errors)), Value::Null),
    }
}

#[test]
fn creates_are_answered_as_the_server_answered() {
    let mut failures = Vec::new();
    let mut count = 0;
    for group in groups(include_str!("observed/validation.json")) {
        let schema = Schema::of_custom_resource(&group["schema"], &Map::new()).unwrap();
        for case in group["cases"].as_array().unwrap() {
            count += 1;
            let ours = create(&schema, group["kind"].as_str().unwrap(), &case["spec"]);
            let theirs = (case["code"].as_u64().unwrap(), sorted_causes(&case["causes"]), case["result"].clone());
            // The decoder rejects malformed embedded objects before the validation.
            if ours != theirs && theirs.0 != 400 {
                failures.push(format!("{} {}\n  ours   {ours:?}\n  theirs {theirs:?}", group["name"], case["spec"]));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count} differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn unknown_fields_are_named_as_the_server_warned() {
    for group in groups(include_str!("observed/validation.json")) {
        let schema = Schema::of_custom_resource(&group["schema"], &Map::new()).unwrap();
        for case in group["cases"].as_array().unwrap().iter().filter(|case| case["code"] == 201) {
            let object =
                json!({"apiVersion": "h8.kopf.dev/v1", "kind": "X", "metadata": {"name": "x"}, "spec": case["spec"]});
            let ours: Vec<String> =
                schema.unknown_fields(&object).iter().map(|path| format!("unknown field \"{path}\"")).collect();
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
    for group in groups(include_str!("observed/rules.json")) {
        let schema = Schema::of_custom_resource(&group["schema"], &Map::new()).unwrap();
        for case in group["cases"].as_array().unwrap() {
            count += 1;
            let object = |spec: &Value, status: &Value| {
                let mut object =
                    json!({"apiVersion": "h8.kopf.dev/v1", "kind": group["kind"], "metadata": {"name": "x"}});
                object.as_object_mut().unwrap().extend(
                    [("spec", spec), ("status", status)]
                        .into_iter()
                        .filter(|(_, value)| !value.is_null())
                        .map(|(name, value)| (name.to_owned(), value.clone())),
                );
                object
            };
            let errors = match case.get("status") {
                Some(status) => schema
                    .validate_status(&object(&Value::Null, status), Some(&object(&Value::Null, &case["old_status"]))),
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

#[test]
fn definitions_are_refused_as_the_server_refused_them() {
    let mut failures = Vec::new();
    let cases = groups(include_str!("observed/definitions.json"));
    for case in &cases {
        let errors = check_definition(&case["schema"], "spec.validation.openAPIV3Schema");
        // The details of CEL and pattern errors differ between the libraries.
        let brief = |causes: &Value| -> Vec<String> {
            let cut = |text: String| {
                ["compilation failed", "cel expression must", "error parsing regexp"]
                    .iter()
                    .find_map(|words| {
                        text.find(words).map(|_| format!("{} {words}", text.split(" | ").next().unwrap()))
                    })
                    .unwrap_or(text)
            };
            sorted_causes(causes).into_iter().map(cut).collect()
        };
        let (ours, theirs) = (brief(&FieldError::causes(&errors)), brief(&case["causes"]));
        if ours != theirs && case["is_typed"] != true {
            failures.push(format!("{}\n  ours   {ours:?}\n  theirs {theirs:?}", case["schema"]));
        }
    }
    assert!(failures.is_empty(), "{} of {} differ:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

#[test]
fn wrong_types_of_built_in_kinds_fail_to_decode_as_on_the_server() {
    let definitions: Map<String, Value> =
        serde_json::from_str(include_str!("../patching/observed/definitions.json")).unwrap();
    for case in groups(include_str!("observed/decoding.json")) {
        let kind = case["kind"].as_str().unwrap();
        let group = if kind == "Deployment" { "apps" } else { "" };
        let name = Schema::definition_of_kind(&definitions, group, "v1", kind).unwrap();
        let schema = Schema::of_definition(name, &definitions).unwrap();
        let ours = schema.decoding_error(&case["object"]);
        let prefix = format!("{kind} in version \"v1\" cannot be handled as a {kind}: ");
        let theirs = case["message"]
            .as_str()
            .filter(|_| case["code"] == 400)
            .map(|message| message.strip_prefix(&prefix).unwrap());
        assert_eq!(ours.as_deref(), theirs, "{}", case["object"]);
    }
}

#[test]
fn unknown_fields_of_metadata_come_first() {
    let definitions: Map<String, Value> =
        serde_json::from_str(include_str!("../patching/observed/definitions.json")).unwrap();
    let declared =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "integer"}}}}});
    let object = json!({
        "apiVersion": "x/v1", "kind": "X", "extra": 1, "spec": {"z": 1, "a": 1},
        "metadata": {"name": "x", "unknown": 1, "labels": {"any": "thing"}, "ownerReferences": [{"uid": "u", "strange": 1}]},
    });
    let custom = Schema::of_custom_resource(&declared, &definitions).unwrap();
    let expected = ["metadata.unknown", "metadata.ownerReferences[0].strange", "extra", "spec.z"];
    assert_eq!(custom.unknown_fields(&object), expected);
    let built_in = Schema::of_definition("io.k8s.api.core.v1.ConfigMap", &definitions).unwrap();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "zz": 1, "metadata": {"unknown": 1}, "aa": 1, "data": {"k": "v"}});
    assert_eq!(built_in.unknown_fields(&object), ["zz", "metadata.unknown", "aa"]);
}
