//! Conversion webhooks: convert the objects of a CRD from one version to another.
//!
//! Objects are stored in the storage version. The verbs convert objects that they read and write by a
//! [`Converter`], which uses the replay of the request; watches call [`convert_stored`].

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::client::fetch;
use super::review::not_registered;
use crate::catalog::{ConversionWebhook, ResourceType};
use crate::go::FieldError;
use crate::request::status::StatusError;
use crate::request::{Answered, Call, Replay};
use crate::state::State;
use crate::store::Stored;
use crate::values::names;

/// How long a conversion may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Converts the objects of one request.
#[derive(Clone, Copy)]
pub(crate) struct Converter<'a> {
    pub state: &'a State,
    pub replay: &'a Replay,
}

impl Converter<'_> {
    /// Converts stored objects to the version of a resource. Most have that version already.
    pub(crate) fn stored(
        &self,
        resource: &ResourceType,
        objects: &[Arc<Stored>],
    ) -> Result<Vec<Arc<Stored>>, StatusError> {
        let Some(webhook) = resource.conversion() else { return Ok(objects.to_vec()) };
        let wanted = resource.api_version();
        let is_other = |stored: &Stored| stored.api_version().is_some_and(|version| version != wanted);
        let mut versions: Vec<&str> = objects.iter().filter_map(|stored| stored.api_version()).collect();
        versions.sort_unstable();
        versions.dedup();
        let mut converted = objects.to_vec();
        let mut is_waiting = false;
        for version in versions.into_iter().filter(|version| *version != wanted) {
            let of_version = |stored: &&mut Arc<Stored>| is_other(stored) && stored.api_version() == Some(version);
            let mut slots: Vec<&mut Arc<Stored>> = converted.iter_mut().filter(of_version).collect();
            let places: Vec<String> = slots.iter().map(|stored| stored.version.to_string()).collect();
            let originals: Vec<Value> = slots.iter().map(|stored| original(resource, stored)).collect();
            let key = format!("convert/{wanted}/{}", places.join(","));
            match self.convert(webhook, resource, &key, &originals, wanted) {
                Some(values) => {
                    for (slot, mut value) in slots.iter_mut().zip(values?) {
                        self.prune(resource, wanted, &mut value);
                        **slot = Arc::new(slot.with_value(value));
                    }
                }
                None => is_waiting = true,
            }
        }
        match is_waiting {
            true => Err(Replay::wait()),
            false => Ok(converted),
        }
    }

    /// Converts an object to another version.
    pub(crate) fn value(
        &self,
        resource: &ResourceType,
        key: &str,
        value: &Value,
        wanted: &str,
    ) -> Result<Value, StatusError> {
        let mut converted = self.unpruned(resource, key, value, wanted).ok_or_else(Replay::wait)??;
        if resource.conversion().is_some() && value["apiVersion"] != wanted {
            self.prune(resource, wanted, &mut converted);
        }
        Ok(converted)
    }

    /// The same without pruning; None if the response of the webhook is still to be fetched.
    pub(crate) fn unpruned(
        &self,
        resource: &ResourceType,
        key: &str,
        value: &Value,
        wanted: &str,
    ) -> Option<Result<Value, StatusError>> {
        let needs_webhook = value["apiVersion"] != wanted && !is_empty(value);
        let Some(webhook) = resource.conversion().filter(|_| needs_webhook) else {
            let mut same = value.clone();
            same["apiVersion"] = json!(wanted);
            return Some(Ok(same));
        };
        let key = format!("{key}/convert/{wanted}");
        let converted = self.convert(webhook, resource, &key, std::slice::from_ref(value), wanted)?;
        Some(converted.and_then(|mut converted| converted.pop().ok_or_else(Replay::wait)))
    }

    /// Drops the fields that the schema of a version does not know, as for bodies of requests.
    fn prune(&self, resource: &ResourceType, wanted: &str, value: &mut Value) {
        let version = wanted.rsplit('/').next().unwrap_or_default();
        let catalog = self.state.catalog();
        let target = catalog.get(&resource.group, version, &resource.plural);
        if let Some(schema) = target.and_then(|target| target.schema()) {
            schema.prune(value);
        }
    }

    /// Calls the webhook; None if its response is still to be fetched.
    fn convert(
        &self,
        webhook: &ConversionWebhook,
        resource: &ResourceType,
        key: &str,
        originals: &[Value],
        wanted: &str,
    ) -> Option<Result<Vec<Value>, StatusError>> {
        let answered = self.replay.ask(key, || {
            let uid = self.state.randomness().uid();
            Call { target: Arc::clone(&webhook.target), timeout: TIMEOUT, body: review(&uid, originals, wanted), uid }
        })?;
        Some(read(resource, originals, wanted, &answered).map_err(StatusError::bare))
    }
}

/// Converts stored objects for a watch, which can await the response itself.
pub(crate) async fn convert_stored(
    state: &State,
    resource: &ResourceType,
    objects: &[Arc<Stored>],
) -> Result<Vec<Arc<Stored>>, StatusError> {
    let replay = Replay::default();
    let converter = Converter { state, replay: &replay };
    let first = converter.stored(resource, objects);
    let pending = replay.take_pending();
    if pending.is_empty() {
        return first;
    }
    for (key, call) in pending {
        let outcome = fetch(state, &call).await;
        replay.learn(key, Answered { uid: call.uid, outcome });
    }
    converter.stored(resource, objects)
}

/// Whether an object has nothing but its type. No webhook is called for those.
fn is_empty(object: &Value) -> bool {
    object.as_object().is_some_and(|fields| fields.keys().all(|name| name == "apiVersion" || name == "kind"))
}

fn review(uid: &str, originals: &[Value], wanted: &str) -> Value {
    let objects: Vec<Value> = originals.iter().map(without_version).collect();
    json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
        "request": {"uid": uid, "desiredAPIVersion": wanted, "objects": objects},
        "response": {"uid": "", "convertedObjects": null, "result": {"metadata": {}}}})
}

/// Webhooks receive objects without their resource version.
fn without_version(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.shift_remove("resourceVersion");
    }
    object
}

fn original(resource: &ResourceType, stored: &Stored) -> Value {
    let mut typed = Map::new();
    typed.insert("apiVersion".into(), json!(stored.api_version().unwrap_or_default()));
    typed.insert("kind".into(), json!(resource.kind));
    if let Value::Object(fields) = stored.decode() {
        typed.extend(fields.into_iter().filter(|(name, _)| name != "apiVersion"));
    }
    Value::Object(typed)
}

/// The converted objects; or the error in the response, in the words of a real server.
fn read(resource: &ResourceType, originals: &[Value], wanted: &str, answered: &Answered) -> Result<Vec<Value>, String> {
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let from = originals.first().map(|original| text(original, "apiVersion")).unwrap_or_default();
    let webhook = format!("conversion webhook for {from}, Kind={}", resource.kind);
    let converted = response_of(answered).map_err(|reason| format!("{webhook} failed: {reason}"))?;
    if converted.len() != originals.len() {
        return Err(format!("{webhook} returned {} objects, expected {}", converted.len(), originals.len()));
    }
    let mut restored = Vec::with_capacity(converted.len());
    for (index, (original, object)) in originals.iter().zip(converted).enumerate() {
        let invalid = format!("{webhook} returned invalid object");
        if !object.is_object() {
            return Err(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                super::review::go_type(object)
            ));
        }
        let (version, kind) = (text(object, "apiVersion"), text(object, "kind"));
        if version != wanted {
            return Err(format!(
                "{invalid} at index {index}: invalid groupVersion (expected {wanted}, received {version})"
            ));
        }
        if kind != resource.kind {
            let expected = &resource.kind;
            return Err(format!("{invalid} at index {index}: invalid kind (expected {expected}, received {kind})"));
        }
        for (field, name) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
            let (before, after) = (text(&original["metadata"], field), text(&object["metadata"], field));
            if before != after {
                return Err(format!("{invalid}: must have the same {name}: {before} != {after}"));
            }
        }
        let metadata = restored_metadata(original, object)
            .map_err(|reason| format!("{webhook} returned invalid metadata: {reason}"))?;
        let mut object = object.clone();
        object["metadata"] = metadata;
        restored.push(object);
    }
    Ok(restored)
}

fn response_of(answered: &Answered) -> Result<&Vec<Value>, String> {
    static NOTHING: Vec<Value> = Vec::new();
    let review = answered.outcome.as_ref().map_err(Clone::clone)?;
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (version, kind) = (text(review, "apiVersion"), text(review, "kind"));
    let expected = "apiextensions.k8s.io/v1";
    if !(version.is_empty() || version == expected) || !(kind.is_empty() || kind == "ConversionReview") {
        return Err(not_registered(&version, &kind));
    }
    let response = review.get("response").filter(|response| response.is_object()).ok_or("no response provided")?;
    let uid = text(response, "uid");
    if version.is_empty() || kind.is_empty() {
        let version = if version.is_empty() { "/" } else { &version };
        return Err(format!(
            "expected webhook response of {expected}, Kind=ConversionReview, got {version}, Kind={kind}"
        ));
    }
    if uid != answered.uid {
        return Err(format!("expected response.uid=\"{}\", got \"{uid}\"", answered.uid));
    }
    let result = &response["result"];
    match (text(result, "status").as_str(), text(result, "message")) {
        ("Success", _) => Ok(response["convertedObjects"].as_array().unwrap_or(&NOTHING)),
        (status, message) if message.is_empty() => Err(format!("response.result.status was '{status}', not 'Success'")),
        (_, message) => Err(message),
    }
}

/// Of the metadata, a webhook can change only labels and annotations; the rest is restored.
fn restored_metadata(original: &Value, converted: &Value) -> Result<Value, String> {
    let given = converted.get("metadata").ok_or("missing metadata in converted object")?;
    if !given.is_object() {
        return Err(format!("invalid metadata of type {} in converted object", go_value_type(given)));
    }
    let mut metadata = original.get("metadata").cloned().unwrap_or_else(|| json!({}));
    for (field, path, check) in [
        ("labels", "metadata.labels", names::check_labels as fn(&Value, &str) -> Vec<FieldError>),
        ("annotations", "metadata.annotation", names::check_annotations),
    ] {
        let Some(given) = given.get(field).filter(|given| !given.is_null()) else {
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.shift_remove(field);
            }
            continue;
        };
        let Some(entries) = given.as_object() else {
            return Err(format!("invalid metadata.{field} of type {} in converted object", go_value_type(given)));
        };
        if let Some((key, value)) = entries.iter().find(|(_, value)| !value.is_string()) {
            let found = go_value_type(value);
            return Err(format!("metadata.{field}[{key}] must be a string, but is {found} in converted object"));
        }
        let is_changed = metadata.get(field) != Some(given);
        metadata[field] = given.clone();
        let errors = if is_changed { check(&metadata, path) } else { Vec::new() };
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        match errors.len() {
            0 => {}
            1 => return Err(errors.concat()),
            _ => return Err(format!("[{}]", errors.join(", "))),
        }
    }
    Ok(metadata)
}

/// The type of a decoded value in the words of Go.
fn go_value_type(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "string",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::Bool(_) => "bool",
        Value::Null => "<nil>",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thing(version: &str, metadata: Value) -> Value {
        json!({"apiVersion": format!("example.com/{version}"), "kind": "Widget", "metadata": metadata})
    }

    #[test]
    fn answers_are_checked_and_metadata_is_restored() {
        let catalog = crate::catalog::Catalog::built_in();
        let pods = catalog.get("", "v1", "pods").unwrap();
        let originals = [json!({"apiVersion": "example.com/v1", "kind": "Pod",
            "metadata": {"name": "a", "uid": "u", "labels": {"old": "1"}, "finalizers": ["x"]}})];
        let check = |response: Value, expected: Result<Value, &str>| {
            let review = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
                "response": response});
            let answered = Answered { uid: "r".into(), outcome: Ok(review) };
            let found = read(pods, &originals, "example.com/v2", &answered).map(Value::Array);
            let webhook = "conversion webhook for example.com/v1, Kind=Pod";
            assert_eq!(found, expected.map_err(|error| format!("{webhook} {error}")), "{response}");
        };
        let converted = |kind: &str, metadata: Value| {
            let mut object = thing("v2", metadata);
            object["kind"] = json!(kind);
            json!({"uid": "r", "result": {"status": "Success"}, "convertedObjects": [object]})
        };
        let fine = json!({"name": "a", "uid": "u", "labels": {"new": "1"}, "resourceVersion": "7"});
        let mut restored = thing("v2", json!({"name": "a", "uid": "u", "labels": {"new": "1"}, "finalizers": ["x"]}));
        restored["kind"] = json!("Pod");
        check(converted("Pod", fine.clone()), Ok(json!([restored])));
        check(
            converted("Other", fine),
            Err("returned invalid object at index 0: invalid kind (expected Pod, received Other)"),
        );
        check(
            converted("Pod", json!({"name": "b", "uid": "u"})),
            Err("returned invalid object: must have the same name: a != b"),
        );
        check(
            converted("Pod", json!({"name": "a", "uid": "u", "labels": {"a": 1}})),
            Err("returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object"),
        );
        check(json!({"uid": "r", "result": {"status": "Success"}}), Err("returned 0 objects, expected 1"));
        check(json!({"uid": "r"}), Err("failed: response.result.status was '', not 'Success'"));
        check(json!({"uid": "r", "result": {"status": "Failure", "message": "no"}}), Err("failed: no"));
        check(json!({"uid": "x"}), Err("failed: expected response.uid=\"r\", got \"x\""));
        check(Value::Null, Err("failed: no response provided"));
    }
}
