//! Values as the rules in CEL see them: typed by the schema, and only what the schema knows.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, Program, Value as CelValue};
use serde_json::Value;

use crate::schema::Schema;
use crate::schema::defaulting::field_node;
use crate::schema::node::{Additional, Node, NodeId, ValueType};

/// Reserved words, which need escaping as names in expressions.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Converts a value; of whole objects, only the type and the name are seen beside the schema.
pub(super) fn convert(
    schema: &Schema,
    functions: &Context<'_>,
    id: Option<NodeId>,
    value: &Value,
    is_object: bool,
) -> CelValue {
    let node = id.map(|id| schema.node(id));
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(flag) => CelValue::Bool(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(integer) if node.is_none_or(|node| node.value_type != Some(ValueType::Number)) => {
                CelValue::Int(integer)
            }
            _ => CelValue::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => convert_text(functions, node, text),
        Value::Array(items) => {
            let below = node.and_then(|node| node.items);
            let is_embedded = below.is_some_and(|id| schema.node(id).embedded_resource);
            let converted = items.iter().map(|item| convert(schema, functions, below, item, is_embedded));
            CelValue::List(Arc::new(converted.collect()))
        }
        Value::Object(fields) => {
            let is_mapping =
                node.is_none_or(|node| !matches!(node.additional, Additional::Unspecified | Additional::Nothing));
            let mut converted = HashMap::with_capacity(fields.len());
            for (name, field) in fields {
                let below = node.and_then(|node| field_node(node, name));
                let is_meta = is_object && matches!(name.as_str(), "apiVersion" | "kind" | "metadata");
                let seen = match (is_meta, below) {
                    (true, _) if name == "metadata" => names_of(field),
                    (true, _) => convert(schema, functions, None, field, false),
                    (false, Some(below)) => {
                        convert(schema, functions, Some(below), field, schema.node(below).embedded_resource)
                    }
                    (false, None) if is_mapping => convert(schema, functions, None, field, false),
                    (false, None) => continue,
                };
                let key = if is_mapping { name.clone() } else { escaped(name) };
                converted.insert(Key::String(Arc::new(key)), seen);
            }
            CelValue::Map(Map { map: Arc::new(converted) })
        }
    }
}

fn names_of(metadata: &Value) -> CelValue {
    let names = ["name", "generateName"].into_iter().filter_map(|name| {
        let text = metadata.get(name)?.as_str()?.to_owned();
        Some((Key::String(Arc::new(name.to_owned())), CelValue::String(Arc::new(text))))
    });
    CelValue::Map(Map { map: Arc::new(names.collect()) })
}

/// Texts with a format are values of their own. The language itself knows how to read them.
fn convert_text(functions: &Context<'_>, node: Option<&Node>, text: &str) -> CelValue {
    let plain = CelValue::String(Arc::new(text.to_owned()));
    let format = node.filter(|node| !node.int_or_string).and_then(|node| node.format.as_deref());
    let reader = match format {
        Some("date-time") => "timestamp(text)",
        Some("date") => "timestamp(text + 'T00:00:00Z')",
        Some("duration") => "duration(text)",
        Some("byte") => "base64.decode(text)",
        _ => return plain,
    };
    let Ok(program) = Program::compile(reader) else { return plain };
    let mut context = functions.new_inner_scope();
    context.add_variable_from_value("text", plain.clone());
    program.execute(&context).unwrap_or(plain)
}

/// The name of a field in expressions.
fn escaped(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    name.replace("__", "__underscores__").replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__")
}
