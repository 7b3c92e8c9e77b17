//! Which names, labels and annotations are valid, and the messages about invalid ones.
//!
//! `admit.rs` asks here for every object that is written. The words are those of the server's
//! validation library, because clients show them to people as they are.

use serde_json::{Value, json};

use super::addresses;
use crate::go::{FieldError, FieldErrorKind, go_json};

/// The rules for the name of an object; they differ between kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// Several labels joined by dots, up to 253 characters: most kinds.
    Subdomain,
    /// The same, in the words of the newer checks that are declared and not programmed.
    LongName,
    /// One label, up to 63 characters: namespaces, services, limit ranges.
    Label,
    /// Anything that fits into a path: roles, bindings and other names with colons.
    PathSegment,
    /// An IP address, for `IPAddress` objects.
    Address,
    /// Anything at all.
    Any,
}

/// The problems of a name, if any. Prefixes (`generateName`) may end with a dash.
pub(crate) fn check_name(rule: NameRule, name: &str, is_prefix: bool) -> Vec<String> {
    let masked = match is_prefix && name.len() > 1 && name.ends_with('-') {
        true => format!("{}a", &name[..name.len() - 1]),
        false => name.to_owned(),
    };
    match rule {
        NameRule::Subdomain => check_subdomain(&masked),
        NameRule::LongName => {
            check_subdomain(&masked).into_iter().map(|problem| problem.replace("253 characters", "253 bytes")).collect()
        }
        NameRule::Label => check_label(&masked),
        NameRule::PathSegment => check_path_segment(name, is_prefix),
        NameRule::Address => addresses::address(name),
        NameRule::Any => Vec::new(),
    }
}

/// One label of a DNS name that begins with a letter.
pub(crate) fn check_label_1035(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push("must be no more than 63 characters".to_owned());
    }
    if !is_label(name) || !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        problems.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
             validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    problems
}

/// Several labels joined by dots.
pub(crate) fn check_subdomain(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 253 {
        problems.push("must be no more than 253 characters".to_owned());
    }
    if name.is_empty() || !name.split('.').all(is_label) {
        problems.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    problems
}

/// One label of a DNS name.
pub(crate) fn check_label(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push("must be no more than 63 characters".to_owned());
    }
    if !is_label(name) {
        problems.push(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
             end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    problems
}

/// The problems of a name that becomes a path segment.
pub(crate) fn check_segment(name: &str) -> Vec<String> {
    check_path_segment(name, false)
}

fn check_path_segment(name: &str, is_prefix: bool) -> Vec<String> {
    let mut problems = Vec::new();
    if !is_prefix && (name == "." || name == "..") {
        problems.push(format!("may not be '{name}'"));
    }
    for illegal in ["/", "%"] {
        if name.contains(illegal) {
            problems.push(format!("may not contain '{illegal}'"));
        }
    }
    problems
}

fn is_label(label: &str) -> bool {
    let bytes = label.as_bytes();
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
}

/// The problems of a key of a label, an annotation or a finalizer: `prefix/name`.
pub(crate) fn check_qualified_name(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let (prefix, name) = match key.split_once('/') {
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                qualified_name_rule()
            )];
        }
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    match prefix {
        Some("") => problems.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            problems.extend(check_subdomain(prefix).into_iter().map(|problem| format!("prefix part {problem}")));
        }
        None => {}
    }
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 characters".to_owned());
    }
    if !is_qualified_part(name) {
        problems.push(format!("name part {}", qualified_name_rule()));
    }
    problems
}

fn qualified_name_rule() -> &'static str {
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
     (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
}

/// The problems of a label value.
pub(crate) fn check_label_value(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > 63 {
        problems.push("must be no more than 63 bytes".to_owned());
    }
    if !value.is_empty() && !is_qualified_part(value) {
        problems.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
             for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .to_owned(),
        );
    }
    problems
}

fn is_qualified_part(part: &str) -> bool {
    let bytes = part.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// The finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// What is wrong with the metadata of an object, whatever its kind is. Most kinds want finalizers
/// to be standard ones, or to have a domain.
pub(crate) fn check_metadata(metadata: &Value, rule: NameRule, standard_finalizers: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let text = |field: &str| metadata.get(field).and_then(Value::as_str).unwrap_or_default();
    if !text("generateName").is_empty() {
        for problem in check_name(rule, text("generateName"), true) {
            errors.push(FieldError::invalid("metadata.generateName", json!(text("generateName")), problem));
        }
    }
    match text("name") {
        "" => errors.push(FieldError::required("metadata.name", "name or generateName is required")),
        name => {
            for problem in check_name(rule, name, false) {
                errors.push(FieldError::invalid("metadata.name", json!(name), problem));
            }
        }
    }
    errors.extend(check_labels(metadata, "metadata.labels"));
    errors.extend(check_annotations(metadata, "metadata.annotations"));
    errors.extend(check_finalizers(metadata, standard_finalizers));
    errors.extend(check_owners(metadata));
    errors
}

/// The errors in the labels of an object.
pub(crate) fn check_labels(metadata: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in metadata.get("labels").and_then(Value::as_object).into_iter().flatten() {
        for problem in check_qualified_name(key) {
            errors.push(FieldError::invalid(path, json!(key), problem));
        }
        let value = value.as_str().unwrap_or_default();
        for problem in check_label_value(value) {
            errors.push(FieldError::invalid(path, json!(value), problem));
        }
    }
    errors
}

/// The errors in the annotations of an object.
pub(crate) fn check_annotations(metadata: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut annotations_bytes = 0;
    for (key, value) in metadata.get("annotations").and_then(Value::as_object).into_iter().flatten() {
        for problem in check_qualified_name(&key.to_lowercase()) {
            errors.push(FieldError::invalid(path, json!(key), problem));
        }
        annotations_bytes += key.len() + value.as_str().map(str::len).unwrap_or_default();
    }
    if annotations_bytes > 256 * 1024 {
        errors.push(FieldError::too_long(path, 256 * 1024));
    }
    errors
}

fn check_finalizers(metadata: &Value, standard: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, finalizer) in metadata.get("finalizers").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let finalizer = finalizer.as_str().unwrap_or_default();
        let path = format!("metadata.finalizers[{index}]");
        let problems = check_qualified_name(finalizer);
        if problems.is_empty() && standard && !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
            let problem = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(path.clone(), json!(finalizer), problem));
        }
        for problem in problems {
            errors.push(FieldError::invalid(path.clone(), json!(finalizer), problem));
        }
    }
    errors
}

fn check_owners(metadata: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let owners = metadata.get("ownerReferences").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut controller: Option<&Value> = None;
    for owner in owners {
        let path = |field: &str| format!("metadata.ownerReferences.{field}");
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        for (field, detail) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            let value = owner.get(field).cloned().unwrap_or_else(|| json!(""));
            let has_bad_version = field == "apiVersion" && text(field).matches('/').count() > 1;
            if has_bad_version || value.as_str().is_none_or(str::is_empty) {
                errors.push(FieldError::new(FieldErrorKind::Invalid, path(field), value, detail));
            }
        }
        if text("apiVersion") == "v1" && text("kind") == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            let kind = FieldErrorKind::Invalid;
            errors.push(FieldError::quoting(kind, "metadata.ownerReferences", &owner_text(owner), detail));
        }
        if owner.get("controller") != Some(&Value::Bool(true)) {
            continue;
        }
        match controller {
            None => controller = Some(owner),
            Some(first) => {
                let name = |owner: &Value| {
                    let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
                    format!("{}/{}", text("kind"), text("name"))
                };
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
                    name(first),
                    name(owner)
                );
                let shown: Vec<String> = owners.iter().map(owner_text).collect();
                let shown = format!("[{}]", shown.join(","));
                errors.push(FieldError::quoting(FieldErrorKind::Invalid, "metadata.ownerReferences", &shown, &detail));
            }
        }
    }
    errors
}

/// A reference as the server quotes it.
fn owner_text(owner: &Value) -> String {
    let required = ["apiVersion", "kind", "name", "uid"]
        .map(|field| (field, Some(owner.get(field).cloned().unwrap_or_else(|| json!("")))));
    let optional = ["controller", "blockOwnerDeletion"].map(|field| (field, owner.get(field).cloned()));
    let fields = required.into_iter().chain(optional);
    let shown = fields.filter_map(|(field, value)| Some(format!("\"{field}\":{}", go_json(&value?))));
    format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        use NameRule::{Address, Any, Label, PathSegment, Subdomain};
        for (rule, name, is_prefix, allowed) in [
            (Subdomain, "a", false, true),
            (Subdomain, "a.b-c.9", false, true),
            (Subdomain, "", false, false),
            (Subdomain, "A", false, false),
            (Subdomain, "a_b", false, false),
            (Subdomain, "a..b", false, false),
            (Subdomain, "-a", false, false),
            (Subdomain, "a-", false, false),
            (Subdomain, "a-", true, true),
            (Label, "a.b", false, false),
            (Label, "a-b", false, true),
            (PathSegment, "system:node:X", false, true),
            (PathSegment, "a/b", false, false),
            (PathSegment, "..", false, false),
            (Address, "10.0.0.1", false, true),
            (Address, "a", false, false),
            (Any, "No rule / at all", false, true),
        ] {
            let problems = check_name(rule, name, is_prefix);
            assert_eq!(problems.is_empty(), allowed, "{rule:?} {name:?}: {problems:?}");
        }
    }

    #[test]
    fn labels() {
        for (key, allowed) in
            [("a", true), ("example.com/a_B.c", true), ("/a", false), ("a/", false), ("a/b/c", false), ("é", false)]
        {
            assert_eq!(check_qualified_name(key).is_empty(), allowed, "{key}");
        }
        for (value, allowed) in [("", true), ("a_B.1", true), ("-", false), ("a b", false)] {
            assert_eq!(check_label_value(value).is_empty(), allowed, "{value}");
        }
    }
}
