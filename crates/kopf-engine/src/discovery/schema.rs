//! What the schemas of CRDs say about `status`, so that results of handlers are not pruned away.
//!
//! Discovery fills the [`SchemaBook`] from the CRDs that it observes; the patcher, which stores a handler's
//! result asks [`placement`] where it fits. Without permission to see CRDs nothing is known, and
//! results go where they always went.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use kopf_reaction::Resource;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Where the result of a handler goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// To `status.<handler id>`.
    UnderId,
    /// Its members go directly into `status`.
    MergedIntoStatus,
    /// The API would prune or refuse it in either place.
    Lost { reason: String },
}

/// Decides where the result fits by the schema of `status`; None means that nothing is known.
pub fn placement(status_schema: Option<&Value>, handler_id: &str, result: &Value) -> Placement {
    let Some(schema) = status_schema else { return Placement::UnderId };
    let under_id = Value::Object(Map::from_iter([(handler_id.to_owned(), result.clone())]));
    let Err(reason_under_id) = fits(schema, &under_id, "status") else { return Placement::UnderId };
    if !result.is_object() {
        return Placement::Lost { reason: reason_under_id };
    }
    match fits(schema, result, "status") {
        Ok(()) => Placement::MergedIntoStatus,
        Err(reason_merged) => Placement::Lost { reason: format!("{reason_under_id}; {reason_merged}") },
    }
}

/// Whether the API stores the value unchanged: it prunes nothing, and refuses nothing for its type.
fn fits(schema: &Value, value: &Value, path: &str) -> Result<(), String> {
    if flag(schema, "x-kubernetes-preserve-unknown-fields") || flag(schema, "x-kubernetes-embedded-resource") {
        return Ok(());
    }
    if value.is_null() {
        // In a merge patch it means absence, which fits everywhere.
        return Ok(());
    }
    if flag(schema, "x-kubernetes-int-or-string") {
        let fitting = value.is_string() || value.is_i64() || value.is_u64();
        return if fitting { Ok(()) } else { Err(format!("{path} is neither an integer nor a string")) };
    }
    if let Some(wanted) = schema.get("type").and_then(Value::as_str)
        && !is_of_type(value, wanted)
    {
        return Err(format!("the schema wants {path} to be of the type {wanted}"));
    }
    match value {
        Value::Object(members) => members.iter().try_for_each(|(name, member)| {
            let path = format!("{path}.{name}");
            let declared = schema.get("properties").and_then(|properties| properties.get(name));
            match (declared, schema.get("additionalProperties")) {
                (Some(declared), _) => fits(declared, member, &path),
                (None, Some(Value::Bool(true))) => Ok(()),
                (None, Some(additional @ Value::Object(_))) => fits(additional, member, &path),
                (None, _) => Err(format!("the schema has no {path}")),
            }
        }),
        Value::Array(items) => match schema.get("items") {
            Some(schema) => items.iter().try_for_each(|item| fits(schema, item, &format!("{path}[]"))),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn is_of_type(value: &Value, wanted: &str) -> bool {
    match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => true,
    }
}

/// The schemas of `status` of all observed CRDs, by group, plural and version. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct SchemaBook {
    /// None where nothing is pruned.
    schemas: Arc<RwLock<HashMap<VersionKey, Option<Arc<Value>>>>>,
}

/// The group, the plural and the version.
type VersionKey = (String, String, String);

impl SchemaBook {
    /// The schema of `status`; None if unknown, or if there is nothing that would be pruned.
    pub fn status_schema(&self, resource: &Resource) -> Option<Arc<Value>> {
        self.entry(resource).flatten()
    }

    /// Whether the members are stored in `status` as they are. Not if nothing is known: built-in kinds
    /// would prune them.
    pub fn keeps_in_status(&self, resource: &Resource, members: &Value) -> bool {
        match self.entry(resource) {
            None => false,
            Some(None) => true,
            Some(Some(schema)) => fits(&schema, members, "status").is_ok(),
        }
    }

    fn entry(&self, resource: &Resource) -> Option<Option<Arc<Value>>> {
        let key = (resource.group.clone(), resource.plural.clone(), resource.version.clone());
        self.schemas.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    /// Takes over what a CRD says, instead of what it has said before.
    pub(crate) fn learn(&self, definition: &Definition) {
        let mut schemas = self.schemas.write().unwrap_or_else(PoisonError::into_inner);
        schemas.retain(|(group, plural, _), _| *group != definition.group || *plural != definition.plural);
        for version in &definition.versions {
            let key = (definition.group.clone(), definition.plural.clone(), version.name.clone());
            schemas.insert(key, version.status_schema.clone());
        }
    }

    /// Forgets a CRD that is gone.
    pub(crate) fn forget(&self, group: &str, plural: &str) {
        let mut schemas = self.schemas.write().unwrap_or_else(PoisonError::into_inner);
        schemas.retain(|(known_group, known_plural, _), _| known_group != group || known_plural != plural);
    }
}

/// What matters of a CRD.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Definition {
    /// The name of the CRD itself.
    pub name: String,
    pub group: String,
    pub plural: String,
    pub versions: Vec<DefinedVersion>,
    pub stage: DefinitionStage,
}

/// How far a CRD is, by its own word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefinitionStage {
    /// Not served yet, or refused.
    Pending,
    /// Served.
    Established,
    /// Being deleted, as soon as all of its objects are.
    Terminating,
}

/// One version of a CRD.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DefinedVersion {
    pub name: String,
    pub served: bool,
    /// What [`placement`] is to be asked with.
    pub status_schema: Option<Arc<Value>>,
}

/// Decodes a CRD, skipping all of its schemas but those of `status`.
pub(crate) fn decode_definition(raw: &[u8]) -> Result<Definition, serde_json::Error> {
    let decoded: RawDefinition = serde_json::from_slice(raw)?;
    let conditions = decoded.status.unwrap_or_default().conditions.unwrap_or_default();
    let stage = if decoded.metadata.deletion_timestamp.is_some() {
        DefinitionStage::Terminating
    } else if conditions.iter().any(|one| one.kind == "Established" && one.status == "True") {
        DefinitionStage::Established
    } else {
        DefinitionStage::Pending
    };
    let preserving = decoded.spec.preserve_unknown_fields;
    let versions = decoded.spec.versions.into_iter().map(|version| DefinedVersion {
        name: version.name,
        served: version.served,
        status_schema: version
            .schema
            .and_then(|schema| schema.root)
            .filter(|_| !preserving)
            .and_then(RawRoot::status_schema)
            .map(Arc::new),
    });
    Ok(Definition {
        name: decoded.metadata.name,
        group: decoded.spec.group,
        plural: decoded.spec.names.plural,
        versions: versions.collect(),
        stage,
    })
}

#[derive(Deserialize)]
struct RawDefinition {
    metadata: RawMetadata,
    spec: RawSpec,
    status: Option<RawStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMetadata {
    #[serde(default)]
    name: String,
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSpec {
    group: String,
    names: RawNames,
    #[serde(default)]
    versions: Vec<RawVersion>,
    #[serde(default)]
    preserve_unknown_fields: bool,
}

#[derive(Deserialize)]
struct RawNames {
    plural: String,
}

#[derive(Deserialize)]
struct RawVersion {
    name: String,
    #[serde(default)]
    served: bool,
    schema: Option<RawSchema>,
}

#[derive(Deserialize)]
struct RawSchema {
    #[serde(rename = "openAPIV3Schema")]
    root: Option<RawRoot>,
}

#[derive(Deserialize)]
struct RawRoot {
    #[serde(default)]
    properties: RawProperties,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields", default)]
    preserving: bool,
}

#[derive(Default, Deserialize)]
struct RawProperties {
    status: Option<Value>,
}

#[derive(Default, Deserialize)]
struct RawStatus {
    /// Null for a moment after the creation.
    conditions: Option<Vec<RawCondition>>,
}

#[derive(Deserialize)]
struct RawCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl RawRoot {
    /// The schema of the status; one without any members if there is no status at all.
    fn status_schema(self) -> Option<Value> {
        match self.properties.status {
            Some(status) => Some(status),
            None if self.preserving => None,
            None => Some(Value::Object(Map::from_iter([("type".to_owned(), Value::from("object"))]))),
        }
    }
}

#[cfg(test)]
mod tests;
