//! A validation rule in CEL, as a schema declares it.

use serde_json::Value;

use super::field_error::FieldErrorKind;

/// One entry of `x-kubernetes-validations`.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The expression; true if the value is fine.
    pub expression: String,
    /// What to say if it is not.
    pub message: Option<String>,
    /// An expression that says it with the values at hand.
    pub message_expression: Option<String>,
    /// The kind of the complaint.
    pub kind: FieldErrorKind,
    /// Where below the value the complaint belongs, such as `.size`.
    pub field_path: Option<String>,
    /// The rule is checked also when there is no old value; `oldSelf` is an optional then.
    pub optional_old_self: bool,
}

impl Rule {
    /// The rule as it is written in a schema, if it is one.
    pub fn parse(declared: &Value) -> Option<Self> {
        let text = |name: &str| declared.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let kind = match text("reason") {
            Some("FieldValueForbidden") => FieldErrorKind::Forbidden,
            Some("FieldValueRequired") => FieldErrorKind::Required,
            Some("FieldValueDuplicate") => FieldErrorKind::Duplicate,
            _ => FieldErrorKind::Invalid,
        };
        Some(Self {
            expression: text("rule")?.to_owned(),
            message: text("message").map(str::to_owned),
            message_expression: text("messageExpression").map(str::to_owned),
            kind,
            field_path: text("fieldPath").map(str::to_owned),
            optional_old_self: declared.get("optionalOldSelf").and_then(Value::as_bool).unwrap_or_default(),
        })
    }
}
