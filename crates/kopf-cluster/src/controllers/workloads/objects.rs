//! What all controllers ask about objects: owners, pods that are ready, conditions, hashes.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::plan::Api;
use crate::support::clock::timestamp;

pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

pub(super) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(super) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

pub(super) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

pub(super) fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    object.pointer(pointer)?.as_str()?.parse().ok()
}

/// When it was made; objects without a time are as old as can be.
pub(super) fn created(object: &Value) -> Timestamp {
    time(object, "/metadata/creationTimestamp").unwrap_or(Timestamp::MIN)
}

pub(super) fn is_deleted(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"].get(key)?.as_str()
}

pub(super) fn set_annotation(object: &mut Value, key: &str, value: &str) {
    if !object["metadata"]["annotations"].is_object() {
        object["metadata"]["annotations"] = json!({});
    }
    object["metadata"]["annotations"][key] = json!(value);
}

pub(super) fn seconds(time: Timestamp, seconds: i64) -> Timestamp {
    time.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

/// The reference of what an owner controls.
pub(super) fn controller_reference(api: Api, owner: &Value) -> Value {
    json!({
        "apiVersion": api.api_version(), "kind": api.kind, "name": name(owner), "uid": uid(owner),
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// The reference to the controller of an object.
pub(super) fn controller_of(object: &Value) -> Option<&Value> {
    object["metadata"]["ownerReferences"].as_array()?.iter().find(|owner| owner["controller"] == true)
}

pub(super) fn is_controlled_by(object: &Value, owner: &Value) -> bool {
    controller_of(object).is_some_and(|reference| text(reference, "/uid") == uid(owner))
}

/// A pod as a template describes it. The caller names it.
pub(super) fn pod_of(template: &Value, api: Api, owner: &Value) -> Value {
    let mut metadata = Map::new();
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template["metadata"].get(field) {
            metadata.insert(field.into(), value.clone());
        }
    }
    metadata.insert("namespace".into(), json!(namespace(owner)));
    metadata.insert("ownerReferences".into(), json!([controller_reference(api, owner)]));
    json!({"metadata": metadata, "spec": template["spec"]})
}

/// Whether a pod is over, well or badly.
pub(super) fn is_over(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// Whether a pod counts for its owner.
pub(super) fn is_active(pod: &Value) -> bool {
    !is_over(pod) && !is_deleted(pod)
}

pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

pub(super) fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True")
}

/// When a ready pod becomes available, if it stays ready.
pub(super) fn available_from(pod: &Value, min_ready_seconds: i64) -> Option<Timestamp> {
    let ready = condition(pod, "Ready").filter(|ready| ready["status"] == "True")?;
    if min_ready_seconds == 0 {
        return Some(Timestamp::MIN);
    }
    Some(seconds(time(ready, "/lastTransitionTime")?, min_ready_seconds))
}

/// Sets a condition. The transition time only changes with the status.
///
/// An unchanged condition stays where it is; a changed one goes to the end, as in a real cluster.
pub(super) fn set_condition(status: &mut Value, mut condition: Value, now: Timestamp) {
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let known = conditions.iter().find(|known| known["type"] == condition["type"]).cloned();
    if let Some(known) = &known {
        if known["status"] == condition["status"] && known["reason"] == condition["reason"] {
            return;
        }
        conditions.retain(|other| other["type"] != condition["type"]);
    }
    let unchanged = known.filter(|known| known["status"] == condition["status"]);
    condition["lastTransitionTime"] = match unchanged {
        Some(known) => known["lastTransitionTime"].clone(),
        None => json!(timestamp(now)),
    };
    conditions.push(condition);
    status["conditions"] = Value::Array(conditions);
}

/// Sets a count in a status, which does not show zeros.
pub(super) fn set_count(status: &mut Value, field: &str, count: i64) {
    if let Value::Object(fields) = status {
        match count {
            0 => fields.shift_remove(field),
            count => fields.insert(field.into(), json!(count)),
        };
    }
}

pub(super) fn remove_field(object: &mut Value, field: &str) {
    if let Value::Object(fields) = object {
        fields.shift_remove(field);
    }
}

/// Whether labels fit a selector with `matchLabels` and `matchExpressions`. No selector fits nothing.
pub(super) fn selects<'a>(selector: &Value, label: impl Fn(&str) -> Option<&'a str>) -> bool {
    let Value::Object(_) = selector else { return false };
    let exact = selector["matchLabels"].as_object().into_iter().flatten();
    let mut expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    exact.into_iter().all(|(key, value)| label(key) == value.as_str())
        && expressions.all(|expression| fits(expression, label(text(expression, "/key"))))
}

/// Whether a label fits one requirement of a selector.
pub(super) fn fits(requirement: &Value, label: Option<&str>) -> bool {
    let among = |label: &str| {
        requirement["values"].as_array().is_some_and(|values| values.iter().any(|value| value.as_str() == Some(label)))
    };
    let compared = || {
        let bound: i64 = requirement["values"][0].as_str()?.parse().ok()?;
        Some((label?.parse::<i64>().ok()?, bound))
    };
    match requirement["operator"].as_str() {
        Some("In") => label.is_some_and(among),
        Some("NotIn") => !label.is_some_and(among),
        Some("Exists") => label.is_some(),
        Some("DoesNotExist") => label.is_none(),
        Some("Gt") => compared().is_some_and(|(label, bound)| label > bound),
        Some("Lt") => compared().is_some_and(|(label, bound)| label < bound),
        _ => false,
    }
}

/// A number or a percentage of a total.
pub(super) fn scaled(value: &Value, total: i64, round_up: bool) -> i64 {
    match value {
        Value::Number(number) => number.as_i64().unwrap_or_default(),
        Value::String(text) => {
            let percents: i64 = text.trim_end_matches('%').parse().unwrap_or_default();
            let hundredfold = percents.saturating_mul(total);
            if round_up { (hundredfold + 99) / 100 } else { hundredfold / 100 }
        }
        _ => 0,
    }
}

/// A short name of a template: the same for the same template. It looks as in a real cluster.
pub(super) fn template_hash(template: &Value, collisions: Option<i64>) -> String {
    let mut hash = Fnv::default();
    hash.value(template);
    if let Some(collisions) = collisions {
        hash.bytes(&collisions.to_le_bytes());
    }
    // The digits of a number in an alphabet without vowels.
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let digits = hash.0.to_string();
    digits.bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}

/// FNV-1a with 32 bits.
struct Fnv(u32);

impl Default for Fnv {
    fn default() -> Self {
        Self(0x811c_9dc5)
    }
}

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }

    /// The order of fields does not matter.
    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                let mut names: Vec<&String> = fields.keys().collect();
                names.sort();
                self.bytes(b"{");
                for name in names {
                    self.bytes(name.as_bytes());
                    self.bytes(b":");
                    self.value(&fields[name.as_str()]);
                }
                self.bytes(b"}");
            }
            Value::Array(items) => {
                self.bytes(b"[");
                items.iter().for_each(|item| self.value(item));
                self.bytes(b"]");
            }
            scalar => {
                self.bytes(scalar.to_string().as_bytes());
                self.bytes(b",");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded() {
        let check = |value: Value, total: i64, up: i64, down: i64| {
            assert_eq!((scaled(&value, total, true), scaled(&value, total, false)), (up, down), "{value} of {total}");
        };
        check(json!("25%"), 3, 1, 0);
        check(json!("25%"), 4, 1, 1);
        check(json!("100%"), 3, 3, 3);
        check(json!(2), 3, 2, 2);
        check(json!(null), 3, 0, 0);
    }

    #[test]
    fn selectors_fit() {
        let labels = json!({"app": "web", "tier": "1"});
        let check = |selector: Value, expected: bool| {
            assert_eq!(selects(&selector, |key| labels[key].as_str()), expected, "{selector}");
        };
        check(json!({"matchLabels": {"app": "web"}}), true);
        check(json!({"matchLabels": {"app": "db"}}), false);
        check(json!({}), true);
        check(json!(null), false);
        check(json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}), true);
        check(json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}), false);
        check(json!({"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}), true);
        check(json!({"matchExpressions": [{"key": "tier", "operator": "Gt", "values": ["0"]}]}), true);
    }

    #[test]
    fn hashes_depend_on_content_alone() {
        let one = json!({"a": 1, "b": [1, 2]});
        let reordered: Value = serde_json::from_str(r#"{"b": [1, 2], "a": 1}"#).unwrap();
        assert_eq!(template_hash(&one, None), template_hash(&reordered, None));
        assert_ne!(template_hash(&one, None), template_hash(&one, Some(1)));
        assert_ne!(template_hash(&one, None), template_hash(&json!({"a": 1, "b": [12]}), None));
        assert!(template_hash(&one, None).chars().all(|c| "456789bcdf".contains(c)));
    }

    #[test]
    fn a_transition_is_a_change_of_status() {
        let (early, late) = (Timestamp::UNIX_EPOCH, seconds(Timestamp::UNIX_EPOCH, 60));
        let mut status = json!({});
        set_condition(&mut status, json!({"type": "A", "status": "True", "reason": "One"}), early);
        set_condition(&mut status, json!({"type": "B", "status": "True", "reason": "One"}), early);
        set_condition(&mut status, json!({"type": "A", "status": "True", "reason": "Two"}), late);
        let kinds: Vec<&str> = status["conditions"].as_array().unwrap().iter().map(|c| text(c, "/type")).collect();
        assert_eq!(kinds, ["B", "A"]);
        assert_eq!(status["conditions"][1]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        set_condition(&mut status, json!({"type": "A", "status": "False", "reason": "Two"}), late);
        assert_eq!(status["conditions"][1]["lastTransitionTime"], "1970-01-01T00:01:00Z");
    }
}
