//! Which values fit to a schema, and what is read from a CRD.

use serde_json::json;

use super::*;

#[test]
fn placements() {
    let nodes = json!({"type": "object", "properties": {"nodes": {"type": "array", "items": {"type": "string"}}}});
    let preserving = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let declared = json!({"properties": {"fn": {"type": "object", "properties": {"a": {"type": "integer"}}}}});
    let open = json!({"properties": {"fn": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let anything = json!({"type": "object", "additionalProperties": true});
    let empty = json!({"type": "object"});
    let mixed = json!({"properties": {"port": {"x-kubernetes-int-or-string": true}}});
    let (id, merged) = (Some(true), Some(false));
    // The schema, the result, and where it goes: under the id, merged, or nowhere.
    let cases = [
        (None, json!({"a": 1}), id),
        (Some(&preserving), json!({"a": 1}), id),
        (Some(&nodes), json!({"nodes": ["a", "b"]}), merged),
        (Some(&nodes), json!({"nodes": []}), merged),
        (Some(&nodes), json!({"nodes": [1]}), None),
        (Some(&nodes), json!({"nodes": [], "other": 1}), None),
        (Some(&nodes), json!({}), merged),
        (Some(&nodes), json!("text"), None),
        (Some(&nodes), json!(["a"]), None),
        (Some(&declared), json!({"a": 1}), id),
        (Some(&declared), json!({"a": 1.5}), None),
        (Some(&declared), json!({"b": 1}), None),
        (Some(&declared), json!({"fn": {"a": 1}}), merged),
        (Some(&open), json!({"b": {"c": [1]}}), id),
        (Some(&open), json!("not an object"), id),
        (Some(&texts), json!("text"), id),
        (Some(&texts), json!(1), None),
        (Some(&texts), json!({"a": "text"}), merged),
        (Some(&anything), json!({"a": {"b": 1}}), id),
        (Some(&empty), json!({"a": 1}), None),
        (Some(&mixed), json!({"port": "http"}), merged),
        (Some(&mixed), json!({"port": 80}), merged),
        (Some(&mixed), json!({"port": {}}), None),
    ];
    for (schema, result, expected) in cases {
        let actual = match placement(schema, "fn", &result) {
            Placement::UnderId => Some(true),
            Placement::MergedIntoStatus => Some(false),
            Placement::Lost { .. } => None,
        };
        assert_eq!(actual, expected, "{schema:?} {result}");
    }
}

#[test]
fn the_reason_names_both_places() {
    let schema = json!({"type": "object", "properties": {"nodes": {"type": "array"}}});
    let Placement::Lost { reason } = placement(Some(&schema), "fn", &json!({"size": 1})) else {
        panic!("it must be lost");
    };
    assert_eq!(reason, "the schema has no status.fn; the schema has no status.size");
}

fn definition(version: &Value, conditions: &Value) -> Definition {
    let crd = json!({
        "metadata": {"name": "things.g.io"},
        "spec": {"group": "g.io", "names": {"plural": "things", "kind": "Thing"}, "versions": [version]},
        "status": {"conditions": conditions},
    });
    decode_definition(crd.to_string().as_bytes()).unwrap()
}

#[test]
fn definitions() {
    let yes = json!([{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}]);
    let status = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let empty = json!({"type": "object"});
    // The root schema, and what is known of the status by it.
    let cases = [
        (json!({"properties": {"spec": {}, "status": status}}), Some(&status)),
        (json!({"properties": {"spec": {}}}), Some(&empty)),
        (json!({"x-kubernetes-preserve-unknown-fields": true}), None),
        (json!({"x-kubernetes-preserve-unknown-fields": true, "properties": {"status": status}}), Some(&status)),
    ];
    for (root, expected) in cases {
        let version = json!({"name": "v1", "served": true, "schema": {"openAPIV3Schema": root}});
        let definition = definition(&version, &yes);
        assert_eq!(definition.stage, DefinitionStage::Established);
        assert_eq!(definition.versions[0].status_schema.as_deref(), expected, "{root}");
    }
    let bare = definition(&json!({"name": "v1", "served": false}), &json!([]));
    assert!(bare.versions[0].status_schema.is_none() && !bare.versions[0].served);
    assert_eq!(bare.stage, DefinitionStage::Pending);
}

#[test]
fn fresh_and_dying_definitions() {
    let spec = json!({"group": "g.io", "names": {"plural": "things"}, "versions": []});
    let stage = |metadata: Value, status: Value| {
        let crd = json!({"metadata": metadata, "spec": spec, "status": status});
        decode_definition(crd.to_string().as_bytes()).map(|definition| definition.stage).unwrap()
    };
    let established = json!({"conditions": [{"type": "Established", "status": "True"}]});
    let dying = json!({"name": "n", "deletionTimestamp": "2030-01-01T00:00:00Z"});
    assert_eq!(stage(json!({"name": "n"}), json!({"conditions": null})), DefinitionStage::Pending);
    assert_eq!(stage(json!({"name": "n"}), Value::Null), DefinitionStage::Pending);
    assert_eq!(stage(json!({"name": "n"}), established.clone()), DefinitionStage::Established);
    assert_eq!(stage(dying, established), DefinitionStage::Terminating);
}

#[test]
fn the_book_follows_the_definitions() {
    let book = SchemaBook::default();
    let resource =
        Resource { group: "g.io".into(), version: "v1".into(), plural: "things".into(), ..Resource::default() };
    assert!(book.status_schema(&resource).is_none());
    let schema = json!({"name": "v1", "schema": {"openAPIV3Schema": {"properties": {"status": {"type": "object"}}}}});
    book.learn(&definition(&schema, &json!([])));
    assert_eq!(book.status_schema(&resource).as_deref(), Some(&json!({"type": "object"})));
    book.learn(&definition(&json!({"name": "v2"}), &json!([])));
    assert!(book.status_schema(&resource).is_none());
    assert!(!book.keeps_in_status(&resource, &json!({"a": 1})));
    book.learn(&definition(&schema, &json!([])));
    assert!(!book.keeps_in_status(&resource, &json!({"a": 1})));
    book.forget("g.io", "things");
    assert!(book.status_schema(&resource).is_none());
    let open = json!({"name": "v1", "schema": {"openAPIV3Schema": {"x-kubernetes-preserve-unknown-fields": true}}});
    book.learn(&definition(&open, &json!([])));
    assert!(book.status_schema(&resource).is_none());
    assert!(book.keeps_in_status(&resource, &json!({"a": 1})));
}
