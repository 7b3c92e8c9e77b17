//! References: how events, owner links and log records name an object.
//!
//! The engine makes them for posted events and log records; they are small, owned, and outlive
//! the bodies that they were made from.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::identity::metadata_field;

/// Which object is meant. Any part can be unknown, e.g. the namespace of cluster-scoped objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectReference {
    /// The group and version, such as `apps/v1`.
    #[serde(skip_serializing_if = "is_blank")]
    pub api_version: Option<String>,
    /// The kind, such as `Pod`.
    #[serde(skip_serializing_if = "is_blank")]
    pub kind: Option<String>,
    /// The name within the namespace or the cluster.
    #[serde(skip_serializing_if = "is_blank")]
    pub name: Option<String>,
    /// The identifier, unique in space and time.
    #[serde(skip_serializing_if = "is_blank")]
    pub uid: Option<String>,
    /// The namespace; `None` for cluster-scoped objects.
    #[serde(skip_serializing_if = "is_blank")]
    pub namespace: Option<String>,
}

impl ObjectReference {
    /// Takes the parts of a reference from a body.
    pub fn of(body: &Value) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        Self {
            api_version: text(body.get("apiVersion")),
            kind: text(body.get("kind")),
            name: text(metadata_field(body, "name")),
            uid: text(metadata_field(body, "uid")),
            namespace: text(metadata_field(body, "namespace")),
        }
    }

    /// The reference as the API takes it; unknown and empty parts are left out.
    pub fn to_json(&self) -> Value {
        let parts = [
            ("apiVersion", &self.api_version),
            ("kind", &self.kind),
            ("name", &self.name),
            ("uid", &self.uid),
            ("namespace", &self.namespace),
        ];
        let known = parts.into_iter().filter(|(_, part)| !is_blank(part));
        let pairs = known.map(|(key, part)| (key.to_owned(), Value::from(part.clone())));
        Value::Object(pairs.collect::<Map<String, Value>>())
    }
}

fn is_blank(part: &Option<String>) -> bool {
    part.as_deref().is_none_or(str::is_empty)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_parts_are_left_out() {
        let check = |body: Value, expected: Value| {
            let reference = ObjectReference::of(&body);
            assert_eq!(reference.to_json().to_string(), expected.to_string());
            assert_eq!(json!(reference).to_string(), expected.to_string());
        };
        check(json!({}), json!({}));
        check(json!({"kind": "", "metadata": {"name": "n", "uid": null}}), json!({"name": "n"}));
        check(
            json!({"metadata": {"namespace": "ns", "uid": "u", "name": "n"}, "kind": "K", "apiVersion": "v1"}),
            json!({"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u", "namespace": "ns"}),
        );
    }
}
