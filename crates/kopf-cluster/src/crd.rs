//! Custom resource definitions: from a CRD to resources of the catalog.
//!
//! `verbs/` call [`prepare`] and [`check`] for every CRD that is written, and [`settle`] after it:
//! that is what the controllers of a real server do some milliseconds later. [`resource_types`]
//! turns a settled CRD into what the catalog serves.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::catalog::{Origin, ResourceType, Subresource, TypeFacts, definitions};
use crate::clock::timestamp;
use crate::jsonpath::JsonPath;
use crate::schema::{FieldError, Schema};
use crate::webhooks::ConversionWebhook;

/// What keeps a deleted CRD until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// A version of a custom resource, as its CRD defines it.
#[derive(Debug)]
pub struct CustomVersion {
    /// The `openAPIV3Schema`; null if there is none.
    pub open_api_schema: Value,
    pub columns: Vec<PrinterColumn>,
    pub selectable_fields: Vec<String>,
    pub scale: Option<ScalePaths>,
    /// The version in which its objects are stored.
    pub storage_version: String,
    /// What converts them; None if the versions differ in their names only.
    pub conversion: Option<ConversionWebhook>,
    /// What clients of this version are warned of.
    pub deprecation: Option<String>,
    /// Whether nothing can be created any more, since the CRD is going away.
    pub terminating: bool,
    /// Whether it is kept with everything that is not in the schema.
    preserve_unknown_fields: bool,
}

/// A column that a CRD adds to tables.
#[derive(Clone, Debug)]
pub struct PrinterColumn {
    pub name: String,
    pub kind: String,
    pub format: String,
    pub description: String,
    pub priority: i64,
    pub path: Option<JsonPath>,
}

/// Where the scale subresource finds its numbers.
#[derive(Clone, Debug)]
pub struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}

impl CustomVersion {
    /// The schema, ready to be used.
    pub fn compile_schema(&self) -> Option<Schema> {
        if self.open_api_schema.is_null() || self.preserve_unknown_fields {
            return None;
        }
        let document = definitions("", "v1");
        let nothing = Map::new();
        let known = document.as_ref().and_then(|document| document["components"]["schemas"].as_object());
        Schema::of_custom_resource(&self.open_api_schema, known.unwrap_or(&nothing)).ok()
    }
}

/// Fills in what a CRD leaves out.
pub fn complete(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        names.entry("singular").or_insert_with(|| json!(kind.to_lowercase()));
        names.entry("listKind").or_insert_with(|| json!(format!("{kind}List")));
    }
    spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
}

/// Fills in the status that a CRD is written with.
pub fn prepare(crd: &mut Value) {
    let storage = storage_version(&crd["spec"]);
    let status = crd.as_object_mut().map(|crd| crd.entry("status").or_insert_with(|| json!({})));
    if let Some(Value::Object(status)) = status {
        status.entry("conditions").or_insert(Value::Null);
        status.entry("acceptedNames").or_insert_with(|| json!({"plural": "", "kind": ""}));
        let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
        if let (Value::Array(stored), Some(storage)) = (stored, storage)
            && !stored.iter().any(|known| known == storage.as_str())
        {
            stored.push(json!(storage));
        }
    }
}

/// What is wrong with a CRD.
pub fn check(crd: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &crd["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let expected = format!("{}.{}", text(&spec["names"]["plural"]), text(&spec["group"]));
    if text(&crd["metadata"]["name"]) != expected {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", crd["metadata"]["name"].clone(), detail));
    }
    if text(&spec["group"]).is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if text(&spec["group"]).split('.').count() < 2 {
        let detail = "should be a domain with at least one dot";
        errors.push(FieldError::invalid("spec.group", spec["group"].clone(), detail));
    }
    match text(&spec["scope"]).as_str() {
        "Namespaced" | "Cluster" => {}
        "" => errors.push(FieldError::required("spec.scope", "")),
        _ => {
            let supported = ["Cluster".to_owned(), "Namespaced".to_owned()];
            errors.push(FieldError::not_supported("spec.scope", spec["scope"].clone(), &supported));
        }
    }
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", spec["versions"].clone(), detail));
    }
    for (index, version) in versions.iter().enumerate() {
        if version["schema"]["openAPIV3Schema"].is_null() {
            let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
            errors.push(FieldError::required(path, "schemas are required"));
        }
    }
    for field in ["plural", "kind"] {
        if text(&spec["names"][field]).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{field}"), ""));
        }
    }
    if let Some(old) = old.filter(|old| is_established(old)) {
        for field in ["group", "scope"] {
            if old["spec"][field] != spec[field] {
                let path = format!("spec.{field}");
                errors.push(FieldError::invalid(path, spec[field].clone(), "field is immutable"));
            }
        }
    }
    errors
}

/// What the controllers add to the status of a CRD; None if it is there already.
pub fn settle(crd: &Value, now: Timestamp) -> Option<Value> {
    let mut settled = crd.clone();
    let names = crd["spec"]["names"].clone();
    let status = settled.get_mut("status")?.as_object_mut()?;
    status.insert("acceptedNames".into(), names);
    let conditions = status.entry("conditions").or_insert(Value::Null);
    let wanted = [
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ];
    for (kind, reason, message) in wanted {
        set_condition(conditions, kind, reason, message, now);
    }
    (settled != *crd).then_some(settled)
}

/// Notes that a CRD is going away.
pub fn terminate(crd: &mut Value, now: Timestamp) {
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(&mut crd["status"]["conditions"], "Terminating", "InstanceDeletionPending", message, now);
}

fn set_condition(conditions: &mut Value, kind: &str, reason: &str, message: &str, now: Timestamp) {
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    if let Value::Array(conditions) = conditions {
        if conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True") {
            return;
        }
        conditions.retain(|condition| condition["type"] != kind);
        conditions.push(json!({"type": kind, "status": "True", "lastTransitionTime": timestamp(now),
            "reason": reason, "message": message}));
    }
}

/// Whether the resources of the CRD are served.
pub fn is_established(crd: &Value) -> bool {
    let conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

fn storage_version(spec: &Value) -> Option<String> {
    let versions = spec["versions"].as_array()?;
    let stored = versions.iter().find(|version| version["storage"] == true)?;
    Some(stored["name"].as_str()?.to_owned())
}

/// The resources that a CRD defines, one per served version.
pub fn resource_types(crd: &Value) -> Vec<ResourceType> {
    if !is_established(crd) {
        return Vec::new();
    }
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    versions.filter(|version| version["served"] == true).map(|version| resource_type(crd, version)).collect()
}

fn resource_type(crd: &Value, version: &Value) -> ResourceType {
    let spec = &crd["spec"];
    let names = &spec["names"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let verbs = |list: &[&str]| list.iter().map(|verb| (*verb).to_owned()).collect::<Vec<_>>();
    let (group, version_name, kind) = (text(&spec["group"]), text(&version["name"]), text(&names["kind"]));
    let mut subresources = Vec::new();
    if version["subresources"].get("status").is_some_and(|status| !status.is_null()) {
        subresources.push(Subresource {
            name: "status".into(),
            group: group.clone(),
            version: version_name.clone(),
            kind: kind.clone(),
            verbs: verbs(&["get", "patch", "update"]),
        });
    }
    let scale = version["subresources"].get("scale").filter(|scale| !scale.is_null());
    if scale.is_some() {
        subresources.push(Subresource {
            name: "scale".into(),
            group: "autoscaling".into(),
            version: "v1".into(),
            kind: "Scale".into(),
            verbs: verbs(&["get", "patch", "update"]),
        });
    }
    let custom = CustomVersion {
        open_api_schema: version["schema"]["openAPIV3Schema"].clone(),
        columns: version["additionalPrinterColumns"].as_array().into_iter().flatten().map(printer_column).collect(),
        selectable_fields: version["selectableFields"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|field| text(&field["jsonPath"]).trim_start_matches('.').to_owned())
            .collect(),
        scale: scale.map(|scale| ScalePaths {
            spec_replicas: text(&scale["specReplicasPath"]),
            status_replicas: text(&scale["statusReplicasPath"]),
            label_selector: scale["labelSelectorPath"].as_str().map(str::to_owned),
        }),
        storage_version: storage_version(spec).unwrap_or_default(),
        conversion: ConversionWebhook::parse(&spec["conversion"]),
        deprecation: (version["deprecated"] == true).then(|| match version["deprecationWarning"].as_str() {
            Some(warning) => warning.to_owned(),
            None => format!("{group}/{version_name} {kind} is deprecated"),
        }),
        terminating: crd["metadata"].get("deletionTimestamp").is_some(),
        preserve_unknown_fields: spec["preserveUnknownFields"] == true,
    };
    TypeFacts {
        plural: text(&names["plural"]),
        singular: text(&names["singular"]),
        list_kind: text(&names["listKind"]),
        namespaced: spec["scope"] == "Namespaced",
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        verbs: verbs(&["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]),
        subresources,
        origin: Origin::Custom(Arc::new(custom)),
        group,
        version: version_name,
        kind,
    }
    .into()
}

fn printer_column(column: &Value) -> PrinterColumn {
    let text = |field: &str| column[field].as_str().unwrap_or_default().to_owned();
    let path = text("jsonPath");
    let description = match text("description") {
        given if !given.is_empty() => given,
        _ => format!("Custom resource definition column (in JSONPath format): {path}"),
    };
    PrinterColumn {
        name: text("name"),
        kind: text("type"),
        format: text("format"),
        description,
        priority: column["priority"].as_i64().unwrap_or_default(),
        path: JsonPath::parse(&path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd() -> Value {
        json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [
                    {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                     "schema": {"openAPIV3Schema": {"type": "object"}}},
                    {"name": "v2", "served": false, "storage": false,
                     "schema": {"openAPIV3Schema": {"type": "object"}}},
                ],
            },
        })
    }

    #[test]
    fn a_crd_becomes_resources_when_it_is_settled() {
        let mut crd = crd();
        complete(&mut crd);
        prepare(&mut crd);
        assert_eq!(check(&crd, None), []);
        assert_eq!(crd["spec"]["names"]["listKind"], "WidgetList");
        assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
        assert!(resource_types(&crd).is_empty());
        let settled = settle(&crd, Timestamp::UNIX_EPOCH).unwrap();
        assert!(is_established(&settled));
        assert_eq!(settle(&settled, Timestamp::UNIX_EPOCH), None);
        let types = resource_types(&settled);
        assert_eq!(types.len(), 1);
        assert_eq!((types[0].qualified().as_str(), types[0].has_status()), ("widgets.example.com", true));
    }

    #[test]
    fn wrong_crds_are_refused() {
        let check_with = |change: fn(&mut Value), expected: &str| {
            let mut crd = crd();
            change(&mut crd);
            complete(&mut crd);
            prepare(&mut crd);
            let errors: Vec<String> = check(&crd, None).iter().map(ToString::to_string).collect();
            assert!(errors.iter().any(|error| error.contains(expected)), "{errors:?}");
        };
        check_with(|crd| crd["metadata"]["name"] = json!("x"), "must be spec.names.plural");
        check_with(|crd| crd["spec"]["scope"] = json!("Galaxy"), "spec.scope: Unsupported value: \"Galaxy\"");
        check_with(|crd| crd["spec"]["versions"][1]["storage"] = json!(true), "exactly one version");
        check_with(|crd| crd["spec"]["versions"][0]["schema"] = json!(null), "schemas are required");
    }
}
