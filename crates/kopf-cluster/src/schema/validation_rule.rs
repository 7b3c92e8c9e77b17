//! A validation rule in CEL, as a schema declares it, compiled once.

use std::sync::Arc;

use kube_cel::cel::Program;
use serde_json::Value;

use crate::go::field_error::FieldErrorKind;
use crate::values::cel;

/// One entry of `x-kubernetes-validations`.
#[derive(Clone, Debug)]
pub struct ValidationRule {
    /// The source of the expression; messages quote it.
    pub source: String,
    /// The expression, true if the value is fine; or why it cannot be compiled.
    pub program: Result<Arc<Program>, String>,
    /// The message of a violation.
    pub message: Option<String>,
    /// An expression that computes the message.
    pub message_program: Option<Arc<Program>>,
    /// The kind of the complaint.
    pub kind: FieldErrorKind,
    /// Where below the value the complaint belongs, such as `.size`.
    pub field_path: Option<String>,
    /// The rule compares with the state before.
    pub uses_old_self: bool,
    /// The rule is checked also when there is no state before; `oldSelf` is an optional then.
    pub optional_old_self: bool,
}

impl ValidationRule {
    /// Parses a rule of a schema; None if the value is no rule.
    pub fn parse(declared: &Value) -> Option<Self> {
        let text = |name: &str| declared.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let source = text("rule")?.to_owned();
        let program = cel::compile(&source).map(Arc::new);
        let uses_old_self = program.as_ref().is_ok_and(|program| program.references().has_variable("oldSelf"));
        let kind = match text("reason") {
            Some("FieldValueForbidden") => FieldErrorKind::Forbidden,
            Some("FieldValueRequired") => FieldErrorKind::Required,
            Some("FieldValueDuplicate") => FieldErrorKind::Duplicate,
            _ => FieldErrorKind::Invalid,
        };
        Some(Self {
            source,
            program,
            message: text("message").map(|message| message.trim().to_owned()),
            message_program: text("messageExpression").and_then(|source| cel::compile(source).ok()).map(Arc::new),
            kind,
            field_path: text("fieldPath").map(str::to_owned),
            uses_old_self,
            optional_old_self: declared.get("optionalOldSelf").and_then(Value::as_bool).unwrap_or_default(),
        })
    }

    /// The rule in messages about its evaluation.
    pub fn description(&self) -> &str {
        self.message.as_deref().unwrap_or_else(|| self.source.trim())
    }
}
