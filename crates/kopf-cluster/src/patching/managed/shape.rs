//! What a schema says about merging: which values are scalars, which lists have keys, which
//! objects are taken as a whole.
//!
//! Where a schema is silent the shape is deduced from the value itself: objects are merged field
//! by field, lists are taken as a whole.

use serde_json::Value;

use crate::schema::{Additional, ListType, MapType, Node, NodeId, Schema, ValueType};

use super::path::PathElement;

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

/// A position in an object, and what the schema knows about it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SchemaPosition {
    /// A node of the schema. If open, fields that it does not know are merged as they come.
    Known {
        /// The node.
        id: NodeId,
        /// Some node above keeps unknown fields.
        is_open: bool,
        /// The value is a whole or an embedded object, with its own metadata.
        is_object: bool,
    },
    /// A string, regardless of the schema: apiVersion and kind.
    Text,
    /// No schema: objects are merged, the rest is taken as a whole.
    Deduced,
    /// No schema, and everything is taken as a whole.
    Untyped,
    /// The schema does not allow a value here.
    Forbidden,
}

/// Which sorts of values fit a place, and how they are merged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Atom<'a> {
    /// Scalars fit.
    pub scalar: Option<Scalar>,
    /// Lists fit.
    pub list: Option<List<'a>>,
    /// Objects fit; true if they are taken as a whole.
    pub map: Option<bool>,
}

/// The sorts of scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    /// Any number.
    Numeric,
    /// A text.
    Text,
    /// True or false.
    Boolean,
    /// Any scalar.
    Any,
}

/// How a list is merged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum List<'a> {
    /// As a whole.
    Atomic,
    /// By the values of its items.
    Set,
    /// By the keys of its items.
    Keyed(&'a [String]),
}

/// The sort of a value that applies to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// An object.
    Map,
    /// A scalar.
    Scalar,
    /// A list.
    List,
}

impl Atom<'_> {
    /// The sort of the value, if it fits; else the sort that the place prefers.
    pub(super) fn sort_of(&self, value: Option<&Value>) -> Option<Sort> {
        let fitting = match value {
            Some(Value::Object(_)) => self.map.map(|_| Sort::Map),
            Some(Value::Array(_)) => self.list.map(|_| Sort::List),
            Some(Value::Null) | None => None,
            Some(_) => self.scalar.map(|_| Sort::Scalar),
        };
        let preferred = match self {
            Atom { map: Some(_), .. } => Some(Sort::Map),
            Atom { scalar: Some(_), .. } => Some(Sort::Scalar),
            Atom { list: Some(_), .. } => Some(Sort::List),
            _ => None,
        };
        fitting.or(preferred)
    }
}

/// The shape of a whole kind.
pub(super) struct Shape<'a> {
    schema: &'a Schema,
}

impl<'a> Shape<'a> {
    /// The shape of a schema.
    pub(super) fn new(schema: &'a Schema) -> Self {
        Self { schema }
    }

    /// Where objects start.
    pub(super) fn root(&self) -> SchemaPosition {
        let id = self.schema.root_id();
        let node = self.schema.node(id);
        let is_custom = node.definition.is_none();
        match is_custom && node.value_type.is_none() && node.properties.is_empty() {
            true => SchemaPosition::Deduced,
            false => SchemaPosition::Known { id, is_open: node.preserve_unknown_fields, is_object: is_custom },
        }
    }

    /// What fits a place.
    pub(super) fn atom(&self, position: SchemaPosition) -> Atom<'a> {
        match position {
            SchemaPosition::Text => Atom { scalar: Some(Scalar::Text), ..Atom::default() },
            SchemaPosition::Deduced => Atom { scalar: Some(Scalar::Any), list: Some(List::Atomic), map: Some(false) },
            SchemaPosition::Untyped => Atom { scalar: Some(Scalar::Any), list: Some(List::Atomic), map: Some(true) },
            SchemaPosition::Forbidden => Atom::default(),
            SchemaPosition::Known { id, .. } => atom_of(self.schema.node(id)),
        }
    }

    /// The place of a field, and whether it is a field that the schema names.
    pub(super) fn field(&self, position: SchemaPosition, name: &str) -> (SchemaPosition, bool) {
        let SchemaPosition::Known { id, is_open, is_object } = position else {
            return (
                if position == SchemaPosition::Deduced { SchemaPosition::Deduced } else { SchemaPosition::Untyped },
                false,
            );
        };
        let node = self.schema.node(id);
        match (is_object, name, self.schema.metadata_id()) {
            (true, "apiVersion" | "kind", _) => return (SchemaPosition::Text, true),
            (true, "metadata", Some(id)) => {
                return (SchemaPosition::Known { id, is_open: false, is_object: false }, true);
            }
            (true, "metadata", None) => return (SchemaPosition::Deduced, true),
            _ => {}
        }
        if node.definition.as_deref() == Some(RAW_EXTENSION) {
            return (SchemaPosition::Untyped, false);
        }
        match (node.properties.get(name), node.additional) {
            (Some(property), _) => (self.below(*property, is_open), true),
            (None, Additional::Values(values)) => (self.below(values, is_open), false),
            (None, Additional::Anything) => (SchemaPosition::Deduced, false),
            (None, Additional::Unspecified) if is_open || node.properties.is_empty() => {
                (SchemaPosition::Deduced, false)
            }
            (None, Additional::Unspecified | Additional::Nothing) => (SchemaPosition::Forbidden, false),
        }
    }

    /// The place of the items of a list.
    pub(super) fn item(&self, position: SchemaPosition) -> SchemaPosition {
        match position {
            SchemaPosition::Known { id, is_open, .. } => {
                self.schema.node(id).items.map_or(SchemaPosition::Untyped, |items| self.below(items, is_open))
            }
            _ => SchemaPosition::Untyped,
        }
    }

    /// A child of a node: openness is inherited, except by named definitions.
    fn below(&self, id: NodeId, is_open: bool) -> SchemaPosition {
        let node = self.schema.node(id);
        let inherits = is_open && node.definition.is_none();
        SchemaPosition::Known {
            id,
            is_open: inherits || node.preserve_unknown_fields,
            is_object: node.embedded_resource,
        }
    }

    /// The key of a list item.
    pub(super) fn element(
        &self,
        position: SchemaPosition,
        list: &List<'_>,
        item: &Value,
    ) -> Result<PathElement, String> {
        match list {
            List::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            List::Set => match item {
                Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
                scalar => Ok(PathElement::Value(scalar.clone())),
            },
            List::Keyed(keys) => match item {
                Value::Null => Err("associative list with keys may not have a null element".to_owned()),
                Value::Object(fields) => {
                    let items = self.item(position);
                    let value_of = |key: &String| fields.get(key).cloned().or_else(|| self.default_of(items, key));
                    let mut values: Vec<(String, Value)> =
                        keys.iter().filter_map(|key| Some((key.clone(), value_of(key)?))).collect();
                    if values.is_empty() {
                        let quoted: Vec<String> = keys.iter().map(|key| crate::go::go_quote(key)).collect();
                        return Err(format!(
                            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                            quoted.join(" ")
                        ));
                    }
                    values.sort_by(|left, right| left.0.cmp(&right.0));
                    Ok(PathElement::Key(values))
                }
                _ => Err("associative list with keys may not have non-map elements".to_owned()),
            },
        }
    }

    fn default_of(&self, items: SchemaPosition, key: &str) -> Option<Value> {
        match self.field(items, key) {
            (SchemaPosition::Known { id, .. }, true) => self.schema.node(id).default.clone(),
            _ => None,
        }
    }
}

fn atom_of(node: &Node) -> Atom<'_> {
    match node.definition.as_deref() {
        Some(QUANTITY) => return Atom { scalar: Some(Scalar::Any), ..Atom::default() },
        Some(RAW_EXTENSION) => return Atom { scalar: Some(Scalar::Any), list: Some(List::Atomic), map: Some(true) },
        _ => {}
    }
    let is_atomic = node.map_type == Some(MapType::Atomic);
    let value_type = node.value_type.filter(|_| !node.int_or_string);
    match value_type {
        None => Atom { scalar: Some(Scalar::Any), list: Some(list_of(node)), map: Some(is_atomic) },
        Some(ValueType::Object) => Atom { map: Some(is_atomic), ..Atom::default() },
        Some(ValueType::Array) => Atom { list: Some(list_of(node)), ..Atom::default() },
        Some(ValueType::Integer | ValueType::Number) => Atom { scalar: Some(Scalar::Numeric), ..Atom::default() },
        Some(ValueType::Boolean) => Atom { scalar: Some(Scalar::Boolean), ..Atom::default() },
        Some(ValueType::String) => {
            let is_plain = node.format.as_deref().is_none_or(|format| format == "byte");
            let scalar = if is_plain { Scalar::Text } else { Scalar::Any };
            Atom { scalar: Some(scalar), ..Atom::default() }
        }
    }
}

fn list_of(node: &Node) -> List<'_> {
    match &node.list_type {
        Some(ListType::Atomic) => List::Atomic,
        Some(ListType::Set) => List::Set,
        Some(ListType::Map(keys)) => List::Keyed(keys),
        None if node.patch_strategy.merge => match &node.patch_strategy.merge_key {
            Some(key) => List::Keyed(std::slice::from_ref(key)),
            None => List::Set,
        },
        None => List::Atomic,
    }
}
