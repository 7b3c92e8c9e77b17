//! What a real kube-apiserver 1.36.3 answered to patches, replayed on ours.
//!
//! The data files beside this one were recorded from a live server: the requests in their order,
//! and the objects or the errors that came back. Each step starts from the server's own object.

use serde_json::{Map, Value, json};

use crate::schema::Schema;

use super::managed::{
    ApplyError, FieldSet, FieldWrite, OneVersion, Unconverted, Versions, apply, keep_times_of_no_change, manager_name,
    record_write,
};
use super::{apply_json_patch, apply_strategic};

fn definitions() -> Map<String, Value> {
    serde_json::from_str(include_str!("observed/definitions.json")).unwrap()
}

fn schema_of(kind: &str, custom: &Value) -> Schema {
    let definitions = definitions();
    match kind {
        "Deployment" => Schema::of_definition("io.k8s.api.apps.v1.Deployment", &definitions).unwrap(),
        "Service" => Schema::of_definition("io.k8s.api.core.v1.Service", &definitions).unwrap(),
        "ConfigMap" => Schema::of_definition("io.k8s.api.core.v1.ConfigMap", &definitions).unwrap(),
        _ => Schema::of_custom_resource(custom, &definitions).unwrap(),
    }
}

fn ignored_fields(kind: &str, subresource: &str) -> FieldSet {
    match (kind, subresource) {
        ("ConfigMap", _) => FieldSet::default(),
        (_, "") => FieldSet::of_fields(&[&["status"]]),
        ("Mf", _) => FieldSet::of_fields(&[&["spec"], &["metadata"]]),
        _ => FieldSet::of_fields(&[&["spec"], &["metadata", "labels"]]),
    }
}

/// The entries, of the times only whether there is one, since ours are written at another time.
fn entries(object: &Value) -> Vec<Value> {
    let mut entries = object.pointer("/metadata/managedFields").and_then(Value::as_array).cloned().unwrap_or_default();
    for entry in &mut entries {
        if let Some(time) = entry.get_mut("time") {
            *time = Value::from("some time");
        }
    }
    entries.sort_by_key(crate::go::go_json);
    entries
}

fn texts(object: &Value) -> Vec<String> {
    entries(object).iter().map(crate::go::go_json).collect()
}

/// What built-in kinds do not keep.
fn is_hollow(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// Whether all of one value is in the other; built-in kinds get defaults added.
fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            part.iter().all(|(name, value)| whole.get(name).map_or(is_hollow(value), |other| is_part(value, other)))
        }
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len() && part.iter().zip(whole).all(|(part, whole)| is_part(part, whole))
        }
        _ => part == whole,
    }
}

fn text<'a>(step: &'a Value, name: &str) -> &'a str {
    step[name].as_str().unwrap_or_default()
}

#[test]
fn managed_fields_are_as_the_server_left_them() {
    let recorded: Value = serde_json::from_str(include_str!("observed/managed.json")).unwrap();
    let mut failures = Vec::new();
    let mut current: Option<Value> = None;
    let mut scenario = String::new();
    let steps = recorded["steps"].as_array().unwrap();
    for (position, step) in steps.iter().enumerate() {
        if text(step, "scenario") != scenario {
            scenario = text(step, "scenario").to_owned();
            current = None;
        }
        let kind = text(step, "kind");
        let api_version = match kind {
            "Deployment" => "apps/v1",
            "Service" | "ConfigMap" => "v1",
            _ => "h8.kopf.dev/v1",
        };
        let versions = OneVersion { api_version: api_version.to_owned(), schema: schema_of(kind, &recorded["schema"]) };
        let ignored = ignored_fields(kind, text(step, "subresource"));
        let write = FieldWrite {
            versions: &versions,
            api_version,
            manager: text(step, "manager"),
            subresource: text(step, "subresource"),
            ignored: &ignored,
            now: "2030-01-01T00:00:00Z",
        };
        let label = format!(
            "step {position}: {scenario} {} by {}: {}",
            text(step, "verb"),
            text(step, "manager"),
            step["request"]
        );
        let after = step.get("after");
        if step["verb"] == "apply" {
            let ours = apply(&write, current.as_ref(), &step["request"], step["force"] == true);
            match (ours, after) {
                (Ok(ours), Some(after)) => {
                    let same_entries = entries(&ours) == entries(after);
                    let same_object = is_part(&ours["spec"], &after["spec"]) && is_part(&ours["data"], &after["data"]);
                    if !same_entries || !same_object {
                        failures.push(format!(
                            "{label}\n  ours   {}\n  theirs {}\n  ours   {:?}\n  theirs {:?}",
                            ours["spec"],
                            after["spec"],
                            texts(&ours),
                            texts(after)
                        ));
                    }
                }
                (Err(error), None) => {
                    let same = (u64::from(error.status_code()), error.to_string())
                        == (step["code"].as_u64().unwrap(), text(step, "message").to_owned());
                    let same_causes = !matches!(error, ApplyError::Conflicts(_)) || error.causes() == step["causes"];
                    if !same || !same_causes {
                        failures.push(format!(
                            "{label}\n  ours   {error} {}\n  theirs {} {}",
                            error.causes(),
                            step["message"],
                            step["causes"]
                        ));
                    }
                }
                // The merged object is validated later, like any other write.
                (Ok(_), None) if step["code"] == 422 => {}
                (ours, _) => {
                    failures.push(format!("{label}\n  ours   {ours:?}\n  theirs {} {}", step["code"], step["message"]))
                }
            }
        } else if let Some(after) = after {
            let mut ours = after.clone();
            let brought = step["request"].pointer("/metadata/managedFields").cloned();
            let metadata = ours["metadata"].as_object_mut().unwrap();
            metadata.shift_remove("managedFields");
            if let Some(brought) = brought {
                metadata.insert("managedFields".to_owned(), brought);
            }
            // Addresses are allocated after the managed fields are recorded; no manager owns them.
            for allocated in
                ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"].iter().filter(|_| current.is_none())
            {
                ours.get_mut("spec").and_then(Value::as_object_mut).map(|spec| spec.shift_remove(*allocated));
            }
            record_write(&write, current.as_ref(), &mut ours);
            if entries(&ours) != entries(after) {
                failures.push(format!("{label}\n  ours   {:?}\n  theirs {:?}", texts(&ours), texts(after)));
            }
        }
        if let Some(after) = after {
            current = Some(after.clone());
        }
    }
    assert!(failures.is_empty(), "{} of {} differ:\n{}", failures.len(), steps.len(), failures.join("\n\n"));
}

#[test]
fn json_patches_are_answered_as_the_server_answered() {
    let recorded: Value = serde_json::from_str(include_str!("observed/patches.json")).unwrap();
    for step in recorded["json"].as_array().unwrap() {
        match apply_json_patch(&recorded["configmap"], &step["patch"]) {
            Ok(ours) => {
                assert_eq!(step["code"], 200, "{}", step["patch"]);
                // Nulls of maps of texts become empty texts when the server decodes them.
                let decoded: Value = serde_json::from_str(&ours.to_string().replace(":null", ":\"\"")).unwrap();
                assert_eq!(
                    decoded.get("data").filter(|data| !is_hollow(data)),
                    step["result"].get("data"),
                    "{}",
                    step["patch"]
                );
                let metadata = ["annotations", "finalizers", "labels"];
                metadata.iter().for_each(|name| {
                    assert_eq!(decoded["metadata"][name], step["result"]["metadata"][name], "{}", step["patch"])
                });
            }
            Err(error) => {
                let ours = (Value::from(error.status_code()), Value::from(error.to_string()));
                assert_eq!(ours, (step["code"].clone(), step["message"].clone()), "{} {error:?}", step["patch"]);
            }
        }
    }
}

#[test]
fn strategic_patches_are_answered_as_the_server_answered() {
    let recorded: Value = serde_json::from_str(include_str!("observed/patches.json")).unwrap();
    let schema = schema_of("Deployment", &Value::Null);
    for step in recorded["strategic"].as_array().unwrap() {
        match (apply_strategic(&schema, &recorded["deployment"], &step["patch"]), step["code"].as_u64().unwrap()) {
            (Ok(mut ours), 200) => {
                schema.prune(&mut ours);
                let spec = is_part(&ours["spec"], &step["result"]["spec"]);
                assert!(spec, "{}\n ours   {}\n theirs {}", step["patch"], ours["spec"], step["result"]["spec"]);
                let names = ["annotations", "finalizers", "labels", "ownerReferences"];
                names.iter().for_each(|name| {
                    assert_eq!(ours["metadata"][name], step["result"]["metadata"][name], "{}", step["patch"])
                });
            }
            // The result is decoded and validated after the patch.
            (Ok(_), 422) => {}
            (Ok(ours), code) => {
                panic!("{} gives {ours}, but the server said {code} {}", step["patch"], step["message"])
            }
            (Err(error), code) => {
                assert_eq!(
                    (u64::from(error.status_code()), error.to_string().as_str()),
                    (code, text(step, "message")),
                    "{}",
                    step["patch"]
                );
            }
        }
    }
}

/// A kind with two versions of the same form.
struct TwoVersions(Schema);

impl Versions for TwoVersions {
    fn schema(&self, api_version: &str) -> Option<Schema> {
        matches!(api_version, "h8.kopf.dev/v1" | "h8.kopf.dev/v2").then(|| self.0.clone())
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, Unconverted> {
        let mut converted = object.clone();
        converted["apiVersion"] = api_version.into();
        Ok(converted)
    }
}

#[test]
fn owners_of_different_versions_know_of_each_other() {
    let declared = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": {"type": "integer"}, "b": {"type": "string"}}}}});
    let versions = TwoVersions(Schema::of_custom_resource(&declared, &definitions()).unwrap());
    let ignored = FieldSet::default();
    let object = |version: &str, spec: Value| json!({"apiVersion": version, "kind": "Mv", "metadata": {"name": "x"}, "spec": spec});
    let owners = |object: &Value| -> Vec<String> {
        let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array).cloned().unwrap_or_default();
        let text = |entry: &Value| {
            format!(
                "{} {} {} {}",
                entry["manager"].as_str().unwrap(),
                entry["operation"].as_str().unwrap(),
                entry["apiVersion"].as_str().unwrap(),
                crate::go::go_json(&entry["fieldsV1"]["f:spec"])
            )
        };
        entries.iter().map(text).collect()
    };
    let (v1, v2) = ("h8.kopf.dev/v1", "h8.kopf.dev/v2");
    let write = |api_version, manager| FieldWrite {
        versions: &versions,
        api_version,
        manager,
        subresource: "",
        ignored: &ignored,
        now: "2030-01-01T00:00:00Z",
    };
    let first = apply(&write(v1, "m"), None, &object(v1, json!({"a": 1, "b": "x"})), false).unwrap();
    assert_eq!(owners(&first), [r#"m Apply h8.kopf.dev/v1 {"f:a":{},"f:b":{}}"#]);
    let seen = versions.convert(&first, v2).unwrap();
    let second = apply(&write(v2, "m"), Some(&seen), &object(v2, json!({"a": 2})), false).unwrap();
    assert_eq!(
        (owners(&second), &second["spec"]),
        (vec![r#"m Apply h8.kopf.dev/v2 {"f:a":{}}"#.to_owned()], &json!({"a": 2}))
    );
    let old = versions.convert(&second, v1).unwrap();
    let mut third = super::apply_merge(&old, &json!({"spec": {"a": 3}}));
    record_write(&write(v1, "n"), Some(&old), &mut third);
    assert_eq!(owners(&third), [r#"n Update h8.kopf.dev/v1 {"f:a":{}}"#]);
    let old = versions.convert(&third, v2).unwrap();
    let mut fourth = super::apply_merge(&old, &json!({"spec": {"b": "q"}}));
    record_write(&write(v2, "n"), Some(&old), &mut fourth);
    assert_eq!(owners(&fourth), [r#"n Update h8.kopf.dev/v1 {"f:a":{}}"#, r#"n Update h8.kopf.dev/v2 {"f:b":{}}"#]);
    let live = versions.convert(&fourth, v1).unwrap();
    let refused = apply(&write(v1, "m"), Some(&live), &object(v1, json!({"a": 9, "b": "z"})), false).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Apply failed with 2 conflicts: conflicts with \"n\" using h8.kopf.dev/v1:\n- .spec.a\n\
         conflicts with \"n\" using h8.kopf.dev/v2:\n- .spec.b"
    );
}

#[test]
fn times_change_only_with_something_else() {
    let object = |time: &str, size: i64| json!({"metadata": {"managedFields": [{"manager": "m", "time": time}]}, "spec": {"size": size}});
    for (size, expected) in [(1, "old"), (2, "new")] {
        let mut written = object("new", size);
        keep_times_of_no_change(&object("old", 1), &mut written);
        assert_eq!(written, object(expected, size));
    }
}

#[test]
fn managers_without_a_name_are_called_after_their_program() {
    for (field_manager, user_agent, expected) in
        [("me", "kubectl/v1", "me"), ("", "kubectl/v1.36 (linux)", "kubectl"), ("", "", ""), ("", "plain", "plain")]
    {
        assert_eq!(manager_name(field_manager, user_agent), expected);
    }
}
