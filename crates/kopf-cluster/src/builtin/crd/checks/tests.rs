//! The tests of `checks.rs`.

use super::*;

fn crd() -> Value {
    json!({"metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "conversion": {"strategy": "None"},
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "a": {"type": "string"}}}}}}}],
        },
        "status": {"storedVersions": ["v1"], "conditions": [{"type": "Established", "status": "True"}]}})
}

#[test]
fn errors_of_crds_match_the_server() {
    assert_eq!(check(&crd(), None), []);
    for (pointer, value, expected) in [
        (
            "/metadata/name",
            json!("x"),
            "metadata.name: Invalid value: \"x\": must be spec.names.plural+\".\"+spec.group",
        ),
        (
            "/spec/scope",
            json!("Galaxy"),
            "spec.scope: Unsupported value: \"Galaxy\": supported values: \"Cluster\", \"Namespaced\"",
        ),
        (
            "/spec/names/listKind",
            json!("Widget"),
            "spec.names.listKind: Invalid value: \"Widget\": kind and listKind may not be the same",
        ),
        ("/spec/names/kind", json!(""), "spec.names.kind: Required value"),
        (
            "/spec/preserveUnknownFields",
            json!(true),
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ),
        ("/spec/versions/0/schema", json!(null), "spec.versions[0].schema.openAPIV3Schema: Required value"),
        (
            "/spec/versions/0/schema/openAPIV3Schema/type",
            json!("string"),
            "spec.validation.openAPIV3Schema.type: Invalid value: \"string\": must be object at the root",
        ),
        (
            "/spec/versions/0/deprecationWarning",
            json!("x"),
            "spec.versions[0].deprecationWarning: Invalid value: \"x\": can only be set for deprecated versions",
        ),
        (
            "/spec/versions/0/additionalPrinterColumns",
            json!([{"name": "A", "type": "string"}]),
            "spec.additionalPrinterColumns[0].JSONPath: Required value",
        ),
        (
            "/spec/versions/0/additionalPrinterColumns",
            json!([{"name": "A", "type": "blob", "jsonPath": ".a"}]),
            "spec.additionalPrinterColumns[0].type: Invalid value: \"blob\": must be one of boolean,date,integer,number,string",
        ),
        (
            "/spec/versions/0/subresources",
            json!({"scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".spec.b"}}),
            "spec.subresources.scale.statusReplicasPath: Invalid value: \".spec.b\": should be a json path under .status",
        ),
        (
            "/spec/versions/0/selectableFields",
            json!([{"jsonPath": ".spec.z"}]),
            "spec.selectableFields[0].jsonPath: Invalid value: \".spec.z\": is an invalid path: does not refer to a valid field",
        ),
        (
            "/spec/versions/0/selectableFields",
            json!([{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.a"}]),
            "spec.selectableFields[1].jsonPath: Duplicate value: \".spec.a\"",
        ),
        (
            "/spec/conversion/strategy",
            json!("Magic"),
            "spec.conversion.strategy: Unsupported value: \"Magic\": supported values: \"None\", \"Webhook\"",
        ),
        (
            "/spec/conversion",
            json!({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "http://a"}, "conversionReviewVersions": ["v1"]}}),
            "spec.conversion.webhookClientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
        ),
        (
            "/status/storedVersions",
            json!(["v0", "v1"]),
            "status.storedVersions[0]: Invalid value: \"v0\": missing from spec.versions; v0 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v0 and removes v0 from status.storedVersions",
        ),
    ] {
        let mut changed = crd();
        put(&mut changed, pointer, value);
        let errors: Vec<String> = check(&changed, None).iter().map(ToString::to_string).collect();
        assert_eq!(errors, [expected], "{pointer}");
    }
}

#[test]
fn names_and_scopes_cannot_be_changed() {
    for (pointer, value, expected) in [
        ("/spec/scope", json!("Cluster"), "spec.scope: Invalid value: \"Cluster\": field is immutable"),
        ("/spec/names/kind", json!("Other"), "spec.names.kind: Invalid value: \"Other\": field is immutable"),
    ] {
        let mut changed = crd();
        put(&mut changed, pointer, value);
        let errors: Vec<String> = check(&changed, Some(&crd())).iter().map(ToString::to_string).collect();
        assert_eq!(errors, [expected]);
    }
}

fn put(value: &mut Value, pointer: &str, new: Value) {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    value.pointer_mut(parent).unwrap()[field] = new;
}
