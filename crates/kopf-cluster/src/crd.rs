//! Custom resource definitions: from a CRD to resources of the catalog.
//!
//! `verbs/` call [`prepare`] for every CRD that is written, and [`settle`] after it:
//! that is what the controllers of a real server do some milliseconds later. [`resource_types`]
//! turns a settled CRD into what the catalog serves.

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::catalog::{Origin, ResourceType, Subresource, TypeFacts, definitions, version_priority};
use crate::clock::timestamp;
use crate::jsonpath::JsonPath;
use crate::schema::Schema;
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
    /// The `openAPIV3Schema` of that version, compiled when it is first needed.
    storage_open_api_schema: Value,
    storage_schema: OnceLock<Option<Schema>>,
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
        self.compile(&self.open_api_schema)
    }

    /// The schema of the version in which objects are stored.
    pub fn storage_schema(&self) -> Option<&Schema> {
        self.storage_schema.get_or_init(|| self.compile(&self.storage_open_api_schema)).as_ref()
    }

    fn compile(&self, open_api_schema: &Value) -> Option<Schema> {
        if open_api_schema.is_null() || self.preserve_unknown_fields {
            return None;
        }
        let document = definitions("", "v1");
        let nothing = Map::new();
        let known = document.as_ref().and_then(|document| document["components"]["schemas"].as_object());
        Schema::of_custom_resource(open_api_schema, known.unwrap_or(&nothing)).ok()
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
    let conversion = spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    if let Some(service) = conversion.pointer_mut("/webhook/clientConfig/service").and_then(Value::as_object_mut) {
        service.entry("port").or_insert_with(|| json!(443));
    }
    if spec.get("preserveUnknownFields") == Some(&json!(false)) {
        spec.shift_remove("preserveUnknownFields");
    }
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

/// What the controllers add to the status of a CRD, beside the other ones of its group; None if
/// it is there already.
pub fn settle(crd: &Value, others: &[Value], now: Timestamp) -> Option<Value> {
    let mut settled = crd.clone();
    let (accepted, conflict) = accepted_names(crd, others);
    let status = settled.get_mut("status")?.as_object_mut()?;
    status.insert("acceptedNames".into(), accepted);
    let conditions = status.entry("conditions").or_insert(Value::Null);
    match conflict {
        None => {
            set_condition(conditions, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now);
            let message = "the initial names have been accepted";
            set_condition(conditions, "Established", "True", "InitialNamesAccepted", message, now);
        }
        Some((reason, message)) => {
            set_condition(conditions, "NamesAccepted", "False", reason, &message, now);
            // What is served once stays so.
            if !is_established(crd) {
                set_condition(conditions, "Established", "False", "NotAccepted", "not all names are accepted", now);
            }
        }
    }
    (settled != *crd).then_some(settled)
}

/// Whether a CRD has to wait for names of others.
pub fn waits_for_names(crd: &Value) -> bool {
    let conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "NamesAccepted" && condition["status"] == "False")
}

/// The names that nobody else of the group uses, and the last conflict about the others.
fn accepted_names(crd: &Value, others: &[Value]) -> (Value, Option<(&'static str, String)>) {
    let wanted = &crd["spec"]["names"];
    let rivals: Vec<&Value> = others
        .iter()
        .filter(|other| other["spec"]["group"] == crd["spec"]["group"])
        .filter(|other| other["metadata"]["name"] != crd["metadata"]["name"])
        .map(|other| &other["status"]["acceptedNames"])
        .collect();
    let is_in = |names: &Value, fields: &[&str], wanted: &Value| {
        fields.iter().any(|field| match &names[*field] {
            Value::Array(list) => list.contains(wanted),
            single => single == wanted && single != "",
        })
    };
    let resources = ["plural", "singular", "shortNames"];
    let kinds = ["kind", "listKind"];
    let is_taken = |fields: &[&str], wanted: &Value| rivals.iter().any(|names| is_in(names, fields, wanted));
    let mut accepted = crd["status"]["acceptedNames"].clone();
    if !accepted.is_object() {
        accepted = json!({"plural": "", "kind": ""});
    }
    let mut conflict = None;
    for (field, reason, fields) in [
        ("plural", "PluralConflict", resources.as_slice()),
        ("singular", "SingularConflict", &resources),
        ("shortNames", "ShortNamesConflict", &resources),
        ("kind", "KindConflict", &kinds),
        ("listKind", "ListKindConflict", &kinds),
    ] {
        let Some(given) = wanted.get(field) else {
            if let Some(names) = accepted.as_object_mut() {
                names.shift_remove(field);
            }
            continue;
        };
        let single = [given.clone()];
        let list = given.as_array().map_or(single.as_slice(), Vec::as_slice);
        let taken: Vec<String> = list.iter().filter(|name| is_taken(fields, name)).map(ToString::to_string).collect();
        match taken.len() {
            0 => accepted[field] = given.clone(),
            1 => conflict = Some((reason, format!("{} is already in use", taken.concat()))),
            _ => {
                let all: Vec<String> = taken.iter().map(|name| format!("{name} is already in use")).collect();
                conflict = Some((reason, format!("[{}]", all.join(", "))));
            }
        }
    }
    if let Some(categories) = wanted.get("categories") {
        accepted["categories"] = categories.clone();
    }
    (accepted, conflict)
}

/// Notes that a CRD is going away.
pub fn terminate(crd: &mut Value, now: Timestamp) {
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    let conditions = &mut crd["status"]["conditions"];
    set_condition(conditions, "Terminating", "True", "InstanceDeletionPending", message, now);
}

fn set_condition(conditions: &mut Value, kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) {
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    if let Value::Array(conditions) = conditions {
        let wanted = json!({"type": kind, "status": status, "lastTransitionTime": timestamp(now),
            "reason": reason, "message": message});
        match conditions.iter_mut().find(|condition| condition["type"] == kind) {
            Some(current) if current["status"] == status && current["reason"] == reason => {}
            Some(current) => *current = wanted,
            None => conditions.push(wanted),
        }
    }
}

/// Whether the resources of the CRD are served.
pub fn is_established(crd: &Value) -> bool {
    let conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

fn storage_version(spec: &Value) -> Option<String> {
    Some(storing(spec)?["name"].as_str()?.to_owned())
}

/// The version in which objects are stored.
fn storing(spec: &Value) -> Option<&Value> {
    spec["versions"].as_array()?.iter().find(|version| version["storage"] == true)
}

/// The newest version that clients of a deprecated one should use.
fn better_version<'a>(spec: &'a Value, deprecated: &str) -> Option<&'a str> {
    let versions = spec["versions"].as_array()?.iter();
    let served = versions.filter(|version| version["served"] == true && version["deprecated"] != true);
    let names = served.filter_map(|version| version["name"].as_str());
    names.filter(|name| version_priority(name) > version_priority(deprecated)).max_by_key(|name| version_priority(name))
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
        storage_open_api_schema: storing(spec)
            .map(|version| version["schema"]["openAPIV3Schema"].clone())
            .unwrap_or_default(),
        storage_schema: OnceLock::new(),
        storage_version: storage_version(spec).unwrap_or_default(),
        conversion: ConversionWebhook::parse(&spec["conversion"]),
        deprecation: (version["deprecated"] == true).then(|| match version["deprecationWarning"].as_str() {
            Some(warning) => warning.to_owned(),
            None => {
                let better = better_version(spec, &version_name).map(|better| format!("; use {group}/{better} {kind}"));
                format!("{group}/{version_name} {kind} is deprecated{}", better.unwrap_or_default())
            }
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
        assert_eq!(crd["spec"]["names"]["listKind"], "WidgetList");
        assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
        assert!(resource_types(&crd).is_empty());
        let settled = settle(&crd, &[], Timestamp::UNIX_EPOCH).unwrap();
        assert!(is_established(&settled));
        assert_eq!(settle(&settled, &[], Timestamp::UNIX_EPOCH), None);
        let types = resource_types(&settled);
        assert_eq!(types.len(), 1);
        assert_eq!((types[0].qualified(), types[0].has_status()), ("widgets.example.com", true));
    }

    #[test]
    fn names_are_taken_by_the_first_one() {
        let settled = |name: &str, names: Value, others: &[Value]| {
            let mut crd = crd();
            crd["metadata"]["name"] = json!(name);
            crd["spec"]["names"] = names;
            complete(&mut crd);
            prepare(&mut crd);
            settle(&crd, others, Timestamp::UNIX_EPOCH).unwrap()
        };
        let first = settled("widgets.x", json!({"plural": "widgets", "kind": "Widget", "shortNames": ["w"]}), &[]);
        for (names, reason, message) in [
            (json!({"plural": "others", "kind": "Widget"}), "ListKindConflict", "\"WidgetList\" is already in use"),
            (
                json!({"plural": "others", "kind": "Other", "shortNames": ["w", "o"]}),
                "ShortNamesConflict",
                "\"w\" is already in use",
            ),
            (json!({"plural": "w", "kind": "Other"}), "PluralConflict", "\"w\" is already in use"),
            (json!({"plural": "others", "kind": "Other"}), "NoConflicts", "no conflicts found"),
        ] {
            let second = settled("others.x", names.clone(), std::slice::from_ref(&first));
            let condition = &second["status"]["conditions"][0];
            assert_eq!((&condition["reason"], &condition["message"]), (&json!(reason), &json!(message)), "{names}");
            assert_eq!(is_established(&second), reason == "NoConflicts", "{names}");
        }
    }
}
