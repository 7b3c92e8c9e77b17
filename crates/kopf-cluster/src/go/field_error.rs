//! One complaint about one field, in the exact words of the API.
//!
//! Validation collects these; the front of the API turns a list of them into a 422 `Status`
//! with [`FieldError::causes`] and [`FieldError::message_of_all`].

use serde_json::{Value, json};

use super::text as go_text;

/// A field that is not as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// The type of the error.
    pub kind: FieldErrorKind,
    /// The path of the field, such as `spec.ports[0].name`; `<nil>` for the whole object.
    pub field: String,
    /// The value as the message quotes it; None if the message shows no value.
    pub bad_value: Option<Value>,
    /// The text after the value; may be empty.
    pub detail: String,
}

/// The sorts of complaints; clients see them as the reasons of the causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldErrorKind {
    /// A value refers to something that does not exist.
    NotFound,
    /// A value is missing.
    Required,
    /// A value that must be unique occurs twice.
    Duplicate,
    /// A value is malformed or out of bounds.
    Invalid,
    /// A value is not one of the allowed ones.
    NotSupported,
    /// A value is not permitted here.
    Forbidden,
    /// A string is too long.
    TooLong,
    /// A list or a mapping has too many items.
    TooMany,
    /// A list or a mapping has too few items.
    TooFew,
    /// The server failed to check.
    Internal,
    /// A value has another type than the schema demands.
    TypeInvalid,
    /// A string is too short.
    TooShort,
}

impl FieldErrorKind {
    /// The machine-readable name, as in `details.causes[].reason`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::TooShort => "FieldValueTooShort",
        }
    }

    /// The words at the start of a message.
    fn title(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::Internal => "Internal error",
            Self::TooShort => "Too short",
        }
    }

    /// Whether messages of this kind never quote the value.
    fn hides_value(self) -> bool {
        matches!(self, Self::Required | Self::Forbidden | Self::TooLong | Self::TooShort | Self::Internal)
    }
}

impl FieldError {
    /// A complaint with a quoted value.
    pub fn new(kind: FieldErrorKind, field: impl Into<String>, bad_value: Value, detail: impl Into<String>) -> Self {
        Self { kind, field: field_or_nil(field.into()), bad_value: Some(bad_value), detail: detail.into() }
    }

    /// A malformed value.
    pub fn invalid(field: impl Into<String>, bad_value: Value, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Invalid, field, bad_value, detail)
    }

    /// A value that is quoted already, for structs whose fields the server prints in Go's order.
    pub fn quoting(kind: FieldErrorKind, field: impl Into<String>, quoted: &str, detail: &str) -> Self {
        let detail = if detail.is_empty() { quoted.to_owned() } else { format!("{quoted}: {detail}") };
        Self { kind, field: field_or_nil(field.into()), bad_value: None, detail }
    }

    /// A missing value.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, field, Value::Null, detail)
    }

    /// A value that may not be set here.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, field, Value::Null, detail)
    }

    /// A repeated value.
    pub fn duplicate(field: impl Into<String>, bad_value: Value) -> Self {
        Self::new(FieldErrorKind::Duplicate, field, bad_value, "")
    }

    /// A value out of the list of the allowed ones.
    pub fn not_supported(field: impl Into<String>, bad_value: Value, supported: &[String]) -> Self {
        let quoted: Vec<String> = supported.iter().map(|value| go_text::quote(value)).collect();
        let detail = match quoted.is_empty() {
            true => String::new(),
            false => format!("supported values: {}", quoted.join(", ")),
        };
        Self::new(FieldErrorKind::NotSupported, field, bad_value, detail)
    }

    /// A string over its maximal length.
    pub fn too_long(field: impl Into<String>, maximum: i64) -> Self {
        let bytes = if maximum == 1 { "byte" } else { "bytes" };
        Self::new(FieldErrorKind::TooLong, field, Value::Null, format!("may not be more than {maximum} {bytes}"))
    }

    /// A list or a mapping over its maximal size.
    pub fn too_many(field: impl Into<String>, actual: i64, maximum: i64) -> Self {
        let items = if maximum == 1 { "item" } else { "items" };
        Self::new(FieldErrorKind::TooMany, field, json!(actual), format!("must have at most {maximum} {items}"))
    }

    /// The message without the field, as in `details.causes[].message`.
    pub fn body(&self) -> String {
        let mut text = self.kind.title().to_owned();
        if let (false, Some(value)) = (self.kind.hides_value(), &self.bad_value) {
            text.push_str(": ");
            match value {
                Value::String(string) => text.push_str(&go_text::quote(string)),
                Value::Number(number) => text.push_str(&go_text::number(number)),
                other => text.push_str(&go_text::json(other)),
            }
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }

    /// The causes of a `Status`, one per complaint.
    pub fn causes(errors: &[FieldError]) -> Value {
        errors
            .iter()
            .map(|error| json!({"reason": error.kind.reason(), "message": error.body(), "field": error.field}))
            .collect()
    }

    /// All complaints in one line, as a `Status` shows them after "… is invalid: ".
    pub fn message_of_all(errors: &[FieldError]) -> String {
        let mut messages: Vec<String> = Vec::new();
        for error in errors {
            let message = error.to_string();
            if !messages.contains(&message) {
                messages.push(message);
            }
        }
        match messages.len() {
            1 => messages.remove(0),
            _ => format!("[{}]", messages.join(", ")),
        }
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.field, self.body())
    }
}

/// The path of the whole object has a special text.
fn field_or_nil(field: String) -> String {
    if field.is_empty() { "<nil>".to_owned() } else { field }
}

/// The path of a named field below another.
pub(crate) fn child(parent: &str, name: &str) -> String {
    match parent.is_empty() {
        true => name.to_owned(),
        false => format!("{parent}.{name}"),
    }
}

/// The path of an entry of a mapping.
pub(crate) fn key(parent: &str, name: &str) -> String {
    format!("{parent}[{name}]")
}

/// The path of an item of a list.
pub(crate) fn index(parent: &str, position: usize) -> String {
    format!("{parent}[{position}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_as_the_server_writes_them() {
        for (error, expected) in [
            (FieldError::required("spec.size", ""), "spec.size: Required value"),
            (FieldError::invalid("", json!(""), "why"), "<nil>: Invalid value: \"\": why"),
            (FieldError::too_many("spec.list", 3, 1), "spec.list: Too many: 3: must have at most 1 item"),
            (FieldError::too_long("spec.text", 5), "spec.text: Too long: may not be more than 5 bytes"),
            (
                FieldError::duplicate("spec.list[1]", json!({"name": "a"})),
                "spec.list[1]: Duplicate value: {\"name\":\"a\"}",
            ),
            (
                FieldError::not_supported("spec.mode", json!(7), &["a".into(), "b".into()]),
                "spec.mode: Unsupported value: 7: supported values: \"a\", \"b\"",
            ),
        ] {
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn one_message_stands_alone_and_many_are_listed_once_each() {
        let one = FieldError::required("a", "");
        let two = FieldError::required("b", "");
        assert_eq!(FieldError::message_of_all(std::slice::from_ref(&one)), "a: Required value");
        assert_eq!(FieldError::message_of_all(&[one.clone(), two, one]), "[a: Required value, b: Required value]");
    }
}
