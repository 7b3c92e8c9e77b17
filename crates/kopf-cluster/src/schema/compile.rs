//! From published schemas to nodes: OpenAPI definitions and the schemas of CRDs alike.
//!
//! A definition may refer to others, and a field may wrap such a reference to add its own
//! default or merge strategy (`{default: {}, allOf: [{$ref: …}]}`). References become node
//! numbers; wrapped ones become copies of the target with the additions laid over it.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::SchemaError;
use super::node::{Additional, Checks, ListType, MapType, Node, NodeId, PatchStrategy, ValueType};
use super::pattern::Pattern;
use super::validation_rule::ValidationRule;

/// The nesting limit of schemas, which protects the stack.
const MAX_DEPTH: usize = 200;

/// Compiles a schema without references. Its root is the first node.
pub(super) fn compile(schema: &Value) -> Result<Vec<Node>, SchemaError> {
    let definitions = Map::new();
    let mut compiler = Compiler::new(Vec::new(), &definitions);
    compiler.add(schema, 0)?;
    compiler.finish()
}

/// Compiles a definition and all those that it reaches. Its root is the first of the added nodes.
pub(super) fn append(nodes: &mut Vec<Node>, name: &str, definitions: &Map<String, Value>) -> Result<(), SchemaError> {
    let first = nodes.len();
    let mut compiler = Compiler::new(std::mem::take(nodes), definitions);
    compiler.refer(name)?;
    *nodes = compiler.finish()?;
    nodes.iter_mut().skip(first).filter(|node| is_free_form(node)).for_each(|node| node.preserve_unknown_fields = true);
    Ok(())
}

/// Definitions without fields hold any value, such as raw objects.
fn is_free_form(node: &Node) -> bool {
    let may_have_fields = matches!(node.value_type, None | Some(ValueType::Object));
    may_have_fields && node.checks.is_none() && node.properties.is_empty() && node.additional == Additional::Unspecified
}

struct Compiler<'a> {
    /// The definitions that references name.
    definitions: &'a Map<String, Value>,
    /// The nodes so far; those of waiting definitions are still empty.
    nodes: Vec<Node>,
    /// The nodes of the definitions that were referred to.
    known: HashMap<String, NodeId>,
    /// The definitions still to be compiled.
    waiting: Vec<(String, NodeId)>,
    /// Nodes that extend another node.
    overlays: Vec<(NodeId, NodeId)>,
}

impl<'a> Compiler<'a> {
    fn new(nodes: Vec<Node>, definitions: &'a Map<String, Value>) -> Self {
        Self { definitions, nodes, known: HashMap::new(), waiting: Vec::new(), overlays: Vec::new() }
    }

    /// Compiles the definitions that are still waiting, and those that these refer to.
    fn finish(mut self) -> Result<Vec<Node>, SchemaError> {
        while let Some((name, id)) = self.waiting.pop() {
            let schema = self.definitions.get(&name).ok_or_else(|| SchemaError::UnknownReference(name.clone()))?;
            let mut node = self.node(schema, id, 0)?;
            node.definition = Some(Arc::from(name));
            self.put(id, node);
        }
        self.lay_over()?;
        Ok(self.nodes)
    }

    /// The number of the node for a schema, which may be a plain reference.
    fn add(&mut self, schema: &Value, depth: usize) -> Result<NodeId, SchemaError> {
        if depth > MAX_DEPTH {
            return Err(SchemaError::TooDeep);
        }
        if let (Some(reference), true) = (schema.get("$ref").and_then(Value::as_str), is_bare(schema)) {
            return self.refer(reference);
        }
        let id = self.reserve();
        let node = self.node(schema, id, depth)?;
        self.put(id, node);
        Ok(id)
    }

    fn reserve(&mut self) -> NodeId {
        self.nodes.push(Node::default());
        (self.nodes.len() - 1) as NodeId
    }

    fn put(&mut self, id: NodeId, node: Node) {
        if let Some(place) = self.nodes.get_mut(id as usize) {
            *place = node;
        }
    }

    /// The node of a definition, which is compiled later if it is new.
    fn refer(&mut self, reference: &str) -> Result<NodeId, SchemaError> {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        if let Some(id) = self.known.get(name) {
            return Ok(*id);
        }
        if !self.definitions.contains_key(name) {
            return Err(SchemaError::UnknownReference(name.to_owned()));
        }
        let id = self.reserve();
        self.known.insert(name.to_owned(), id);
        self.waiting.push((name.to_owned(), id));
        Ok(id)
    }

    fn node(&mut self, schema: &Value, id: NodeId, depth: usize) -> Result<Node, SchemaError> {
        let Some(fields) = schema.as_object() else {
            return match schema {
                Value::Bool(true) => Ok(Node::default()),
                _ => Err(SchemaError::NotASchema),
            };
        };
        let mut node = plain_parts(fields);
        let mut checks = checks(fields, &node);
        for (name, property) in object(fields, "properties") {
            let id = self.add(property, depth + 1)?;
            node.properties.insert(name.clone(), id);
        }
        node.additional = match fields.get("additionalProperties") {
            None | Some(Value::Null) => Additional::Unspecified,
            Some(Value::Bool(true)) => Additional::Anything,
            Some(Value::Bool(false)) => Additional::Nothing,
            Some(values) => Additional::Values(self.add(values, depth + 1)?),
        };
        if let Some(items) = fields.get("items").filter(|items| items.is_object()) {
            node.items = Some(self.add(items, depth + 1)?);
        }
        if let Some(reference) = wrapped_reference(fields) {
            let target = self.refer(reference)?;
            self.overlays.push((id, target));
        } else {
            checks.all_of = self.add_all(fields, "allOf", depth)?;
        }
        checks.any_of = self.add_all(fields, "anyOf", depth)?;
        checks.one_of = self.add_all(fields, "oneOf", depth)?;
        if let Some(not) = fields.get("not").filter(|not| not.is_object()) {
            checks.not = Some(self.add(not, depth + 1)?);
        }
        if has_checks(&checks) {
            node.checks = Some(Box::new(checks));
        }
        Ok(node)
    }

    fn add_all(&mut self, fields: &Map<String, Value>, name: &str, depth: usize) -> Result<Vec<NodeId>, SchemaError> {
        let schemas = fields.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        schemas.iter().map(|schema| self.add(schema, depth + 1)).collect()
    }

    /// Makes the wrapped references whole: the target's node with the wrapper's additions.
    fn lay_over(&mut self) -> Result<(), SchemaError> {
        let targets: HashMap<NodeId, NodeId> = self.overlays.iter().copied().collect();
        for (id, first) in std::mem::take(&mut self.overlays) {
            let mut target = first;
            let mut steps = 0;
            while let Some(next) = targets.get(&target) {
                target = *next;
                steps += 1;
                if steps > MAX_DEPTH {
                    return Err(SchemaError::TooDeep);
                }
            }
            let (Some(wrapper), Some(whole)) = (self.nodes.get(id as usize), self.nodes.get(target as usize)) else {
                continue;
            };
            let mut node = whole.clone();
            node.nullable |= wrapper.nullable;
            node.default = wrapper.default.clone().or(node.default);
            node.list_type = wrapper.list_type.clone().or(node.list_type);
            node.map_type = wrapper.map_type.or(node.map_type);
            if wrapper.patch_strategy != PatchStrategy::default() {
                node.patch_strategy = wrapper.patch_strategy.clone();
            }
            if node.definition.is_none() {
                node.definition = wrapper.definition.clone();
            }
            self.put(id, node);
        }
        Ok(())
    }
}

/// A reference with nothing beside it but words.
fn is_bare(schema: &Value) -> bool {
    schema.as_object().is_some_and(|fields| fields.keys().all(|name| name == "$ref" || name == "description"))
}

/// The reference inside `$ref` or `allOf: [{$ref}]`, where nothing else is wrapped.
fn wrapped_reference(fields: &Map<String, Value>) -> Option<&str> {
    let direct = fields.get("$ref").and_then(Value::as_str);
    direct.or_else(|| match fields.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) => only.get("$ref").and_then(Value::as_str),
        _ => None,
    })
}

/// The parts of a node that refer to no other node.
fn plain_parts(fields: &Map<String, Value>) -> Node {
    let list_type = match text(fields, "x-kubernetes-list-type") {
        Some("atomic") => Some(ListType::Atomic),
        Some("set") => Some(ListType::Set),
        Some("map") => Some(ListType::Map(texts(fields, "x-kubernetes-list-map-keys"))),
        _ => None,
    };
    let map_type = match text(fields, "x-kubernetes-map-type") {
        Some("atomic") => Some(MapType::Atomic),
        Some("granular") => Some(MapType::Granular),
        _ => None,
    };
    let strategies = text(fields, "x-kubernetes-patch-strategy").unwrap_or_default();
    let has_strategy = |name: &str| strategies.split(',').any(|strategy| strategy == name);
    let rules = fields.get("x-kubernetes-validations").and_then(Value::as_array);
    let format = text(fields, "format");
    Node {
        definition: None,
        value_type: text(fields, "type").and_then(ValueType::parse),
        format: format.map(Arc::from),
        nullable: flag(fields, "nullable"),
        int_or_string: flag(fields, "x-kubernetes-int-or-string") || format == Some("int-or-string"),
        preserve_unknown_fields: flag(fields, "x-kubernetes-preserve-unknown-fields"),
        embedded_resource: flag(fields, "x-kubernetes-embedded-resource"),
        required: texts(fields, "required"),
        default: fields.get("default").filter(|default| !default.is_null()).cloned(),
        list_type,
        map_type,
        patch_strategy: PatchStrategy {
            merge: has_strategy("merge"),
            replace: has_strategy("replace"),
            retain_keys: has_strategy("retainKeys"),
            merge_key: text(fields, "x-kubernetes-patch-merge-key").map(str::to_owned),
        },
        rules: rules.into_iter().flatten().filter_map(ValidationRule::parse).collect(),
        ..Node::default()
    }
}

fn checks(fields: &Map<String, Value>, node: &Node) -> Checks {
    let integer = |name: &str| fields.get(name).and_then(Value::as_i64);
    let float = |name: &str| fields.get(name).and_then(Value::as_f64);
    Checks {
        format: text(fields, "format").filter(|format| is_checked_format(node, format)).map(str::to_owned),
        allowed: fields.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
        maximum: float("maximum"),
        exclusive_maximum: flag(fields, "exclusiveMaximum"),
        minimum: float("minimum"),
        exclusive_minimum: flag(fields, "exclusiveMinimum"),
        multiple_of: float("multipleOf"),
        max_length: integer("maxLength"),
        min_length: integer("minLength"),
        pattern: text(fields, "pattern").filter(|pattern| !pattern.is_empty()).map(Pattern::new),
        max_items: integer("maxItems"),
        min_items: integer("minItems"),
        unique_items: flag(fields, "uniqueItems"),
        max_properties: integer("maxProperties"),
        min_properties: integer("minProperties"),
        ..Checks::default()
    }
}

/// The formats that the API checks; it ignores all others, as if they were not written.
fn is_checked_format(node: &Node, format: &str) -> bool {
    if node.int_or_string {
        return false;
    }
    match node.value_type {
        Some(ValueType::Integer) => matches!(format, "int32" | "int64"),
        Some(ValueType::Number) => matches!(format, "float" | "double"),
        None | Some(ValueType::String) => super::formats::is_known(format),
        Some(ValueType::Object | ValueType::Array | ValueType::Boolean) => false,
    }
}

fn has_checks(checks: &Checks) -> bool {
    let Checks {
        format,
        allowed,
        maximum,
        minimum,
        multiple_of,
        max_length,
        min_length,
        pattern,
        max_items,
        min_items,
        unique_items,
        max_properties,
        min_properties,
        all_of,
        any_of,
        one_of,
        not,
        ..
    } = checks;
    let numbers = maximum.is_some() || minimum.is_some() || multiple_of.is_some();
    let sizes = [max_length, min_length, max_items, min_items, max_properties, min_properties];
    let nested = !(all_of.is_empty() && any_of.is_empty() && one_of.is_empty()) || not.is_some();
    numbers
        || nested
        || *unique_items
        || format.is_some()
        || pattern.is_some()
        || !allowed.is_empty()
        || sizes.iter().any(|size| size.is_some())
}

fn object<'a>(fields: &'a Map<String, Value>, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    fields.get(name).and_then(Value::as_object).into_iter().flatten()
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    fields.get(name).and_then(Value::as_str)
}

fn texts(fields: &Map<String, Value>, name: &str) -> Vec<String> {
    let values = fields.get(name).and_then(Value::as_array).into_iter().flatten();
    values.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn flag(fields: &Map<String, Value>, name: &str) -> bool {
    fields.get(name).and_then(Value::as_bool).unwrap_or_default()
}
