//! The life of CRDs: their defaults, and the conditions that the controllers of a real server set.
//!
//! `builtin/kinds.rs` calls [`prepare`] for every CRD that is written; `controllers/hooks.rs` calls
//! [`with_conditions`] after the write. `catalog/custom.rs` turns established CRDs into resources.

pub(crate) mod checks;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::catalog::{is_established, storage_version};
use crate::support::clock::timestamp;

/// What keeps a deleted CRD until its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Fills in what a CRD leaves out.
pub(crate) fn complete(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        names.entry("singular").or_insert_with(|| json!(kind.to_lowercase()));
        names.entry("listKind").or_insert_with(|| json!(format!("{kind}List")));
    }
    let conversion = spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    if let Some(service) = conversion.pointer_mut("/webhook/clientConfig/service").and_then(Value::as_object_mut) {
        service.entry("port").or_insert_with(|| json!(443));
    }
    if spec.get("preserveUnknownFields") == Some(&json!(false)) {
        spec.shift_remove("preserveUnknownFields");
    }
}

/// Fills in the status that a CRD is written with.
pub(crate) fn prepare(crd: &mut Value) {
    let storage = storage_version(&crd["spec"]);
    let status = crd.as_object_mut().map(|crd| crd.entry("status").or_insert_with(|| json!({})));
    if let Some(Value::Object(status)) = status {
        status.entry("conditions").or_insert(Value::Null);
        status.entry("acceptedNames").or_insert_with(|| json!({"plural": "", "kind": ""}));
        let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
        if let (Value::Array(stored), Some(storage)) = (stored, storage)
            && !stored.iter().any(|known| known == storage.as_str())
        {
            stored.push(json!(storage));
        }
    }
}

/// What the controllers add to the status of a CRD, beside the other ones of its group; None if
/// it is there already.
pub(crate) fn with_conditions(crd: &Value, others: &[Value], now: Timestamp) -> Option<Value> {
    let mut updated = crd.clone();
    let (accepted, conflict) = accepted_names(crd, others);
    let status = updated.get_mut("status")?.as_object_mut()?;
    status.insert("acceptedNames".into(), accepted);
    let conditions = status.entry("conditions").or_insert(Value::Null);
    match conflict {
        None => {
            set_condition(conditions, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now);
            let message = "the initial names have been accepted";
            set_condition(conditions, "Established", "True", "InitialNamesAccepted", message, now);
        }
        Some((reason, message)) => {
            set_condition(conditions, "NamesAccepted", "False", reason, &message, now);
            // An established CRD stays established.
            if !is_established(crd) {
                set_condition(conditions, "Established", "False", "NotAccepted", "not all names are accepted", now);
            }
        }
    }
    (updated != *crd).then_some(updated)
}

/// Whether a CRD has to wait for names of others.
pub(crate) fn waits_for_names(crd: &Value) -> bool {
    let conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "NamesAccepted" && condition["status"] == "False")
}

/// The names that no other CRD of the group uses, and the last conflict.
fn accepted_names(crd: &Value, others: &[Value]) -> (Value, Option<(&'static str, String)>) {
    let wanted = &crd["spec"]["names"];
    let rivals: Vec<&Value> = others
        .iter()
        .filter(|other| other["spec"]["group"] == crd["spec"]["group"])
        .filter(|other| other["metadata"]["name"] != crd["metadata"]["name"])
        .map(|other| &other["status"]["acceptedNames"])
        .collect();
    let is_in = |names: &Value, fields: &[&str], wanted: &Value| {
        fields.iter().any(|field| match &names[*field] {
            Value::Array(list) => list.contains(wanted),
            single => single == wanted && single != "",
        })
    };
    let resources = ["plural", "singular", "shortNames"];
    let kinds = ["kind", "listKind"];
    let is_taken = |fields: &[&str], wanted: &Value| rivals.iter().any(|names| is_in(names, fields, wanted));
    let mut accepted = crd["status"]["acceptedNames"].clone();
    if !accepted.is_object() {
        accepted = json!({"plural": "", "kind": ""});
    }
    let mut conflict = None;
    for (field, reason, fields) in [
        ("plural", "PluralConflict", resources.as_slice()),
        ("singular", "SingularConflict", &resources),
        ("shortNames", "ShortNamesConflict", &resources),
        ("kind", "KindConflict", &kinds),
        ("listKind", "ListKindConflict", &kinds),
    ] {
        let Some(given) = wanted.get(field) else {
            if let Some(names) = accepted.as_object_mut() {
                names.shift_remove(field);
            }
            continue;
        };
        let single = [given.clone()];
        let list = given.as_array().map_or(single.as_slice(), Vec::as_slice);
        let taken: Vec<String> = list.iter().filter(|name| is_taken(fields, name)).map(ToString::to_string).collect();
        match taken.len() {
            0 => accepted[field] = given.clone(),
            1 => conflict = Some((reason, format!("{} is already in use", taken.concat()))),
            _ => {
                let all: Vec<String> = taken.iter().map(|name| format!("{name} is already in use")).collect();
                conflict = Some((reason, format!("[{}]", all.join(", "))));
            }
        }
    }
    if let Some(categories) = wanted.get("categories") {
        accepted["categories"] = categories.clone();
    }
    (accepted, conflict)
}

/// Notes that a CRD is going away.
pub(crate) fn terminate(crd: &mut Value, now: Timestamp) {
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    let conditions = &mut crd["status"]["conditions"];
    set_condition(conditions, "Terminating", "True", "InstanceDeletionPending", message, now);
}

fn set_condition(conditions: &mut Value, kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) {
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    if let Value::Array(conditions) = conditions {
        let wanted = json!({"type": kind, "status": status, "lastTransitionTime": timestamp(now),
            "reason": reason, "message": message});
        match conditions.iter_mut().find(|condition| condition["type"] == kind) {
            Some(current) if current["status"] == status && current["reason"] == reason => {}
            Some(current) => *current = wanted,
            None => conditions.push(wanted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::resource_types;

    fn crd() -> Value {
        json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [
                    {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                     "schema": {"openAPIV3Schema": {"type": "object"}}},
                    {"name": "v2", "served": false, "storage": false,
                     "schema": {"openAPIV3Schema": {"type": "object"}}},
                ],
            },
        })
    }

    #[test]
    fn a_crd_defines_resources_once_it_is_established() {
        let mut crd = crd();
        complete(&mut crd);
        prepare(&mut crd);
        assert_eq!(crd["spec"]["names"]["listKind"], "WidgetList");
        assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
        assert!(resource_types(&crd).is_empty());
        let updated = with_conditions(&crd, &[], Timestamp::UNIX_EPOCH).unwrap();
        assert!(is_established(&updated));
        assert_eq!(with_conditions(&updated, &[], Timestamp::UNIX_EPOCH), None);
        let types = resource_types(&updated);
        assert_eq!(types.len(), 1);
        assert_eq!((types[0].qualified(), types[0].has_status()), ("widgets.example.com", true));
    }

    #[test]
    fn names_are_taken_by_the_first_one() {
        let accepted = |name: &str, names: Value, others: &[Value]| {
            let mut crd = crd();
            crd["metadata"]["name"] = json!(name);
            crd["spec"]["names"] = names;
            complete(&mut crd);
            prepare(&mut crd);
            with_conditions(&crd, others, Timestamp::UNIX_EPOCH).unwrap()
        };
        let first = accepted("widgets.x", json!({"plural": "widgets", "kind": "Widget", "shortNames": ["w"]}), &[]);
        for (names, reason, message) in [
            (json!({"plural": "others", "kind": "Widget"}), "ListKindConflict", "\"WidgetList\" is already in use"),
            (
                json!({"plural": "others", "kind": "Other", "shortNames": ["w", "o"]}),
                "ShortNamesConflict",
                "\"w\" is already in use",
            ),
            (json!({"plural": "w", "kind": "Other"}), "PluralConflict", "\"w\" is already in use"),
            (json!({"plural": "others", "kind": "Other"}), "NoConflicts", "no conflicts found"),
        ] {
            let second = accepted("others.x", names.clone(), std::slice::from_ref(&first));
            let condition = &second["status"]["conditions"][0];
            assert_eq!((&condition["reason"], &condition["message"]), (&json!(reason), &json!(message)), "{names}");
            assert_eq!(is_established(&second), reason == "NoConflicts", "{names}");
        }
    }
}
