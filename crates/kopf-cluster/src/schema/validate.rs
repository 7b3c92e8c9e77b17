//! Validates an object by its schema; the errors use the words of the server.
//!
//! The order is that of the server: the schema itself, embedded objects, lists that must not
//! repeat themselves, and at last the rules in CEL, which run only if the object has the shape
//! that they were written for. Where the server's order is random (fields of one object), ours
//! is alphabetic.

mod outcome;
mod validator;
mod scalars;
mod unchanged;
mod list_types;
mod embedded;
mod cel_values;
mod rules;

use serde_json::Value;

use super::Schema;
use crate::go::field_error::{FieldError, FieldErrorKind};

/// Which part of an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValidationScope {
    /// The object as such.
    Whole,
    /// Its status alone.
    Status,
}

/// All complaints about an object.
pub(super) fn validate(schema: &Schema, new: &Value, old: Option<&Value>, part: ValidationScope) -> Vec<FieldError> {
    let mut errors = match part {
        ValidationScope::Whole => validator::check(schema, schema.root_id(), new, old, ""),
        ValidationScope::Status => check_status(schema, new, old),
    };
    if part == ValidationScope::Whole {
        embedded::check(schema, schema.root_id(), new, "", &mut errors);
    }
    let repeated_before = old.is_some_and(|old| !list_types::check(schema, old).is_empty());
    if !repeated_before {
        errors.extend(list_types::check(schema, new));
    }
    if schema.has_rules() {
        match errors.iter().any(|error| is_blocking(error.kind)) {
            true => errors.push(FieldError::invalid("", Value::Null, RULES_NOT_CHECKED)),
            false => errors.extend(rules::check(schema, new, old)),
        }
    }
    errors
}

/// All errors in a value that is not a whole object, such as a default.
pub(super) fn validate_part(schema: &Schema, value: &Value, path: &str) -> Vec<FieldError> {
    validator::check(schema, schema.root_id(), value, None, path)
}

const RULES_NOT_CHECKED: &str = "some validation rules were not checked because the object was invalid; \
     correct the existing errors to complete validation";

fn check_status(schema: &Schema, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let Some(status) = new.get("status") else { return Vec::new() };
    let Some(id) = schema.node(schema.root_id()).properties.get("status") else { return Vec::new() };
    validator::check(schema, *id, status, old.and_then(|old| old.get("status")), "status")
}

/// After these, the object has not the shape that rules rely on.
fn is_blocking(kind: FieldErrorKind) -> bool {
    use FieldErrorKind::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
    matches!(kind, NotSupported | Required | TooLong | TooMany | TypeInvalid)
}
