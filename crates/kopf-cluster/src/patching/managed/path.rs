//! The steps of paths in field sets: a field, an item by its keys, by its value or by its index.

use std::cmp::Ordering;

use serde_json::Value;

use crate::go::{go_json, go_quote};

/// One step of a path.
#[derive(Clone, Debug)]
pub(crate) enum PathElement {
    /// A field of a structure or a key of a mapping.
    Field(String),
    /// An item of a list, by the values of its keys, sorted by name.
    Key(Vec<(String, Value)>),
    /// An item of a set, by its value.
    Value(Value),
    /// An item of a list, by its position.
    Index(i64),
}

impl PathElement {
    /// The element as a key of `fieldsV1`: `f:spec`, `k:{"name":"a"}`, `v:"a"`, `i:0`.
    pub(crate) fn serialize(&self) -> String {
        match self {
            // Almost all of them are fields; formatting would take most of the time.
            Self::Field(name) => ["f:", name].concat(),
            Self::Key(keys) => {
                let fields: Vec<String> = keys
                    .iter()
                    .map(|(name, value)| format!("{}:{}", go_json(&name.as_str().into()), go_json(value)))
                    .collect();
                format!("k:{{{}}}", fields.join(","))
            }
            Self::Value(value) => format!("v:{}", go_json(value)),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// The element of a key of `fieldsV1`; absent for kinds of elements of the future.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Self::Field(rest.to_owned())),
            "k" => match serde_json::from_str(rest).ok()? {
                Value::Object(fields) => {
                    let mut keys: Vec<(String, Value)> = fields.into_iter().collect();
                    keys.sort_by(|left, right| left.0.cmp(&right.0));
                    Some(Self::Key(keys))
                }
                _ => None,
            },
            "v" => serde_json::from_str(rest).ok().map(Self::Value),
            "i" => rest.parse().ok().map(Self::Index),
            _ => None,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl std::fmt::Display for PathElement {
    /// The element as in messages: `.spec`, `[name="a"]`, `[="a"]`, `[0]`.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Field(name) => write!(formatter, ".{name}"),
            Self::Key(keys) => {
                let fields: Vec<String> =
                    keys.iter().map(|(name, value)| format!("{name}={}", value_text(value))).collect();
                write!(formatter, "[{}]", fields.join(","))
            }
            Self::Value(value) => write!(formatter, "[={}]", value_text(value)),
            Self::Index(index) => write!(formatter, "[{index}]"),
        }
    }
}

/// A whole path as in messages.
pub(super) fn path_text(path: &[PathElement]) -> String {
    path.iter().map(PathElement::to_string).collect()
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => go_quote(text),
        other => go_json(other),
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => {
                for ((left_name, left_value), (right_name, right_value)) in left.iter().zip(right) {
                    let order = left_name.cmp(right_name).then_with(|| compare_values(left_value, right_value));
                    if order.is_ne() {
                        return order;
                    }
                }
                left.len().cmp(&right.len())
            }
            (Self::Value(left), Self::Value(right)) => compare_values(left, right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

/// The order of values: numbers, texts, booleans, lists, objects, null. Numbers are compared as
/// numbers, whether they are written with a point or not.
pub(super) fn compare_values(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => {
                let (left, right) = (left.as_f64().unwrap_or_default(), right.as_f64().unwrap_or_default());
                left.partial_cmp(&right).unwrap_or(Ordering::Equal)
            }
        },
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let pairs = left.iter().zip(right).map(|(left, right)| compare_values(left, right));
            pairs.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => {
            let sorted = |fields: &serde_json::Map<String, Value>| {
                let mut entries: Vec<(String, Value)> =
                    fields.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
                entries.sort_by(|left, right| left.0.cmp(&right.0));
                entries
            };
            PathElement::Key(sorted(left)).cmp(&PathElement::Key(sorted(right)))
        }
        _ => rank_of(left).cmp(&rank_of(right)),
    }
}

fn rank_of(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}
