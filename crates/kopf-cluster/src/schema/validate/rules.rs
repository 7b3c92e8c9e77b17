//! The rules in CEL.
use serde_json::Value;
use crate::schema::{FieldError, Schema};
#[derive(Clone, Debug, Default)]
pub struct RuleSet;
pub fn check(_schema: &Schema, _new: &Value, _old: Option<&Value>) -> Vec<FieldError> { Vec::new() }
