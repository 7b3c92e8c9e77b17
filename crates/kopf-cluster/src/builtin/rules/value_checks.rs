//! What a single value must be, and the words for those that are not.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::evaluate::{Errors, ValueCheck};
use crate::go::FieldError;
use crate::values::names;

/// Empty values, which a real server does not distinguish from missing ones.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(flag) => !flag,
    }
}

pub(super) fn test(test: ValueCheck, path: &str, value: &Value, errors: &mut Errors) {
    let number = || value.as_i64().unwrap_or_default();
    let mut refuse = |detail: &str| errors.push(FieldError::invalid(path, value.clone(), detail));
    match test {
        ValueCheck::Text(problems) => {
            for problem in problems(value.as_str().unwrap_or_default()) {
                refuse(&problem);
            }
        }
        ValueCheck::OneOf(supported) => {
            if !value.as_str().is_some_and(|text| supported.contains(&text)) {
                let supported: Vec<String> = supported.iter().map(|name| (*name).to_owned()).collect();
                errors.push(FieldError::not_supported(path, value.clone(), &supported));
            }
        }
        ValueCheck::NonNegative if number() < 0 => refuse("must be greater than or equal to 0"),
        ValueCheck::Positive(words) if number() <= 0 => refuse(words),
        ValueCheck::Between(low, high) if !(low..=high).contains(&number()) => {
            refuse(&format!("must be between {low} and {high}, inclusive"));
        }
        ValueCheck::NonNegative | ValueCheck::Positive(_) | ValueCheck::Between(..) => {}
        ValueCheck::PortOrName => match value {
            Value::String(name) => port_name(name).iter().for_each(|problem| refuse(problem)),
            _ if !(1..=65535).contains(&number()) => refuse("must be between 1 and 65535, inclusive"),
            _ => {}
        },
        ValueCheck::Mode if !(0..=0o777).contains(&number()) => {
            refuse("must be a number between 0 and 0777 (octal), both inclusive");
        }
        ValueCheck::Mode => {}
        ValueCheck::NumberOrPercent => match value {
            Value::String(text) => percent(text).iter().for_each(|problem| refuse(problem)),
            _ if number() < 0 => refuse("must be greater than or equal to 0"),
            _ => {}
        },
        ValueCheck::AtMostAll => {
            let digits = value.as_str().and_then(|text| text.strip_suffix('%'));
            if digits.and_then(|digits| digits.parse::<i64>().ok()).is_some_and(|part| part > 100) {
                refuse("must not be greater than 100%");
            }
        }
        ValueCheck::NumberOrPart => {
            self::test(ValueCheck::NumberOrPercent, path, value, errors);
            self::test(ValueCheck::AtMostAll, path, value, errors);
        }
        ValueCheck::AtMostBytes(limit) => {
            if value.as_str().is_some_and(|text| text.len() as i64 > limit) {
                errors.push(FieldError::too_long(path, limit));
            }
        }
    }
}

macro_rules! expression {
    ($name:ident, $source:expr) => {
        // The sources are constants: an impossible one would match nothing, which the tests show.
        static $name: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new($source).ok());
    };
}

expression!(SEARCH, r"^_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*$");
expression!(SYSCTL, r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$");
expression!(HEADER, r"^[-A-Za-z0-9]+$");
expression!(KEY, r"^[-._a-zA-Z0-9]+$");
expression!(PERCENT, r"^[0-9]+%$");
expression!(IDENTIFIER, r"^[A-Za-z_][A-Za-z0-9_]*$");
expression!(LABEL_1035, r"^[a-z]([-a-z0-9]*[a-z0-9])?$");
expression!(DOMAIN_PATH, r"^[A-Za-z0-9/\-._~%!$&'()*+,;=:]+$");

fn matches(expression: &LazyLock<Option<Regex>>, text: &str) -> bool {
    expression.as_ref().is_some_and(|expression| expression.is_match(text))
}

fn problem(wrong: bool, words: &str) -> Vec<String> {
    if wrong { vec![words.to_owned()] } else { Vec::new() }
}

/// The name of a port of a container, or of a service as seen by a probe.
pub(super) fn port_name(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.len() > 15 {
        problems.push("must be no more than 15 characters".to_owned());
    }
    if !name.bytes().all(allowed) {
        problems.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) && name.bytes().all(allowed) {
        problems.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        problems.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        problems.push("must not begin or end with a hyphen".to_owned());
    }
    problems
}

pub(super) fn percent(text: &str) -> Vec<String> {
    problem(
        !matches(&PERCENT, text),
        "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used \
         for validation is '[0-9]+%')",
    )
}

pub(super) fn environment_name(name: &str) -> Vec<String> {
    problem(
        name.is_empty() || !name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'='),
        "a valid environment variable name must consist only of printable ASCII characters other than '='",
    )
}

/// A key of a config map or a secret.
pub(super) fn config_key(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if key.len() > 253 {
        problems.push("must be no more than 253 characters".to_owned());
    }
    if !matches(&KEY, key) {
        problems.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
             'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    match key {
        "." | ".." => problems.push(format!("must not be '{key}'")),
        key if key.starts_with("..") => problems.push("must not start with '..'".to_owned()),
        _ => {}
    }
    problems
}

pub(super) fn header_name(name: &str) -> Vec<String> {
    problem(
        !matches(&HEADER, name),
        "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for \
         validation is '[-A-Za-z0-9]+')",
    )
}

pub(super) fn search_domain(text: &str) -> Vec<String> {
    let name = text.strip_suffix('.').filter(|rest| !rest.is_empty()).unwrap_or(text);
    problem(
        text != "." && !matches(&SEARCH, name),
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must \
         start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
         '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')",
    )
}

pub(super) fn sysctl_name(name: &str) -> Vec<String> {
    problem(
        name.len() > 253 || !matches(&SYSCTL, name),
        "must have at most 253 characters and match regex \
         ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
    )
}

/// A path below something: no way out of it.
pub(super) fn relative_path(path: &str) -> Vec<String> {
    if path.starts_with('/') {
        return vec!["must be a relative path".to_owned()];
    }
    no_way_up(path)
}

pub(super) fn no_way_up(path: &str) -> Vec<String> {
    problem(path.split('/').any(|part| part == ".."), "must not contain '..'")
}

/// The same for files that are made out of keys, which may not look hidden by two dots.
pub(super) fn file_path(path: &str) -> Vec<String> {
    let mut problems = relative_path(path);
    if path.starts_with("..") && !path.starts_with("../") && path != ".." {
        problems.push("must not start with '..'".to_owned());
    }
    problems
}

pub(super) fn absolute_path(path: &str) -> Vec<String> {
    problem(!path.starts_with('/'), "must be an absolute path")
}

/// A label that does not start with a digit: the old rule for names of services.
pub(super) fn label_1035(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push("must be no more than 63 characters".to_owned());
    }
    if !matches(&LABEL_1035, name) {
        problems.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
             validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    problems
}

pub(super) fn identifier(text: &str) -> Vec<String> {
    problem(
        !matches(&IDENTIFIER, text),
        "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric \
         characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is \
         '[A-Za-z_][A-Za-z0-9_]*')",
    )
}

/// `example.com/path`: a domain with a path below it.
pub(super) fn domain_path(text: &str) -> Vec<String> {
    match text.split_once('/') {
        None => vec!["must be a domain-prefixed path (such as \"acme.io/foo\")".to_owned()],
        Some((domain, path)) => {
            let mut problems: Vec<String> = names::check_subdomain(domain);
            if path.is_empty() || !matches(&DOMAIN_PATH, path) {
                problems.push(
                    "must be a valid path (e.g. 'example.com/foo', regex used for validation is \
                     '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')"
                        .to_owned(),
                );
            }
            problems
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_expressions_can_be_compiled() {
        let all = [&SEARCH, &SYSCTL, &HEADER, &KEY, &PERCENT, &IDENTIFIER, &LABEL_1035, &DOMAIN_PATH]
            .map(|one| one.is_some());
        assert!(all.iter().all(|compiled| *compiled), "{all:?}");
    }

    #[test]
    fn values_and_their_problems() {
        for (check, text, problems) in [
            (port_name as fn(&str) -> Vec<String>, "http", 0),
            (port_name, "12", 1),
            (port_name, "A b", 1),
            (port_name, "a--b-", 2),
            (percent, "10%", 0),
            (percent, "10", 1),
            (environment_name, "a b", 0),
            (environment_name, "a=b", 1),
            (config_key, "a.b_c-D", 0),
            (config_key, "a b", 1),
            (config_key, "..", 1),
            (relative_path, "a/../b", 1),
            (relative_path, "a/..b", 0),
            (file_path, "..b", 1),
            (search_domain, "_a.b.", 0),
            (label_1035, "1a", 1),
        ] {
            assert_eq!(check(text).len(), problems, "{text}: {:?}", check(text));
        }
    }
}
