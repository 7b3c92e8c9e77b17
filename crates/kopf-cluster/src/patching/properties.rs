//! Properties of patches on random objects.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::managed::{FieldSet, FieldWrite, OneVersion, apply, record_write};
use super::{apply_json_patch, apply_merge, apply_strategic};
use crate::schema::Schema;

fn schema() -> Schema {
    let declared = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": {"type": "integer"},
        "b": {"type": "object", "properties": {"a": {"type": "integer"}, "c": {"type": "string"}}},
        "c": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "d": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
              "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}},
        "e": {"type": "object", "additionalProperties": {"type": "string"}},
        "f": {"type": "array", "items": {"type": "integer"}},
        "g": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
    }}}});
    Schema::of_custom_resource(&declared, &Map::new()).unwrap()
}

fn specs() -> impl Strategy<Value = Value> {
    let text = || "[a-c]";
    let number = || 0i64..4;
    let keyed = prop::collection::btree_map(text(), prop::option::of(number()), 0..4).prop_map(|items| {
        Value::Array(
            items
                .into_iter()
                .map(|(key, value)| value.map_or_else(|| json!({"k": key}), |value| json!({"k": key, "v": value})))
                .collect(),
        )
    });
    let fields = (
        prop::option::of(number().prop_map(Value::from)),
        prop::option::of((number(), text()).prop_map(|(number, text)| json!({"a": number, "c": text}))),
        prop::option::of(prop::collection::btree_set(text(), 0..3).prop_map(|items| json!(items))),
        prop::option::of(keyed),
        prop::option::of(prop::collection::btree_map(text(), text(), 0..3).prop_map(|items| json!(items))),
        prop::option::of(prop::collection::vec(number(), 0..3).prop_map(Value::from)),
        prop::option::of((number(), text()).prop_map(|(number, text)| json!({"x": {"y": number}, "l": [text]}))),
    );
    fields.prop_map(|(a, b, c, d, e, f, g)| {
        let named = [("a", a), ("b", b), ("c", c), ("d", d), ("e", e), ("f", f), ("g", g)];
        Value::Object(named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
    })
}

fn object(spec: &Value) -> Value {
    json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec})
}

fn with_write<T>(manager: &str, then: impl FnOnce(&FieldWrite<'_>) -> T) -> T {
    let versions = OneVersion { api_version: "x/v1".to_owned(), schema: schema() };
    let ignored = FieldSet::default();
    then(&FieldWrite {
        versions: &versions,
        api_version: "x/v1",
        manager,
        subresource: "",
        ignored: &ignored,
        now: "2030-01-01T00:00:00Z",
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn applying_twice_is_applying_once(live in specs(), config in specs()) {
        let mut stored = object(&live);
        with_write("creator", |write| record_write(write, None, &mut stored));
        let once = with_write("applier", |write| apply(write, Some(&stored), &object(&config), true)).unwrap();
        let twice = with_write("applier", |write| apply(write, Some(&once), &object(&config), false)).unwrap();
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn what_is_applied_alone_goes_away_when_nothing_is_applied(config in specs()) {
        let created = with_write("applier", |write| apply(write, None, &object(&config), false)).unwrap();
        let emptied = with_write("applier", |write| apply(write, Some(&created), &json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}}), false)).unwrap();
        // No manager owns an empty list with keys: it stays, on the server as well.
        let mut rest = emptied.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
        rest.retain(|name, value| !(matches!(name.as_str(), "c" | "d") && *value == json!([])));
        prop_assert!(rest.is_empty(), "{:?}", rest);
    }

    #[test]
    fn a_forced_configuration_is_in_the_result(live in specs(), config in specs()) {
        let mut stored = object(&live);
        with_write("creator", |write| record_write(write, None, &mut stored));
        let applied = with_write("applier", |write| apply(write, Some(&stored), &object(&config), true)).unwrap();
        for name in ["a", "f"] {
            if let Some(value) = config.get(name) {
                prop_assert_eq!(applied["spec"].get(name), Some(value));
            }
        }
    }

    #[test]
    fn field_sets_survive_the_wire(live in specs()) {
        let mut stored = object(&live);
        with_write("creator", |write| record_write(write, None, &mut stored));
        for entry in stored.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten() {
            let read = FieldSet::parse(&entry["fieldsV1"]);
            prop_assert_eq!(&read.to_fields(), &entry["fieldsV1"]);
            prop_assert_eq!(&FieldSet::parse(&read.to_fields()), &read);
        }
    }

    #[test]
    fn patches_without_changes_change_nothing(live in specs()) {
        let stored = object(&live);
        prop_assert_eq!(apply_merge(&stored, &json!({})), stored.clone());
        prop_assert_eq!(apply_json_patch(&stored, &json!([])).unwrap(), stored.clone());
        prop_assert_eq!(apply_strategic(&schema(), &stored, &json!({})).unwrap(), stored.clone());
        prop_assert_eq!(apply_strategic(&schema(), &stored, &json!({"spec": live})).unwrap(), stored);
    }
}
