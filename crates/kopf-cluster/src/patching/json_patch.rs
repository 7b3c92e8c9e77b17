//! JSON patches (RFC 6902), with the leniency and the errors of the server.
//!
//! The server's library is laxer than the standard: `replace` sets a missing field, indexes may
//! be negative, `test` finds a missing field equal to null. Operators rely on that, knowingly or
//! not, so it is kept.

use serde_json::Value;

use crate::go::text::type_name;

/// The limit of operations.
const MAX_OPERATIONS: usize = 10_000;

/// Copies may add this many bytes to an object, all together: without a limit, each one could double it.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// Why a JSON patch cannot be applied. The texts are those of the server.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum JsonPatchError {
    /// The patch is not a list of operations; 400.
    #[error("error decoding patch: {0}")]
    Malformed(String),
    /// The patch has too many operations; 413.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooLong(usize),
    /// An operation does not fit the object; 422. The server keeps the reason for itself.
    #[error("the server rejected our request due to an error in our request")]
    Inapplicable(String),
}

#[cfg(test)]
impl JsonPatchError {
    /// The HTTP status that the server answers with.
    pub(crate) fn status_code(&self) -> u16 {
        match self {
            Self::Malformed(_) => 400,
            Self::TooLong(_) => 413,
            Self::Inapplicable(_) => 422,
        }
    }
}

/// Applies a JSON patch to an object and returns the result.
pub(crate) fn apply_json_patch(original: &Value, patch: &Value) -> Result<Value, JsonPatchError> {
    let operations = operations_of(patch)?;
    let mut document = original.clone();
    let mut copied_bytes = 0;
    for operation in operations {
        apply(&mut document, operation, &mut copied_bytes).map_err(JsonPatchError::Inapplicable)?;
    }
    Ok(document)
}

fn operations_of(patch: &Value) -> Result<&Vec<Value>, JsonPatchError> {
    let malformed = |found: &Value, expected: &str| {
        let found = type_name(found);
        JsonPatchError::Malformed(format!("json: cannot unmarshal {found} into Go {expected}"))
    };
    let Value::Array(operations) = patch else {
        return Err(malformed(patch, "value of type []handlers.jsonPatchOp"));
    };
    for operation in operations {
        let Value::Object(fields) = operation else {
            if operation.is_null() {
                continue;
            }
            return Err(malformed(operation, "value of type handlers.jsonPatchOp"));
        };
        for name in ["op", "path", "from"] {
            if let Some(value) = fields.get(name).filter(|value| !value.is_string() && !value.is_null()) {
                return Err(malformed(value, &format!("struct field jsonPatchOp.{name} of type string")));
            }
        }
    }
    match operations.len() > MAX_OPERATIONS {
        true => Err(JsonPatchError::TooLong(operations.len())),
        false => Ok(operations),
    }
}

fn apply(document: &mut Value, operation: &Value, copied_bytes: &mut usize) -> Result<(), String> {
    let text = |name: &str| operation.get(name).and_then(Value::as_str);
    let value = operation.get("value").cloned().unwrap_or_default();
    let kind = text("op").unwrap_or("unknown");
    let path = text("path");
    let path_of =
        |kind: &str, reason: &str| path.ok_or_else(|| format!("{kind} operation failed to decode path: {reason}"));
    let from_of = |kind: &str| {
        text("from")
            .ok_or_else(|| format!("{kind} operation failed to decode from: operation, missing from field: {MISSING}"))
    };
    const NO_PATH: &str = "operation missing path field: missing value";
    match kind {
        "add" => {
            let path = path_of(kind, MISSING)?;
            let target = PatchTarget::find(document, path)
                .ok_or_else(|| format!("add operation does not apply: doc is missing path: \"{path}\": {MISSING}"))?;
            target.add(value).map_err(|reason| format!("error in add for path: '{path}': {reason}"))
        }
        "remove" => {
            let path = path_of(kind, MISSING)?;
            let target = PatchTarget::find(document, path).ok_or_else(|| {
                format!("remove operation does not apply: doc is missing path: \"{path}\": {MISSING}")
            })?;
            target.remove().map(drop).map_err(|reason| format!("error in remove for path: '{path}': {reason}"))
        }
        "replace" => {
            let path = path_of(kind, NO_PATH)?;
            if path.is_empty() {
                if !value.is_object() && !value.is_array() {
                    return Err("replace operation value must be object or array: %!w(<nil>)".to_owned());
                }
                *document = value;
                return Ok(());
            }
            let target = PatchTarget::find(document, path)
                .ok_or_else(|| format!("replace operation does not apply: doc is missing path: {path}: {MISSING}"))?;
            target
                .get()
                .map_err(|_| format!("replace operation does not apply: doc is missing key: {path}: {MISSING}"))?;
            target.set(value).map_err(|reason| format!("error in remove for path: '{path}': {reason}"))
        }
        "move" => {
            let from = from_of(kind)?;
            let target = PatchTarget::find(document, from)
                .ok_or_else(|| format!("move operation does not apply: doc is missing from path: {from}: {MISSING}"))?;
            let key = target.key.clone();
            target.get().map_err(|reason| format!("error in move for path: '{key}': {reason}"))?;
            let moved = target.remove().map_err(|reason| format!("error in move for path: '{key}': {reason}"))?;
            let path = path_of(kind, NO_PATH)?;
            let target = PatchTarget::find(document, path).ok_or_else(|| {
                format!("move operation does not apply: doc is missing destination path: {path}: {MISSING}")
            })?;
            target.add(moved).map_err(|reason| format!("error in move for path: '{path}': {reason}"))
        }
        "copy" => {
            let from = from_of(kind)?;
            let target = PatchTarget::find(document, from)
                .ok_or_else(|| format!("copy operation does not apply: doc is missing from path: {from}: {MISSING}"))?;
            let copied = target.get().map_err(|reason| format!("error in copy for from: '{from}': {reason}"))?;
            let copied = copied.cloned().unwrap_or_default();
            *copied_bytes += size(&copied);
            if *copied_bytes > MAX_COPIED_BYTES {
                return Err(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is {copied_bytes}, exceeding \
                     the limit {MAX_COPIED_BYTES}"
                ));
            }
            let path = path_of(kind, MISSING)?;
            let target = PatchTarget::find(document, path).ok_or_else(|| {
                format!("copy operation does not apply: doc is missing destination path: {path}: {MISSING}")
            })?;
            target.add(copied).map_err(|reason| format!("error while adding value during copy: {reason}"))
        }
        "test" => {
            let path = path_of(kind, NO_PATH)?;
            let found = match path.is_empty() {
                true => document.clone(),
                false => {
                    let target = PatchTarget::find(document, path)
                        .ok_or_else(|| format!("test operation does not apply: is missing path: {path}: {MISSING}"))?;
                    let found = target.get().map_err(|reason| format!("error in test for path: '{path}': {reason}"))?;
                    found.cloned().unwrap_or_default()
                }
            };
            match found == value {
                true => Ok(()),
                false => Err(format!("testing value {path} failed: test failed")),
            }
        }
        unknown => Err(format!("Unexpected kind: {unknown}")),
    }
}

/// About how long a value is as JSON.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| size(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + size(value) + 4).sum::<usize>() + 2,
        _ => 5,
    }
}

const MISSING: &str = "missing value";

/// A field or an item that an operation points at, whether it exists or not.
struct PatchTarget<'a> {
    parent: &'a mut Value,
    key: String,
}

impl<'a> PatchTarget<'a> {
    /// Finds the parent of a path; absent if there is none.
    fn find(document: &'a mut Value, path: &str) -> Option<Self> {
        let mut steps: Vec<String> =
            path.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
        let key = steps.pop()?;
        let mut parent = document;
        for step in steps {
            parent = match parent {
                Value::Object(fields) => fields.get_mut(&step)?,
                Value::Array(items) => {
                    let position = position(&step, items.len()).ok()?;
                    items.get_mut(position)?
                }
                _ => return None,
            };
        }
        (parent.is_object() || parent.is_array()).then_some(Self { parent, key })
    }

    /// The value there; absent fields of objects are no error.
    fn get(&self) -> Result<Option<&Value>, String> {
        match &*self.parent {
            Value::Object(fields) => Ok(fields.get(&self.key)),
            Value::Array(items) => {
                let position = position(&self.key, items.len())?;
                items.get(position).map(Some).ok_or_else(|| invalid_index(position as i64))
            }
            _ => Ok(None),
        }
    }

    fn set(self, value: Value) -> Result<(), String> {
        match self.parent {
            Value::Object(fields) => drop(fields.insert(self.key, value)),
            Value::Array(items) => {
                let position = position(&self.key, items.len())?;
                *items.get_mut(position).ok_or_else(|| invalid_index(position as i64))? = value;
            }
            _ => {}
        }
        Ok(())
    }

    fn add(self, value: Value) -> Result<(), String> {
        match self.parent {
            Value::Object(fields) => drop(fields.insert(self.key, value)),
            Value::Array(items) if self.key == "-" => items.push(value),
            Value::Array(items) => {
                let parsed = index(&self.key)
                    .map_err(|reason| format!("value was not a proper array index: '{}': {reason}", self.key))?;
                let size = items.len() as i64 + 1;
                if parsed >= size || parsed < -size {
                    return Err(invalid_index(parsed));
                }
                let position = if parsed < 0 { parsed + size } else { parsed };
                items.insert(position as usize, value);
            }
            _ => {}
        }
        Ok(())
    }

    fn remove(self) -> Result<Value, String> {
        match self.parent {
            Value::Object(fields) => {
                let key = &self.key;
                fields.shift_remove(key).ok_or_else(|| format!("Unable to remove nonexistent key: {key}: {MISSING}"))
            }
            Value::Array(items) => {
                let position = position(&self.key, items.len())?;
                match position < items.len() {
                    true => Ok(items.remove(position)),
                    false => Err(invalid_index(position as i64)),
                }
            }
            _ => Ok(Value::Null),
        }
    }
}

/// The position that an index means; negative ones count from the end.
fn position(key: &str, length: usize) -> Result<usize, String> {
    let parsed = index(key)?;
    let position = if parsed < 0 { parsed + length as i64 } else { parsed };
    usize::try_from(position).map_err(|_| invalid_index(parsed))
}

fn index(key: &str) -> Result<i64, String> {
    key.parse().map_err(|_| format!("strconv.Atoi: parsing {}: invalid syntax", crate::go::go_quote(key)))
}

fn invalid_index(index: i64) -> String {
    format!("Unable to access invalid index: {index}: invalid index referenced")
}
