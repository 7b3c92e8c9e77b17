//! Type errors in the results of strategic merge patches, in the words of the server.
//!
//! A real server does not decode the patched object: it converts it from unstructured data field by field
//! (`runtime.DefaultUnstructuredConverter`). The messages differ from those of `codec/struct_types.rs`, they
//! quote the patch instead of the object, and integers that overflow are truncated.

use serde_json::{Map, Value};

use super::struct_types::{json_type, text, time_error};
use crate::catalog::{ResourceType, is_quantity, reference};
use crate::go::quantity::{PATTERN_PROBLEM, Quantity};
use crate::schema::first_bad_base64;

/// Converts an object of a built-in kind; the error is the reason.
pub(crate) fn restore(resource: &ResourceType, object: &mut Value) -> Result<(), String> {
    let Some(definition) = resource.definition() else { return Ok(()) };
    let Some(known) = definition.all() else { return Ok(()) };
    Restoration { known }.referred(&definition.name, object)
}

/// The same for a `Scale`, which only occurs as a subresource.
pub(crate) fn restore_scale(scale: &mut Value) -> Result<(), String> {
    let Some(document) = crate::catalog::definitions("", "v1") else { return Ok(()) };
    let Some(known) = document["components"]["schemas"].as_object() else { return Ok(()) };
    Restoration { known }.referred("io.k8s.api.autoscaling.v1.Scale", scale)
}

struct Restoration<'a> {
    /// The definitions of the document.
    known: &'a Map<String, Value>,
}

impl Restoration<'_> {
    /// A value of a named type.
    fn referred(&self, name: &str, value: &mut Value) -> Result<(), String> {
        let Some(schema) = self.known.get(name) else { return Ok(()) };
        let short = name.rsplit('.').next().unwrap_or_default();
        match (short, value) {
            (_, Value::Null) => Ok(()),
            (_, value) if is_quantity(name) => match Quantity::of(value) {
                Some(_) => Ok(()),
                None => Err(PATTERN_PROBLEM.to_owned()),
            },
            ("Time" | "MicroTime", value) => time_error(short, value).map_or(Ok(()), Err),
            ("IntOrString", value) => read_int_or_string(value),
            (
                "RawExtension"
                | "FieldsV1"
                | "JSON"
                | "JSONSchemaPropsOrArray"
                | "JSONSchemaPropsOrBool"
                | "JSONSchemaPropsOrStringArray",
                _,
            ) => Ok(()),
            (_, value) => match (schema.get("properties").and_then(Value::as_object), value) {
                (None, value) => self.value(schema, "string", value),
                (Some(properties), Value::Object(fields)) => fields.iter_mut().try_for_each(|(field, value)| {
                    let Some(schema) = properties.get(field) else { return Ok(()) };
                    self.value(schema, named_text(short, field), value)
                }),
                (Some(_), other) => Err(format!("cannot restore struct from: {}", go_kind(other))),
            },
        }
    }

    /// A value of any type; strings may have named types.
    fn value(&self, schema: &Value, named: &str, value: &mut Value) -> Result<(), String> {
        if let Some(name) = reference(schema) {
            return self.referred(name, value);
        }
        match (text(schema, "type"), text(schema, "format"), value) {
            (_, _, Value::Null) | ("boolean", _, Value::Bool(_)) | ("number", _, Value::Number(_)) => Ok(()),
            ("string", "byte", Value::String(encoded)) => match first_bad_base64(encoded) {
                Some(position) => {
                    Err(format!("error decoding from json: illegal base64 data at input byte {position}"))
                }
                None => Ok(()),
            },
            ("string", "byte", other) => Err(format!("cannot restore slice from {}", go_kind(other))),
            ("string", _, Value::String(_)) => Ok(()),
            ("string", _, Value::Number(number)) if number.is_i64() => Err(format!("cannot convert int64 to {named}")),
            ("string", ..) => Err("unrecognized type: string".to_owned()),
            ("boolean", ..) => Err("unrecognized type: bool".to_owned()),
            ("number", ..) => Err("unrecognized type: float64".to_owned()),
            ("integer", format, value) => restore_integer(if format.is_empty() { "int64" } else { format }, value),
            ("array", _, Value::Array(items)) => {
                items.iter_mut().try_for_each(|item| self.value(&schema["items"], named, item))
            }
            ("array", _, other) => Err(format!("cannot restore slice from {}", go_kind(other))),
            ("object", _, Value::Object(entries)) => match schema.get("additionalProperties") {
                Some(values) => entries.values_mut().try_for_each(|entry| self.value(values, "string", entry)),
                None => Ok(()),
            },
            ("object", _, other) => Err(format!("cannot restore map from {}", go_kind(other))),
            // Any value is valid.
            _ => Ok(()),
        }
    }
}

/// Truncates integers that overflow; rejects fractions.
fn restore_integer(kind: &str, value: &mut Value) -> Result<(), String> {
    let Value::Number(number) = value else { return Err(format!("unrecognized type: {kind}")) };
    let whole = match (number.as_i64(), number.as_f64()) {
        (Some(whole), _) => whole,
        (None, Some(float)) if float.fract() == 0.0 => float as i64,
        _ => return Err(format!("cannot convert float64 to {kind}")),
    };
    *value = if kind == "int32" { Value::from(whole as i32) } else { Value::from(whole) };
    Ok(())
}

/// Integers or strings are decoded as sent.
fn read_int_or_string(value: &Value) -> Result<(), String> {
    let found = match value {
        Value::String(_) => return Ok(()),
        Value::Number(number) if number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) => return Ok(()),
        Value::Number(number) => format!("number {number}"),
        other => json_type(other).to_owned(),
    };
    Err(format!("json: cannot unmarshal {found} into Go value of type int32"))
}

/// The kind of a value in Go.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

/// The named type of a string field, if it has one.
fn named_text(structure: &str, field: &str) -> &'static str {
    match (structure, field) {
        ("ObjectMeta" | "OwnerReference" | "ObjectReference", "uid") => "types.UID",
        (condition, "status") if condition.ends_with("Condition") => "v1.ConditionStatus",
        ("DeploymentCondition", "type") => "v1.DeploymentConditionType",
        ("ReplicaSetCondition", "type") => "v1.ReplicaSetConditionType",
        ("JobCondition", "type") => "v1.JobConditionType",
        ("PodCondition", "type") => "v1.PodConditionType",
        ("NodeCondition", "type") => "v1.NodeConditionType",
        ("NamespaceCondition", "type") => "v1.NamespaceConditionType",
        ("DeploymentStrategy", "type") => "v1.DeploymentStrategyType",
        ("DaemonSetUpdateStrategy", "type") => "v1.DaemonSetUpdateStrategyType",
        ("StatefulSetUpdateStrategy", "type") => "v1.StatefulSetUpdateStrategyType",
        ("StatefulSetSpec", "podManagementPolicy") => "v1.PodManagementPolicyType",
        ("CronJobSpec", "concurrencyPolicy") => "v1.ConcurrencyPolicy",
        ("JobSpec", "completionMode") => "v1.CompletionMode",
        ("Secret", "type") => "v1.SecretType",
        ("ServiceSpec", "type") => "v1.ServiceType",
        ("ServiceSpec", "sessionAffinity") => "v1.ServiceAffinity",
        ("ServiceSpec", "externalTrafficPolicy") => "v1.ServiceExternalTrafficPolicy",
        ("ServiceSpec", "ipFamilies") => "v1.IPFamily",
        ("ServicePort" | "ContainerPort" | "EndpointPort" | "NetworkPolicyPort", "protocol") => "v1.Protocol",
        ("Container" | "EphemeralContainer", "imagePullPolicy") => "v1.PullPolicy",
        ("Container" | "EphemeralContainer", "terminationMessagePolicy") => "v1.TerminationMessagePolicy",
        ("PodSpec", "restartPolicy") => "v1.RestartPolicy",
        ("PodSpec", "dnsPolicy") => "v1.DNSPolicy",
        ("PodSpec", "preemptionPolicy") | ("PriorityClass", "preemptionPolicy") => "v1.PreemptionPolicy",
        ("Toleration", "operator") => "v1.TolerationOperator",
        ("Toleration" | "Taint", "effect") => "v1.TaintEffect",
        ("LabelSelectorRequirement", "operator") => "v1.LabelSelectorOperator",
        ("NamespaceSpec", "finalizers") => "v1.FinalizerName",
        ("NamespaceStatus", "phase") => "v1.NamespacePhase",
        ("PersistentVolumeClaimSpec" | "PersistentVolumeSpec", "accessModes") => "v1.PersistentVolumeAccessMode",
        ("PersistentVolumeSpec", "persistentVolumeReclaimPolicy") => "v1.PersistentVolumeReclaimPolicy",
        ("PersistentVolumeClaimSpec" | "PersistentVolumeSpec", "volumeMode") => "v1.PersistentVolumeMode",
        ("StorageClass", "reclaimPolicy") => "v1.PersistentVolumeReclaimPolicy",
        ("StorageClass", "volumeBindingMode") => "v1.VolumeBindingMode",
        ("EndpointSlice", "addressType") => "v1.AddressType",
        ("NetworkPolicySpec", "policyTypes") => "v1.PolicyType",
        ("HTTPIngressPath", "pathType") => "v1.PathType",
        _ => "string",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalog::Catalog;

    #[test]
    fn type_errors_match_the_server() {
        // Recorded from a real server.
        let catalog = Catalog::built_in();
        for (group, plural, object, expected) in [
            ("apps", "deployments", json!({"spec": {"replicas": "x"}}), "unrecognized type: int32"),
            ("apps", "deployments", json!({"spec": {"replicas": 1.5}}), "cannot convert float64 to int32"),
            ("apps", "deployments", json!({"spec": {"replicas": {}}}), "unrecognized type: int32"),
            ("apps", "deployments", json!({"spec": "x"}), "cannot restore struct from: string"),
            ("apps", "deployments", json!({"spec": []}), "cannot restore struct from: slice"),
            ("apps", "deployments", json!({"spec": {"paused": 1}}), "unrecognized type: bool"),
            (
                "apps",
                "deployments",
                json!({"spec": {"template": {"spec": {"containers": {}}}}}),
                "cannot restore slice from map",
            ),
            (
                "apps",
                "deployments",
                json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": "x"}}}}),
                "unrecognized type: int64",
            ),
            (
                "apps",
                "deployments",
                json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 1.5}}}}),
                "json: cannot unmarshal number 1.5 into Go value of type int32",
            ),
            (
                "apps",
                "deployments",
                json!({"spec": {"strategy": {"type": 5}}}),
                "cannot convert int64 to v1.DeploymentStrategyType",
            ),
            ("apps", "deployments", json!({"metadata": {"labels": {"a": true}}}), "unrecognized type: string"),
            ("apps", "deployments", json!({"metadata": {"labels": []}}), "cannot restore map from slice"),
            (
                "apps",
                "deployments",
                json!({"metadata": {"creationTimestamp": 5}}),
                "json: cannot unmarshal number into Go value of type string",
            ),
            ("", "configmaps", json!({"data": {"a": 5}}), "cannot convert int64 to string"),
            ("", "configmaps", json!({"data": {"a": 1.5}}), "unrecognized type: string"),
            ("", "configmaps", json!({"binaryData": {"a": 5}}), "cannot restore slice from int64"),
            (
                "",
                "configmaps",
                json!({"binaryData": {"a": "!!"}}),
                "error decoding from json: illegal base64 data at input byte 0",
            ),
            ("", "secrets", json!({"type": 5}), "cannot convert int64 to v1.SecretType"),
        ] {
            let mut object = object;
            let found = restore(catalog.get(group, "v1", plural).unwrap(), &mut object);
            assert_eq!(found, Err(expected.to_owned()), "{object}");
        }
    }

    #[test]
    fn numbers_are_cut_to_their_size() {
        let catalog = Catalog::built_in();
        let mut object = json!({"spec": {"replicas": 99_999_999_999_i64, "minReadySeconds": 2.0}, "unknown": 1});
        restore(catalog.get("apps", "v1", "deployments").unwrap(), &mut object).unwrap();
        assert_eq!(object, json!({"spec": {"replicas": 1_215_752_191, "minReadySeconds": 2}, "unknown": 1}));
    }
}
