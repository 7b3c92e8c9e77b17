//! Strategic merge patches: merge patches that know how lists of built-in kinds are merged.
//!
//! The schema says which lists are merged by which key; directives inside of the patch
//! (`$patch`, `$setElementOrder`, `$deleteFromPrimitiveList`, `$retainKeys`) override it.
//! `kubectl apply`, `kubectl edit` and `kubectl label` send such patches for built-in kinds.

use serde_json::{Map, Value};

use crate::go::{go_plain, go_quote};
use crate::schema::{NodeId, PatchStrategy, Schema};

use super::elements;

pub(super) const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";

/// Why a strategic merge patch cannot be applied. The texts are those of the server.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum StrategicPatchError {
    /// A `$deleteFromPrimitiveList` names no field.
    #[error("invalid patch format of primitive list")]
    BadPrimitiveList,
    /// A `$retainKeys` is no list, or the patch sets more than it retains.
    #[error("invalid patch format of retainKeys")]
    BadRetainKeys,
    /// A `$setElementOrder` names no field.
    #[error("invalid patch format of setElementOrder list")]
    BadSetElementOrder,
    /// Lists inside of merged lists. The server keeps the reason for itself.
    #[error("the server rejected our request due to an error in our request")]
    ListOfLists,
    /// Anything else, in the words of the server.
    #[error("{0}")]
    Other(String),
}

impl StrategicPatchError {
    /// The HTTP status that the server answers with.
    pub(crate) fn status_code(&self) -> u16 {
        match self {
            Self::BadPrimitiveList | Self::BadRetainKeys | Self::BadSetElementOrder => 400,
            Self::ListOfLists => 422,
            Self::Other(_) => 500,
        }
    }

    pub(super) fn no_merge_key(item: &Value, key: &str) -> Self {
        Self::Other(format!("map: {} does not contain declared merge key: {key}", go_plain(item)))
    }

    pub(super) fn wrong_type(expected: &str, actual: &Value) -> Self {
        Self::Other(format!("expected a {expected}, but received a {}", go_type(actual)))
    }
}

/// Applies a patch to an object of a built-in kind and returns the result.
pub(crate) fn apply_strategic(schema: &Schema, original: &Value, patch: &Value) -> Result<Value, StrategicPatchError> {
    let (Value::Object(original), Value::Object(patch)) = (original, patch) else {
        return Err(StrategicPatchError::wrong_type("map[string]interface {}", patch));
    };
    let merge = Merge { schema };
    Ok(Value::Object(merge.maps(original.clone(), patch.clone(), Some(schema.root_id()))?))
}

/// The schema of a field of the patched object.
struct PatchedField<'a> {
    node: Option<NodeId>,
    /// The items of the list, if it is one.
    items: Option<NodeId>,
    strategy: &'a PatchStrategy,
}

pub(super) struct Merge<'a> {
    schema: &'a Schema,
}

impl Merge<'_> {
    /// Merges a patch into an object; `node` is absent below fields that the schema leaves open.
    pub(super) fn maps(
        &self,
        mut original: Map<String, Value>,
        mut patch: Map<String, Value>,
        node: Option<NodeId>,
    ) -> Result<Map<String, Value>, StrategicPatchError> {
        if let Some(directive) = patch.get(PATCH) {
            return match directive.as_str() {
                Some("replace") => {
                    patch.shift_remove(PATCH);
                    Ok(patch)
                }
                Some("delete") => Ok(Map::new()),
                _ => Err(unknown_directive(directive, &patch)),
            };
        }
        retain_keys(&mut original, &mut patch)?;
        self.ordered_lists(&mut original, &mut patch, node)?;
        for (name, value) in patch {
            let deleted_from = match name.starts_with(DELETE_FROM_PRIMITIVE_LIST) {
                true => Some(
                    directed_field(&name, DELETE_FROM_PRIMITIVE_LIST).ok_or(StrategicPatchError::BadPrimitiveList)?,
                ),
                false => None,
            };
            let is_deletion = deleted_from.is_some();
            let name = deleted_from.unwrap_or(name);
            if value.is_null() {
                original.shift_remove(&name);
                continue;
            }
            let merged = match (original.get_mut(&name).map(Value::take), value) {
                (Some(Value::Object(old)), Value::Object(new)) => {
                    let field = self.field(node, &name)?;
                    match field.strategy.replace {
                        true => Some(Value::Object(new)),
                        false => Some(Value::Object(self.maps(old, new, field.node)?)),
                    }
                }
                (Some(Value::Array(old)), Value::Array(new)) => {
                    let field = self.field(node, &name)?;
                    Some(Value::Array(self.lists(old, new, &field, is_deletion)?))
                }
                (Some(old), new) if std::mem::discriminant(&old) == std::mem::discriminant(&new) => {
                    without_directives(new)
                }
                (Some(old), _) if is_deletion => Some(old),
                (None, _) if is_deletion => continue,
                (_, new) => without_directives(without_nulls(new)),
            };
            match merged {
                Some(merged) => drop(original.insert(name, merged)),
                None => drop(original.shift_remove(&name)),
            }
        }
        Ok(original)
    }

    /// The schema of a merged field; it must exist.
    fn field(&self, node: Option<NodeId>, name: &str) -> Result<PatchedField<'_>, StrategicPatchError> {
        static NO_STRATEGY: PatchStrategy =
            PatchStrategy { merge: false, replace: false, retain_keys: false, merge_key: None };
        let Some(parent) = node.map(|id| self.schema.node(id)) else {
            return Ok(PatchedField { node: None, items: None, strategy: &NO_STRATEGY });
        };
        match self.schema.field(parent, name) {
            Some(id) => {
                let field = self.schema.node(id);
                Ok(PatchedField { node: Some(id), items: field.items, strategy: &field.patch_strategy })
            }
            None if parent.properties.is_empty() => {
                Ok(PatchedField { node: None, items: None, strategy: &NO_STRATEGY })
            }
            None => {
                let definition = parent.definition.as_deref().unwrap_or_default();
                let structure = definition.rsplit('.').next().unwrap_or_default();
                Err(StrategicPatchError::Other(format!(
                    "unable to find api field in struct {structure} for the json field {}",
                    go_quote(name)
                )))
            }
        }
    }

    fn lists(
        &self,
        original: Vec<Value>,
        patch: Vec<Value>,
        field: &PatchedField<'_>,
        is_deletion: bool,
    ) -> Result<Vec<Value>, StrategicPatchError> {
        if !field.strategy.merge && !is_deletion {
            return Ok(patch);
        }
        if original.is_empty() && patch.is_empty() {
            return Ok(original);
        }
        let merge_key = field.strategy.merge_key.as_deref().unwrap_or_default();
        if !elements::are_maps(&original, &patch)? {
            if is_deletion {
                return Ok(original.into_iter().filter(|item| !patch.contains(item)).collect());
            }
            let merged = elements::without_repetitions(original.iter().chain(&patch).cloned().collect());
            return elements::in_order(merged, &patch, &original, "");
        }
        if merge_key.is_empty() {
            let name = field.items.and_then(|id| self.schema.node(id).definition.clone());
            let structure = name.as_deref().and_then(|name| name.rsplit('.').next()).unwrap_or_default().to_owned();
            return Err(StrategicPatchError::Other(format!("cannot merge lists without merge key for {structure}")));
        }
        let (original, patch) = elements::apply_directives(original, patch, merge_key)?;
        let mut merged = original.clone();
        for item in &patch {
            let key = item.get(merge_key).ok_or_else(|| StrategicPatchError::no_merge_key(item, merge_key))?;
            match elements::position_of(&merged, merge_key, key)? {
                Some(position) => {
                    let (Value::Object(old), Value::Object(new)) = (merged[position].take(), item.clone()) else {
                        continue;
                    };
                    merged[position] = Value::Object(self.maps(old, new, field.items)?);
                }
                None => merged.push(item.clone()),
            }
        }
        elements::in_order(merged, &patch, &original, merge_key)
    }

    /// The lists whose order the patch sets. They are merged here, and taken out of the patch.
    fn ordered_lists(
        &self,
        original: &mut Map<String, Value>,
        patch: &mut Map<String, Value>,
        node: Option<NodeId>,
    ) -> Result<(), StrategicPatchError> {
        let directives: Vec<String> =
            patch.keys().filter(|name| name.starts_with(SET_ELEMENT_ORDER)).cloned().collect();
        for directive in directives {
            let order = match patch.shift_remove(&directive) {
                Some(Value::Array(order)) => order,
                other => return Err(StrategicPatchError::wrong_type("[]interface {}", &other.unwrap_or_default())),
            };
            let name = directed_field(&directive, SET_ELEMENT_ORDER).ok_or(StrategicPatchError::BadSetElementOrder)?;
            let old = list_of(original.get(&name))?;
            let new = list_of(patch.get(&name))?;
            let field = self.field(node, &name)?;
            let merge_key = field.strategy.merge_key.as_deref().unwrap_or_default();
            elements::check_order(new.as_deref().unwrap_or_default(), &order, merge_key)?;
            let merged = match (old.clone(), new.clone()) {
                (Some(old), None) => old,
                (None, Some(new)) => match without_directives(Value::Array(new)) {
                    Some(Value::Array(new)) => new,
                    _ => continue,
                },
                (Some(old), Some(new)) => self.lists(old, new, &field, false)?,
                (None, None) => continue,
            };
            let old = old.unwrap_or_default();
            elements::are_maps(&old, new.as_deref().unwrap_or_default())?;
            original.insert(name.clone(), Value::Array(elements::in_order(merged, &order, &old, merge_key)?));
            patch.shift_remove(&name);
        }
        Ok(())
    }
}

/// Drops the fields that a `$retainKeys` does not name.
fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), StrategicPatchError> {
    let Some(retained) = patch.shift_remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(retained) = retained else { return Err(StrategicPatchError::BadRetainKeys) };
    let is_retained = |name: &str| retained.iter().any(|retained| retained.as_str() == Some(name));
    let is_unlisted = |(name, value): (&String, &Value)| {
        let is_directive = name.starts_with(DELETE_FROM_PRIMITIVE_LIST) || name.starts_with(SET_ELEMENT_ORDER);
        !value.is_null() && !is_directive && !is_retained(name)
    };
    if patch.iter().any(is_unlisted) {
        return Err(StrategicPatchError::BadRetainKeys);
    }
    original.retain(|name, _| is_retained(name));
    Ok(())
}

/// The field that a directive such as `$setElementOrder/containers` is about.
fn directed_field(name: &str, directive: &str) -> Option<String> {
    name.strip_prefix(directive)?.strip_prefix('/').map(str::to_owned)
}

fn list_of(value: Option<&Value>) -> Result<Option<Vec<Value>>, StrategicPatchError> {
    match value {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items.clone())),
        Some(other) => Err(StrategicPatchError::wrong_type("[]interface {}", other)),
    }
}

/// A value that is new in the object: directives make no sense there. Absent if it is one itself.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(PATCH) => None,
        Value::Object(fields) => {
            let kept = fields.into_iter().filter_map(|(name, field)| Some((name, without_directives(field)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        scalar => Some(scalar),
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, field)| !field.is_null());
            Value::Object(kept.map(|(name, field)| (name, without_nulls(field))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        scalar => scalar,
    }
}

pub(super) fn unknown_directive(directive: &Value, patch: &Map<String, Value>) -> StrategicPatchError {
    let whole = Value::Object(patch.clone());
    StrategicPatchError::Other(format!("unknown patch type: {} in map: {}", go_plain(directive), go_plain(&whole)))
}

/// The type of a value as the server names it.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.as_i64().is_some() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
