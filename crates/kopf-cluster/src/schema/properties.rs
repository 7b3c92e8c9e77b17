//! Properties of all operations, on random values: nothing is lost, and twice is the same as once.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::Schema;

fn schema() -> Schema {
    let declared = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": {"type": "integer", "default": 7, "maximum": 10},
        "b": {"type": "string", "nullable": true, "pattern": "^[a-z]*$"},
        "c": {"type": "object", "default": {}, "properties": {"a": {"type": "integer", "default": 1}, "b": {"type": "string"}}},
        "d": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "boolean", "default": true}}}},
        "e": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "f": {"x-kubernetes-int-or-string": true},
        "g": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}
    }}}});
    Schema::of_custom_resource(&declared, &Map::new()).unwrap()
}

/// Values with the names of the schema, so that most of them are met.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-20i64..20).prop_map(Value::from),
        (-2.0f64..2.0).prop_map(Value::from),
        "[a-z0-9]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-h]", inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn objects() -> impl Strategy<Value = Value> {
    values().prop_map(|spec| json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec}))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn pruning_twice_is_pruning_once(object in objects()) {
        let schema = schema();
        let mut once = object.clone();
        let unknown = schema.prune(&mut once);
        prop_assert_eq!(schema.unknown_fields(&object), unknown);
        let mut twice = once.clone();
        prop_assert!(schema.prune(&mut twice).is_empty());
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn defaulting_twice_is_defaulting_once(object in objects()) {
        let schema = schema();
        let mut once = object;
        schema.default(&mut once);
        let mut twice = once.clone();
        schema.default(&mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn whatever_is_wrong_is_tolerated_while_it_stays_the_same(object in objects()) {
        let schema = schema();
        let mut stored = object;
        schema.default(&mut stored);
        schema.prune(&mut stored);
        // Kept unknown fields count as changed, so leave them out.
        if let Some(spec) = stored["spec"].as_object_mut() {
            spec.shift_remove("e");
        }
        prop_assert_eq!(schema.validate(&stored, Some(&stored)), vec![]);
    }
}
