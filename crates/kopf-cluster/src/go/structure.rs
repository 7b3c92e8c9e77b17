//! Objects of built-in kinds in the form in which a real server writes them.
//!
//! A real server keeps built-in kinds as structs. Whatever goes through it comes out with the
//! fields that a struct always shows, be they empty, and without those that it omits when empty.
//! Which field is which is captured from the sources, together with the numbers of protobuf.
//! `admit.rs` brings every object into this form; `verbs/watch.rs` shows empty objects in bookmarks.

use std::collections::HashMap;
use std::sync::OnceLock;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::support::capture;

/// Structs nested deeper than this stay unchanged.
const DEPTH_LIMIT: usize = 100;

/// The Go struct of a kind.
#[derive(Clone, Copy)]
pub struct Structure {
    all: &'static Structs,
    fields: &'static [StructField],
}

impl Structure {
    /// Brings an object into the form in which it is stored. The metadata of the object itself stays
    /// unchanged, since other rules apply to it.
    pub fn normalize(self, object: &mut Value) {
        self.normalize_as(Emptiness::Nothing, object);
    }

    /// Brings an object into the form in which it is read: lists without items are still there.
    pub fn normalize_read(self, object: &mut Value) {
        self.normalize_as(Emptiness::Kept, object);
    }

    fn normalize_as(self, emptiness: Emptiness, object: &mut Value) {
        let Some(fields) = object.as_object_mut() else { return };
        Normalizer { all: self.all, emptiness, skips_metadata: true }.normalize_fields(self.fields, fields, 0);
        let comes_first = fields.keys().next().is_some_and(|first| first == "metadata");
        if !comes_first && let Some(metadata) = fields.shift_remove("metadata") {
            fields.shift_insert(0, "metadata".into(), metadata);
        }
    }
}

impl std::fmt::Debug for Structure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.fields.iter().map(|field| field.name)).finish()
    }
}

/// What becomes of lists and mappings without items that are not omitted.
#[derive(Clone, Copy)]
enum Emptiness {
    Kept,
    Nothing,
}

/// The object of a kind in which nothing is set, if the kind is known.
pub(crate) fn empty(api_version: &str, kind: &str) -> Option<Map<String, Value>> {
    let Structure { all, fields } = of_kind(api_version, kind)?;
    let mut object = Map::new();
    Normalizer { all, emptiness: Emptiness::Nothing, skips_metadata: false }.normalize_fields(fields, &mut object, 0);
    Some(object)
}

/// All structs, by their names.
type Structs = HashMap<&'static str, Vec<StructField>>;

/// The structs of objects, by kind: the first part of the group, the version, the name.
type Kinds = HashMap<&'static str, Vec<(&'static str, &'static str, &'static str)>>;

/// A field of a struct.
struct StructField {
    name: &'static str,
    /// A pointer can be nothing, which is not the same as empty.
    pointer: bool,
    /// Its fields are those of the struct around it.
    inline: bool,
    omit_empty: bool,
    kind: &'static str,
}

impl StructField {
    /// Whether an unset value is omitted, regardless of its default.
    fn is_absent_when_empty(&self) -> bool {
        let is_plain = matches!(self.kind.as_bytes().first(), Some(b's' | b'i' | b'd' | b'b' | b'[' | b'{'));
        self.omit_empty && (self.pointer || is_plain || self.name == CREATION)
    }
}

/// The Go struct of a kind, if it is built in.
pub(crate) fn of_kind(api_version: &str, kind: &str) -> Option<Structure> {
    static STRUCTS: OnceLock<(Structs, Kinds)> = OnceLock::new();
    let (all, kinds) = STRUCTS.get_or_init(|| {
        let all = read();
        let kinds = by_kind(&all);
        (all, kinds)
    });
    let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
    let group = group.split('.').next().unwrap_or_default();
    let known = kinds.get(kind)?.iter().find(|known| known.0 == group && known.1 == version)?;
    Some(Structure { all, fields: all.get(known.2)? })
}

fn by_kind(all: &Structs) -> Kinds {
    let mut kinds = Kinds::new();
    for name in all.keys() {
        if let Some((group, rest)) = name.split_once('/')
            && let Some((version, kind)) = rest.split_once('.')
        {
            kinds.entry(kind).or_default().push((group, version, name));
        }
    }
    kinds
}

/// A row of the captured table; `scripts/capture_protobuf.py` explains the notation.
#[derive(Deserialize)]
struct Row<'a>(#[expect(dead_code, reason = "only protobuf needs the number")] u32, &'a str, &'a str, &'a str);

/// The captured table.
fn read() -> Structs {
    static TEXT: OnceLock<Bytes> = OnceLock::new();
    let text: &'static [u8] = TEXT.get_or_init(|| capture::document("protobuf").unwrap_or_default());
    // A test reads all of it.
    let table: HashMap<&'static str, Vec<Row<'static>>> = serde_json::from_slice(text).unwrap_or_default();
    let field = |Row(_, name, flags, kind): Row<'static>| StructField {
        name,
        pointer: flags.contains('p'),
        inline: flags.contains('i'),
        omit_empty: flags.contains('o'),
        kind,
    };
    table.into_iter().map(|(name, rows)| (name, rows.into_iter().map(field).collect())).collect()
}

/// How objects are brought into their form.
struct Normalizer<'a> {
    all: &'a Structs,
    emptiness: Emptiness,
    /// The metadata of the object itself stays unchanged.
    skips_metadata: bool,
}

impl Normalizer<'_> {
    fn normalize_fields(&self, fields: &[StructField], object: &mut Map<String, Value>, depth: usize) {
        if depth > DEPTH_LIMIT {
            return;
        }
        for field in fields {
            if field.inline {
                if let Some(inner) = field.kind.strip_prefix('@').and_then(|name| self.all.get(name)) {
                    self.normalize_fields(inner, object, depth + 1);
                }
                continue;
            }
            if depth == 0 && self.skips_metadata && field.name == "metadata" {
                continue;
            }
            match object.get_mut(field.name) {
                Some(value) if !value.is_null() => {
                    self.normalize_value(field.kind, value, depth);
                    if !field.pointer && is_empty(field.kind, value) {
                        match (field.omit_empty, field.kind.as_bytes().first(), self.emptiness) {
                            (true, ..) => drop(object.shift_remove(field.name)),
                            // Lists and mappings without items are not stored.
                            (false, Some(b'[' | b'{'), Emptiness::Nothing) => *value = Value::Null,
                            (false, ..) => {}
                        }
                    }
                }
                // Most fields of most structs: neither set nor shown.
                None if field.is_absent_when_empty() => {}
                _ => {
                    let zero = if field.pointer { Value::Null } else { self.zero(field.kind, depth) };
                    match field.is_absent_when_empty() || (field.omit_empty && is_empty(field.kind, &zero)) {
                        true => object.shift_remove(field.name),
                        false => object.insert(field.name.into(), zero),
                    };
                }
            }
        }
    }

    fn normalize_value(&self, kind: &str, value: &mut Value, depth: usize) {
        match (kind.split_at_checked(1), value) {
            (Some(("@", name)), Value::Object(fields)) => {
                if let Some(inner) = self.all.get(name).filter(|_| !is_union(name)) {
                    self.normalize_fields(inner, fields, depth + 1);
                }
            }
            (Some(("[", item)), Value::Array(items)) => {
                items.iter_mut().for_each(|value| self.normalize_value(item, value, depth));
            }
            (Some(("{", item)), Value::Object(entries)) => {
                entries.values_mut().for_each(|value| self.normalize_value(item, value, depth));
            }
            _ => {}
        }
    }

    /// The value of an unset field.
    fn zero(&self, kind: &str, depth: usize) -> Value {
        match kind {
            "s" => json!(""),
            "i" | "d" | "I" => json!(0),
            "b" => json!(false),
            "Q" => json!("0"),
            "D" => json!("0s"),
            _ => match kind.strip_prefix('@') {
                Some(name) if !is_union(name) => {
                    let mut fields = Map::new();
                    if let Some(inner) = self.all.get(name) {
                        self.normalize_fields(inner, &mut fields, depth + 1);
                    }
                    Value::Object(fields)
                }
                _ => Value::Null,
            },
        }
    }
}

/// The only time that is omitted when it is not set.
const CREATION: &str = "creationTimestamp";

/// Some types of the schemas of CRDs are one thing or another.
fn is_union(name: &str) -> bool {
    name.starts_with("apiextensions/v1.JSONSchemaPropsOr")
}

/// Whether a value counts as empty for its field. Structs never do, and neither do the types
/// that are structs in the sources: times, quantities, durations.
fn is_empty(kind: &str, value: &Value) -> bool {
    match (kind.as_bytes().first(), value) {
        (Some(b'T' | b'U' | b'Q' | b'D' | b'I' | b'R' | b'@'), _) => false,
        (_, Value::Null) => true,
        (_, Value::Bool(flag)) => !flag,
        (_, Value::Number(number)) => number.as_f64() == Some(0.0),
        (_, Value::String(text)) => text.is_empty(),
        (_, Value::Array(items)) => items.is_empty(),
        (_, Value::Object(fields)) => fields.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalized(api_version: &str, kind: &str, mut object: Value) -> Value {
        if let Some(structure) = of_kind(api_version, kind) {
            structure.normalize(&mut object);
        }
        object
    }

    #[test]
    fn structs_show_what_they_always_show() {
        // As a real server answers.
        for (api_version, kind, sent, expected) in [
            ("coordination.k8s.io/v1", "Lease", json!({}), json!({"spec": {}})),
            ("v1", "Service", json!({}), json!({"spec": {}, "status": {"loadBalancer": {}}})),
            ("v1", "ConfigMap", json!({"data": {}, "immutable": false}), json!({"immutable": false})),
            ("rbac.authorization.k8s.io/v1", "Role", json!({"rules": []}), json!({"rules": null})),
            (
                "rbac.authorization.k8s.io/v1",
                "RoleBinding",
                json!({"roleRef": {"name": "x"}}),
                json!({"roleRef": {"name": "x", "apiGroup": "", "kind": ""}}),
            ),
            (
                "v1",
                "Pod",
                json!({"spec": {"hostNetwork": false, "priority": 0, "containers": [
                    {"name": "c", "env": [{"name": "a", "value": ""}], "command": []}]}}),
                json!({"status": {}, "spec": {"priority": 0, "containers": [
                    {"name": "c", "env": [{"name": "a"}], "resources": {}}]}}),
            ),
            (
                "batch/v1",
                "Job",
                json!({"spec": {"suspend": false}}),
                json!({"status": {}, "spec": {
                "suspend": false, "template": {"metadata": {}, "spec": {"containers": null}}}}),
            ),
        ] {
            assert_eq!(normalized(api_version, kind, sent.clone()), expected, "{kind} {sent}");
        }
        assert_eq!(normalized("example.com/v1", "Own", json!({"a": ""})), json!({"a": ""}));
    }

    #[test]
    fn the_form_is_stable_and_metadata_is_left_alone() {
        let object = json!({"metadata": {"labels": {}, "managedFields": []}, "involvedObject": {"kind": "Pod"}});
        let once = normalized("v1", "Event", object.clone());
        assert_eq!(once["metadata"], object["metadata"]);
        assert_eq!((&once["eventTime"], &once["source"]), (&Value::Null, &json!({})));
        assert_eq!(normalized("v1", "Event", once.clone()), once);
        assert_eq!(
            empty("v1", "Namespace").map(Value::Object),
            Some(json!({"metadata": {}, "spec": {}, "status": {}}))
        );
        assert!(empty("v1", "Nope").is_none());
    }
}
