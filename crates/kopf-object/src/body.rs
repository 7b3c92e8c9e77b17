//! Bodies: whole objects as they came from the API, parsed once and shared.
//!
//! The engine makes a [`Body`] when a handler needs more than the identity of the object; the
//! reaction reads it, the fronts convert it for users. A missing stanza is empty, not an error.
//!
//! `metadata.managedFields` makes up about half of what the API sends, and half of the cost of parsing, since it
//! consists of many small maps. The framework needs none of it, so a body parses it only on request.

use std::sync::{Arc, LazyLock, OnceLock};

use serde_json::{Map, Value};

use crate::identity::simulate_uid;
use crate::partial::parse_without_managed_fields;
use crate::path::FieldPath;
use crate::reference::ObjectReference;

/// One state of one object. Cloning is cheap: the clones share the parsed value.
///
/// ```
/// use kopf_object::Body;
///
/// let body = Body::parse(br#"{"metadata": {"name": "x"}, "spec": {"size": 3}}"#.as_slice())?;
/// assert_eq!(body.name(), Some("x"));
/// assert_eq!(body.spec()["size"], 3);
/// assert!(body.status().is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone)]
pub struct Body {
    shared: Arc<Shared>,
}

/// What the clones of a body share.
struct Shared {
    /// The parsed object, maybe without the managed fields; never changes.
    parsed: Value,
    /// Whether managed fields were left out.
    is_partial: bool,
    /// The object with the managed fields: parsed on first use, unset if there are none.
    whole: OnceLock<Value>,
    /// The JSON text: as received, or serialized from the value on first use.
    raw: OnceLock<Arc<[u8]>>,
}

/// What an absent stanza looks like.
static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

impl Body {
    /// Parses the JSON text of an object and keeps the text.
    pub fn parse(raw: impl Into<Arc<[u8]>>) -> Result<Self, serde_json::Error> {
        let raw = raw.into();
        let (parsed, is_partial) = parse_without_managed_fields(&raw)?;
        Ok(Self::assemble(parsed, is_partial, OnceLock::from(raw)))
    }

    /// Wraps an object that is parsed already.
    pub fn from_value(value: Value) -> Self {
        Self::assemble(value, false, OnceLock::new())
    }

    fn assemble(parsed: Value, is_partial: bool, raw: OnceLock<Arc<[u8]>>) -> Self {
        Self { shared: Arc::new(Shared { parsed, is_partial, whole: OnceLock::new(), raw }) }
    }

    /// The whole object. Where the managed fields do not matter, [`Body::without_managed_fields`] is cheaper.
    pub fn value(&self) -> &Value {
        let Shared { parsed, is_partial, whole, .. } = &*self.shared;
        if !is_partial {
            return parsed;
        }
        // The rest of the text was parsed before; unreadable managed fields count as absent.
        whole.get_or_init(|| serde_json::from_slice(self.raw()).unwrap_or_else(|_| parsed.clone()))
    }

    /// The object, maybe without its managed fields.
    pub fn without_managed_fields(&self) -> &Value {
        &self.shared.parsed
    }

    /// The JSON text of the whole object.
    pub fn raw(&self) -> &Arc<[u8]> {
        let text = || self.shared.parsed.to_string().into_bytes().into();
        self.shared.raw.get_or_init(text)
    }

    /// The object with everything that is needed to resolve the fields.
    pub fn with_fields<'a>(&self, fields: impl IntoIterator<Item = &'a FieldPath>) -> &Value {
        if fields.into_iter().any(touches_managed_fields) { self.value() } else { self.without_managed_fields() }
    }

    /// The value of a field, if it is there.
    pub fn get(&self, field: &FieldPath) -> Option<&Value> {
        field.resolve(self.with_fields([field]))
    }

    /// The metadata stanza, maybe without the managed fields.
    pub fn metadata(&self) -> &Map<String, Value> {
        self.stanza("metadata")
    }

    /// The spec stanza.
    pub fn spec(&self) -> &Map<String, Value> {
        self.stanza("spec")
    }

    /// The status stanza.
    pub fn status(&self) -> &Map<String, Value> {
        self.stanza("status")
    }

    /// The labels; empty if there are none.
    pub fn labels(&self) -> &Map<String, Value> {
        object_or_empty(self.metadata().get("labels"))
    }

    /// The annotations; empty if there are none.
    pub fn annotations(&self) -> &Map<String, Value> {
        object_or_empty(self.metadata().get("annotations"))
    }

    /// The value of one annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations().get(key)?.as_str()
    }

    /// The finalizers, in the order of the object.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        let finalizers = self.metadata().get("finalizers").and_then(Value::as_array);
        finalizers.into_iter().flatten().filter_map(Value::as_str)
    }

    /// The group and version, such as `apps/v1`.
    pub fn api_version(&self) -> Option<&str> {
        self.without_managed_fields().get("apiVersion")?.as_str()
    }

    /// The kind, such as `Pod`.
    pub fn kind(&self) -> Option<&str> {
        self.without_managed_fields().get("kind")?.as_str()
    }

    /// The name; absent only in incomplete objects.
    pub fn name(&self) -> Option<&str> {
        self.metadata_text("name")
    }

    /// The namespace; absent for cluster-scoped objects.
    pub fn namespace(&self) -> Option<&str> {
        self.metadata_text("namespace")
    }

    /// The identifier as the API has given it. See also [`Body::object_uid`].
    pub fn uid(&self) -> Option<&str> {
        self.metadata_text("uid")
    }

    /// The version of the object in the storage.
    pub fn resource_version(&self) -> Option<&str> {
        self.metadata_text("resourceVersion")
    }

    /// The counter of changes in the spec.
    pub fn generation(&self) -> Option<i64> {
        self.metadata().get("generation")?.as_i64()
    }

    /// When the object was created.
    pub fn creation_timestamp(&self) -> Option<&str> {
        self.metadata_text("creationTimestamp")
    }

    /// When the deletion was requested.
    pub fn deletion_timestamp(&self) -> Option<&str> {
        self.metadata_text("deletionTimestamp")
    }

    /// The key of the object in the memory of the operator: its uid or the next best thing.
    pub fn object_uid(&self) -> String {
        match self.uid() {
            Some(uid) => uid.to_owned(),
            None => simulate_uid([
                self.kind(),
                self.api_version(),
                self.name(),
                self.namespace(),
                self.creation_timestamp(),
            ]),
        }
    }

    /// The reference by which events and log records name the object.
    pub fn reference(&self) -> ObjectReference {
        ObjectReference::of(self.without_managed_fields())
    }

    fn stanza(&self, name: &str) -> &Map<String, Value> {
        object_or_empty(self.without_managed_fields().get(name))
    }

    fn metadata_text(&self, key: &str) -> Option<&str> {
        self.metadata().get(key)?.as_str()
    }
}

/// Whether the field is, contains, or is inside of the managed fields.
fn touches_managed_fields(field: &FieldPath) -> bool {
    field.segments().zip(["metadata", "managedFields"]).all(|(segment, name)| segment == name)
}

fn object_or_empty(value: Option<&Value>) -> &Map<String, Value> {
    value.and_then(Value::as_object).unwrap_or_else(|| &EMPTY)
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared) || self.value() == other.value()
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Body").field(self.value()).finish()
    }
}

impl From<Value> for Body {
    fn from(value: Value) -> Self {
        Self::from_value(value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_body_gives_access_to_all_stanzas() {
        let text = r#"{"kind":"K","apiVersion":"v1","metadata":{"name":"n","namespace":"ns","uid":"u",
            "resourceVersion":"7","generation":2,"labels":{"l":"1"},"annotations":{"a":"2"},
            "finalizers":["f"],"creationTimestamp":"c","deletionTimestamp":"d"},"status":{"x":1}}"#;
        let body = Body::parse(text.as_bytes()).unwrap();
        assert_eq!(&**body.raw(), text.as_bytes());
        assert_eq!((body.kind(), body.api_version()), (Some("K"), Some("v1")));
        assert_eq!((body.name(), body.namespace()), (Some("n"), Some("ns")));
        assert_eq!((body.resource_version(), body.generation()), (Some("7"), Some(2)));
        assert_eq!((body.creation_timestamp(), body.deletion_timestamp()), (Some("c"), Some("d")));
        assert_eq!(body.labels()["l"], "1");
        assert_eq!(body.annotation("a"), Some("2"));
        assert_eq!(body.finalizers().collect::<Vec<_>>(), ["f"]);
        assert_eq!(body.get(&FieldPath::parse("status.x")), Some(&json!(1)));
        assert_eq!(body.object_uid(), "u");
        assert_eq!(body.clone(), body);
    }

    #[test]
    fn absent_stanzas_are_empty() {
        for value in [json!({}), json!({"metadata": null, "spec": 1}), json!(null)] {
            let body = Body::from_value(value.clone());
            assert!(body.metadata().is_empty() && body.spec().is_empty() && body.labels().is_empty());
            assert_eq!(body.name(), None);
            assert_eq!(body.finalizers().count(), 0);
            assert_eq!(body.object_uid(), "-//-//-//-//-");
            assert_eq!(Body::parse(body.raw().clone()).unwrap().value(), &value);
        }
    }
}
