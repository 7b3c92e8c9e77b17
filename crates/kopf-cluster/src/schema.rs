//! Schemas: what an object of a kind looks like, for built-in kinds and custom ones alike.
//!
//! The API front compiles a [`Schema`] per kind and version, once, and then prunes, defaults and
//! validates every object that is written. Patches and server-side apply walk the same schema.
//!
//! ```text
//! request -> duplicate_fields(raw) -> unknown_fields -> prune -> default -> validate -> store
//! ```

mod pattern;
mod validation_rule;
mod node;
mod compile;
mod prune;
mod defaulting;
mod formats;
mod validate;
mod definition;
mod decoding;
mod duplicates;
#[cfg(test)]
mod observed;
#[cfg(test)]
mod properties;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::go::FieldError;

pub(crate) use decoding::first_bad_base64;
pub(crate) use definition::check_definition;
pub(crate) use duplicates::duplicate_fields;
pub(crate) use node::{Additional, ListType, MapType, Node, NodeId, PatchStrategy, ValueType};

/// The definition of the metadata that all objects have.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// A compiled schema. Copies are cheap and share everything.
#[derive(Clone, Debug)]
pub struct Schema {
    /// All nodes that the root reaches.
    nodes: Arc<Vec<Node>>,
    /// Where objects of the kind start.
    root: NodeId,
    /// Where the metadata of objects and of embedded objects starts, if it is known.
    metadata: Option<NodeId>,
    /// There are rules in CEL somewhere.
    has_rules: bool,
}

/// Why a schema cannot be compiled.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SchemaError {
    /// A reference names a definition that is not there.
    #[error("unknown definition {0:?}")]
    UnknownReference(String),
    /// Something that is not an object stands where a schema should be.
    #[error("a schema must be an object")]
    NotASchema,
    /// The nesting goes on and on.
    #[error("the schema is nested too deeply")]
    TooDeep,
}

/// Whether there is any null in a value.
fn has_nulls(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_nulls),
        Value::Object(fields) => fields.values().any(has_nulls),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

impl Schema {
    /// The schema of a custom resource: the `openAPIV3Schema` of a version of a CRD.
    ///
    /// The definitions are those of any published OpenAPI document; only that of the metadata is
    /// taken from there. Without it, metadata is left alone.
    pub fn of_custom_resource(schema: &Value, definitions: &Map<String, Value>) -> Result<Self, SchemaError> {
        let mut nodes = compile::compile(schema)?;
        let metadata = definitions.contains_key(OBJECT_META).then_some(nodes.len() as NodeId);
        if metadata.is_some() {
            compile::append(&mut nodes, OBJECT_META, definitions)?;
        }
        Ok(Self::of_nodes(nodes, metadata))
    }

    /// The schema of a definition of an OpenAPI document: `components.schemas` of v3, or the
    /// `definitions` of v2.
    pub fn of_definition(name: &str, definitions: &Map<String, Value>) -> Result<Self, SchemaError> {
        let mut nodes = Vec::new();
        compile::append(&mut nodes, name, definitions)?;
        Ok(Self::of_nodes(nodes, None))
    }

    /// The name of the definition of a kind, by the group, version and kind that it declares.
    pub fn definition_of_kind<'a>(
        definitions: &'a Map<String, Value>,
        group: &str,
        version: &str,
        kind: &str,
    ) -> Option<&'a str> {
        let is_kind = |declared: &Value| {
            let field = |name: &str| declared.get(name).and_then(Value::as_str).unwrap_or_default();
            field("group") == group && field("version") == version && field("kind") == kind
        };
        let found = definitions.iter().find(|(_, definition)| {
            let kinds = definition.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
            // Shared definitions such as DeleteOptions list many kinds; the definition of a kind lists one.
            kinds.is_some_and(|kinds| kinds.len() == 1 && kinds.iter().any(is_kind))
        });
        found.map(|(name, _)| name.as_str())
    }

    /// A schema that accepts everything and keeps everything.
    pub fn of_anything() -> Self {
        let node = Node { preserve_unknown_fields: true, ..Node::default() };
        Self::of_nodes(vec![node], None)
    }

    /// Removes what the schema does not know: fields, and nulls where null is no value.
    /// Returns the paths of the removed fields, as [`Schema::unknown_fields`] does.
    pub fn prune(&self, value: &mut Value) -> Vec<String> {
        let unknown = prune::prune(self, value);
        if has_nulls(value) {
            defaulting::drop_nulls(self, value);
        }
        unknown
    }

    /// Fills in the defaults.
    pub fn default(&self, value: &mut Value) {
        defaulting::default(self, value);
    }

    /// The paths of fields that the schema does not know, in the order of the server's warnings.
    pub fn unknown_fields(&self, value: &Value) -> Vec<String> {
        prune::unknown_fields(self, value)
    }

    /// The same for a value that is not a whole object.
    fn unknown_parts(&self, value: &Value) -> Vec<String> {
        prune::unknown_parts(self, value)
    }

    /// Why an object cannot be decoded as the built-in kind that this schema is of, if so. The
    /// server says it after "… cannot be handled as a …: ".
    pub fn decoding_error(&self, value: &Value) -> Option<String> {
        decoding::decoding_error(self, value)
    }

    /// Everything that is wrong with an object. With its stored state at hand, what was wrong
    /// before and did not change is tolerated.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        validate::validate(self, new, old, validate::ValidationScope::Whole)
    }

    /// The same for a write to the status alone: the rest of the object is not looked at.
    pub fn validate_status(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        validate::validate(self, new, old, validate::ValidationScope::Status)
    }

    /// Whether there are rules in CEL anywhere in the schema.
    pub fn has_rules(&self) -> bool {
        self.has_rules
    }

    /// The first node is the root.
    fn of_nodes(nodes: Vec<Node>, metadata: Option<NodeId>) -> Self {
        let has_rules = nodes.iter().any(|node| !node.rules.is_empty());
        Self { nodes: Arc::new(nodes), root: 0, metadata, has_rules }
    }

    /// Where objects of the kind start.
    pub fn root_id(&self) -> NodeId {
        self.root
    }

    /// Where the metadata of objects starts, if it is known apart from the schema itself.
    pub fn metadata_id(&self) -> Option<NodeId> {
        self.metadata
    }

    /// The node of a field, known by its name or as a value of a mapping.
    pub fn field(&self, node: &Node, name: &str) -> Option<NodeId> {
        defaulting::field_node(node, name)
    }

    /// The node with this number; one that knows nothing if there is none.
    pub fn node(&self, id: NodeId) -> &Node {
        static NOTHING: std::sync::LazyLock<Node> = std::sync::LazyLock::new(Node::default);
        self.nodes.get(id as usize).unwrap_or(&NOTHING)
    }
}
