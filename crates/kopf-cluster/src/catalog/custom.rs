//! The resources of a CRD: what the catalog serves for each of its versions.

use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use super::{ConversionWebhook, Origin, ResourceFacts, ResourceType, Subresource, Verb, definitions, version_priority};
use crate::schema::Schema;
use crate::values::jsonpath::JsonPath;

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
    /// The `openAPIV3Schema` of that version, compiled on first use.
    storage_open_api_schema: Value,
    storage_schema: OnceLock<Option<Schema>>,
    /// The conversion webhook; None if the versions differ in their names only.
    pub conversion: Option<ConversionWebhook>,
    /// The deprecation warning of this version.
    pub deprecation: Option<String>,
    /// Whether the CRD is being deleted, so that no objects can be created.
    pub terminating: bool,
    /// Whether fields outside of the schema are kept.
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

/// The paths of the scale subresource.
#[derive(Clone, Debug)]
pub struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}

impl CustomVersion {
    /// Compiles the schema.
    pub fn compile_schema(&self) -> Option<Schema> {
        self.compile(&self.open_api_schema)
    }

    /// The schema of the storage version.
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

/// The resources that a CRD defines, one per served version.
pub(crate) fn resource_types(crd: &Value) -> Vec<ResourceType> {
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
    let (group, version_name, kind) = (text(&spec["group"]), text(&version["name"]), text(&names["kind"]));
    let mut subresources = Vec::new();
    if version["subresources"].get("status").is_some_and(|status| !status.is_null()) {
        subresources.push(Subresource {
            name: "status".into(),
            group: group.clone(),
            version: version_name.clone(),
            kind: kind.clone(),
            verbs: vec![Verb::Get, Verb::Patch, Verb::Update],
        });
    }
    let scale = version["subresources"].get("scale").filter(|scale| !scale.is_null());
    if scale.is_some() {
        subresources.push(Subresource {
            name: "scale".into(),
            group: "autoscaling".into(),
            version: "v1".into(),
            kind: "Scale".into(),
            verbs: vec![Verb::Get, Verb::Patch, Verb::Update],
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
    ResourceFacts {
        plural: text(&names["plural"]),
        singular: text(&names["singular"]),
        list_kind: text(&names["listKind"]),
        namespaced: spec["scope"] == "Namespaced",
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        verbs: vec![
            Verb::Delete,
            Verb::DeleteCollection,
            Verb::Get,
            Verb::List,
            Verb::Patch,
            Verb::Create,
            Verb::Update,
            Verb::Watch,
        ],
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

/// The newest version that clients of a deprecated one should use.
fn better_version<'a>(spec: &'a Value, deprecated: &str) -> Option<&'a str> {
    let versions = spec["versions"].as_array()?.iter();
    let served = versions.filter(|version| version["served"] == true && version["deprecated"] != true);
    let names = served.filter_map(|version| version["name"].as_str());
    names.filter(|name| version_priority(name) > version_priority(deprecated)).max_by_key(|name| version_priority(name))
}

/// Whether the resources of the CRD are served.
pub(crate) fn is_established(crd: &Value) -> bool {
    let conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

pub(crate) fn storage_version(spec: &Value) -> Option<String> {
    Some(storing(spec)?["name"].as_str()?.to_owned())
}

/// The storage version.
fn storing(spec: &Value) -> Option<&Value> {
    spec["versions"].as_array()?.iter().find(|version| version["storage"] == true)
}
