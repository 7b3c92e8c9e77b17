//! One place of a compiled schema: what a value there may be and how it is treated.
//!
//! All operations (pruning, defaulting, validation, patches, server-side apply) walk values and
//! nodes side by side. Nodes refer to each other by number, because published schemas are
//! recursive and share their definitions.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::pattern::Pattern;
use super::validation_rule::ValidationRule;

/// The number of a node within its schema.
pub(crate) type NodeId = u32;

/// The schema of one value.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// The name of the definition it comes from, such as `io.k8s.api.core.v1.PodSpec`.
    pub definition: Option<Arc<str>>,
    /// The type of the value; absent if any value will do.
    pub value_type: Option<ValueType>,
    /// The format of a string or a number, whether or not it is checked.
    pub format: Option<Arc<str>>,
    /// Whether null is a valid value.
    pub nullable: bool,
    /// Both integers and strings are accepted.
    pub int_or_string: bool,
    /// Fields that are not in the schema are kept.
    pub preserve_unknown_fields: bool,
    /// The value is a whole object with its own apiVersion, kind and metadata.
    pub embedded_resource: bool,
    /// The known fields.
    pub properties: BTreeMap<String, NodeId>,
    /// The names of fields that must be present, in the order of the schema.
    pub required: Vec<String>,
    /// What may be beside the known fields.
    pub additional: Additional,
    /// The items of a list.
    pub items: Option<NodeId>,
    /// The default value.
    pub default: Option<Value>,
    /// How a list is merged and compared.
    pub list_type: Option<ListType>,
    /// How a mapping or a structure is merged.
    pub map_type: Option<MapType>,
    /// How strategic merge patches treat the field.
    pub patch_strategy: PatchStrategy,
    /// Constraints on the value beyond its type; most nodes have none.
    pub checks: Option<Box<Checks>>,
    /// Rules in CEL, in the order of the schema.
    pub rules: Vec<ValidationRule>,
}

/// The types of the JSON schema that the API knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// A structure or a mapping.
    Object,
    /// A list.
    Array,
    /// A text.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
}

impl ValueType {
    /// The type by its name in a schema.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    /// The name of the type in a schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// What an object may have beside its known fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Additional {
    /// The schema is silent.
    #[default]
    Unspecified,
    /// Anything may be there.
    Anything,
    /// Nothing may be there.
    Nothing,
    /// A mapping with values of this schema.
    Values(NodeId),
}

/// How a list is merged and compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType {
    /// As a whole.
    Atomic,
    /// By its values, which are unique.
    Set,
    /// By the values of these fields of its items.
    Map(Vec<String>),
}

/// How a mapping or a structure is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    /// Field by field.
    Granular,
    /// As a whole.
    Atomic,
}

/// How strategic merge patches treat a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Lists are merged by item.
    pub merge: bool,
    /// The value is replaced as a whole, also if it is an object.
    pub replace: bool,
    /// Fields that the patch does not name in `$retainKeys` are removed.
    pub retain_keys: bool,
    /// The field that identifies the items of a merged list; absent for lists of scalars.
    pub merge_key: Option<String>,
}

/// Constraints on a value beyond its type.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    /// The format of a string or a number, if the API checks it.
    pub format: Option<String>,
    /// The allowed values.
    pub allowed: Vec<Value>,
    /// The bound from above.
    pub maximum: Option<f64>,
    /// The bound itself is excluded.
    pub exclusive_maximum: bool,
    /// The bound from below.
    pub minimum: Option<f64>,
    /// The bound itself is excluded.
    pub exclusive_minimum: bool,
    /// Numbers are multiples of this.
    pub multiple_of: Option<f64>,
    /// The length of strings, in characters.
    pub max_length: Option<i64>,
    /// The length of strings, in characters.
    pub min_length: Option<i64>,
    /// The expression that strings match somewhere.
    pub pattern: Option<Pattern>,
    /// The length of lists.
    pub max_items: Option<i64>,
    /// The length of lists.
    pub min_items: Option<i64>,
    /// No item of a list occurs twice.
    pub unique_items: bool,
    /// The number of fields.
    pub max_properties: Option<i64>,
    /// The number of fields.
    pub min_properties: Option<i64>,
    /// The value is valid by all of these.
    pub all_of: Vec<NodeId>,
    /// The value is valid by at least one of these.
    pub any_of: Vec<NodeId>,
    /// The value is valid by exactly one of these.
    pub one_of: Vec<NodeId>,
    /// The value is not valid by this.
    pub not: Option<NodeId>,
}
