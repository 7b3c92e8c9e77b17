//! Values as the server keeps them: by the names of Go, with all fields.
//!
//! Error messages quote them, or show how they have changed. `scripts/capture_structs.py` captured the structs
//! from the sources, and explains the notation.

use serde_json::{Map, Value, json};

use super::{go_json, struct_text, text_diff};
use crate::support::capture;

/// The fields of metadata, in their order.
const METADATA: [&str; 14] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
];
/// In the internal struct, the host settings of a pod are part of its security context.
const HOST: [&str; 5] = ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"];

/// A value in a struct, as text.
pub(crate) fn quote(name: &str, value: &Value) -> String {
    text(&shown(name, value), None)
}

/// How a struct has changed.
pub(crate) fn difference(name: &str, old: &Value, new: &Value) -> String {
    text_diff::unified(&text(&shown(name, old), Some(0)), &text(&shown(name, new), Some(0)))
}

fn shown(name: &str, value: &Value) -> Value {
    let structs = capture::value("structs").unwrap_or_default();
    Printer { structs: &structs }.fields(name, value).into()
}

struct Printer<'a> {
    structs: &'a Value,
}

impl Printer<'_> {
    fn fields(&self, name: &str, value: &Value) -> Map<String, Value> {
        let moved;
        let value = match name {
            "PodSpec" => {
                moved = with_host(value);
                &moved
            }
            _ => value,
        };
        let mut fields = Map::new();
        for field in self.structs[name].as_array().into_iter().flatten() {
            let item = |index: usize| field[index].as_str().unwrap_or_default();
            let (shown_as, key, kind) = (item(0), item(1), item(2));
            let below = value.get(key).filter(|below| !below.is_null());
            match (shown_as, kind) {
                ("", "M") => {
                    let present = METADATA.iter().filter_map(|name| Some((*name, below?.get(*name)?)));
                    fields.extend(present.map(|(name, value)| (name.to_owned(), value.clone())));
                }
                ("", kind) => fields.extend(self.fields(kind.trim_start_matches('@'), value)),
                _ => {
                    fields.insert(shown_as.to_owned(), self.value(kind, below));
                }
            }
        }
        fields
    }

    fn value(&self, kind: &str, value: Option<&Value>) -> Value {
        let mut letters = kind.chars();
        let (letter, rest) = (letters.next(), letters.as_str());
        match (letter, value) {
            (Some('*'), Some(_)) => self.value(rest, value),
            (Some('['), Some(Value::Array(items))) => items.iter().map(|item| self.value(rest, Some(item))).collect(),
            (Some('{'), Some(Value::Object(entries))) => {
                let mut sorted: Vec<(&String, &Value)> = entries.iter().collect();
                sorted.sort_unstable_by_key(|(key, _)| *key);
                let shown = sorted.into_iter().map(|(key, value)| (key.clone(), self.value(rest, Some(value))));
                Value::Object(shown.collect())
            }
            (Some('@'), _) => self.fields(rest, value.unwrap_or(&Value::Null)).into(),
            (Some('L'), Some(selector)) => {
                serde_json::from_str(&struct_text::selector(selector)).unwrap_or_else(|_| selector.clone())
            }
            (Some('s'), None) => json!(""),
            (Some('Q'), None) => json!("0"),
            (Some('b'), None) => json!(false),
            (Some('i' | 'd'), None) => json!(0),
            (_, value) => value.cloned().unwrap_or_default(),
        }
    }
}

fn with_host(spec: &Value) -> Value {
    let mut moved = spec.clone();
    if let Some(fields) = moved.as_object_mut() {
        let host: Vec<_> = HOST.iter().filter_map(|name| Some((*name, fields.shift_remove(*name)?))).collect();
        let context = fields.entry("securityContext").or_insert_with(|| json!({}));
        if let Some(context) = context.as_object_mut() {
            context.extend(host.into_iter().map(|(name, value)| (name.to_owned(), value)));
        }
    }
    moved
}

/// JSON in the order of the fields: in one line, or with one field to a line, indented by single spaces.
fn text(value: &Value, depth: Option<usize>) -> String {
    let below = depth.map(|depth| depth + 1);
    let (colon, items): (&str, Vec<String>) = match value {
        Value::Object(fields) if !fields.is_empty() => {
            let colon = if depth.is_some() { ": " } else { ":" };
            let item =
                |(key, value): (&String, &Value)| format!("{}{colon}{}", go_json(&json!(key)), text(value, below));
            (colon, fields.iter().map(item).collect())
        }
        Value::Array(items) if !items.is_empty() => ("", items.iter().map(|item| text(item, below)).collect()),
        other => return go_json(other),
    };
    let (open, close) = if colon.is_empty() { ('[', ']') } else { ('{', '}') };
    match depth {
        None => format!("{open}{}{close}", items.join(",")),
        Some(depth) => {
            let (inner, outer) = (" ".repeat(depth + 1), " ".repeat(depth));
            format!("{open}\n{inner}{}\n{outer}{close}", items.join(&format!(",\n{inner}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_show_all_of_their_fields() {
        let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            "selector": {"matchLabels": {"b": "<", "a": "1"}}, "volumeMode": "Block"});
        let expected = r#"{"AccessModes":["ReadWriteOnce"],"Selector":{"matchLabels":{"a":"1","b":"\u003c"}},"Resources":{"Limits":null,"Requests":{"storage":"1Gi"}},"VolumeName":"","StorageClassName":null,"VolumeMode":"Block","DataSource":null,"DataSourceRef":null,"VolumeAttributesClassName":null}"#;
        assert_eq!(quote("PersistentVolumeClaimSpec", &claim), expected);
    }

    #[test]
    fn pods_keep_their_hosts_in_the_security_context() {
        let template = json!({"metadata": {"labels": {"a": "b"}, "name": "x"}, "spec": {"hostPID": true,
            "containers": [{"name": "c", "livenessProbe": {"exec": {"command": ["x"]}, "periodSeconds": 3}}],
            "volumes": [{"name": "v", "emptyDir": {}}]}});
        let quoted = quote("PodTemplateSpec", &template);
        assert!(
            quoted.starts_with(r#"{"name":"x","labels":{"a":"b"},"Spec":{"Volumes":[{"Name":"v","HostPath":null,"#)
        );
        for part in [
            r#""SecurityContext":{"HostNetwork":false,"HostPID":true,"HostIPC":false,"#,
            r#""EmptyDir":{"Medium":"","SizeLimit":null},"#,
            r#""LivenessProbe":{"Exec":{"Command":["x"]},"HTTPGet":null,"TCPSocket":null,"GRPC":null,"InitialDelaySeconds":0,"#,
        ] {
            assert!(quoted.contains(part), "{part} is not in {quoted}");
        }
        assert!(!quoted.contains("hostPID"), "{quoted}");
    }

    #[test]
    fn changes_are_shown_line_by_line() {
        let (old, new) = (json!({"hostPath": {"path": "/data", "type": ""}}), json!({}));
        let expected = "@@ -1,10 +1,7 @@\n {\n  \"GCEPersistentDisk\": null,\n  \"AWSElasticBlockStore\": null,\n- \"HostPath\": \
                        {\n-  \"Path\": \"/data\",\n-  \"Type\": \"\"\n- },\n+ \"HostPath\": null,\n  \"Glusterfs\": null,\n  \
                        \"NFS\": null,\n  \"RBD\": null,\n";
        assert_eq!(difference("PersistentVolumeSource", &old, &new), expected);
        assert_eq!(difference("PersistentVolumeSource", &old, &old), "");
    }
}
