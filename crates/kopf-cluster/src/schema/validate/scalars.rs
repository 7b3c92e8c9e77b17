//! The checks of single values: type, allowed values, ranges, lengths, patterns and sizes.
//!
//! Paths in the texts are those of the validator; the validator places the complaints afterwards.

use serde_json::{Map, Number, Value, json};

use super::validator::type_names;
use crate::go::field_error::{FieldError, FieldErrorKind};
use crate::go::text as go_text;
use crate::schema::node::{Checks, Node, ValueType};

/// Whether a value is of the type of the node.
pub(super) fn check_type(node: &Node, value: &Value, path: &str) -> Option<FieldError> {
    let expected = type_names(node).unwrap_or_default();
    if value.is_null() {
        let is_wrong = !expected.is_empty() && !node.nullable;
        return is_wrong.then(|| wrong_type(path, expected, "null"));
    }
    let (actual, actual_format) = type_of(value);
    let accepts = |value_type: ValueType| match node.int_or_string {
        true => matches!(value_type, ValueType::Integer | ValueType::String),
        false => node.value_type == Some(value_type),
    };
    let is_whole_float = actual == ValueType::Number && value.as_f64().is_some_and(is_whole);
    let is_number_enough =
        (is_whole_float && accepts(ValueType::Integer)) || (actual == ValueType::Integer && accepts(ValueType::Number));
    let format = node.checks.as_deref().and_then(|checks| checks.format.as_deref());
    if let Some(format) = format {
        let is_text_or_list = matches!(value, Value::String(_) | Value::Array(_));
        let is_numeric = accepts(ValueType::Number) || accepts(ValueType::Integer);
        if !(is_text_or_list || accepts(actual) || actual_format == format || is_number_enough) {
            return Some(wrong_type(path, format, actual_format));
        }
        // The server leaves texts to the check of the format, and does not look at lists at all.
        if is_text_or_list && !is_numeric {
            return None;
        }
    }
    let is_right = accepts(actual) || is_number_enough;
    (!is_right).then(|| wrong_type(path, expected, actual.name()))
}

fn wrong_type(path: &str, expected: &str, actual: &str) -> FieldError {
    let detail = format!("{path} in body must be of type {expected}: {}", go_text::quote(actual));
    FieldError::new(FieldErrorKind::TypeInvalid, path, actual.into(), detail)
}

/// The type and the format of a value, as the server sees them.
fn type_of(value: &Value) -> (ValueType, &'static str) {
    match value {
        Value::Bool(_) => (ValueType::Boolean, ""),
        Value::String(_) => (ValueType::String, ""),
        Value::Number(number) if number.as_i64().is_some() => (ValueType::Integer, "int64"),
        Value::Number(_) => (ValueType::Number, "float64"),
        Value::Array(_) => (ValueType::Array, ""),
        Value::Object(_) | Value::Null => (ValueType::Object, ""),
    }
}

/// Whether a value is one of those that the schema lists.
pub(super) fn check_allowed(checks: &Checks, value: &Value, path: &str) -> Option<FieldError> {
    let is_allowed = checks.allowed.is_empty() || checks.allowed.iter().any(|allowed| is_same(value, allowed));
    if is_allowed {
        return None;
    }
    let texts: Vec<String> = checks
        .allowed
        .iter()
        .map(|allowed| match allowed {
            Value::String(text) => text.clone(),
            other => go_text::json(other),
        })
        .collect();
    Some(FieldError::not_supported(path, value.clone(), &texts))
}

/// Equality after conversion to the type of the listed value, as the server compares.
fn is_same(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Number(value), Value::Number(allowed)) => match (value.as_i64(), allowed.as_i64()) {
            (Some(value), Some(allowed)) => value == allowed,
            (None, Some(allowed)) => value.as_f64().is_some_and(|value| value.trunc() as i64 == allowed),
            _ => value.as_f64() == allowed.as_f64(),
        },
        _ => value == allowed,
    }
}

/// The length and the pattern of a text; the first that fails is reported.
pub(super) fn check_string(checks: &Checks, text: &str, path: &str) -> Option<FieldError> {
    let length = || text.chars().count() as i64;
    if let Some(maximum) = checks.max_length.filter(|maximum| length() > *maximum) {
        return Some(FieldError::too_long(path, maximum));
    }
    if let Some(minimum) = checks.min_length.filter(|minimum| length() < *minimum) {
        let detail = format!("{path} in body should be at least {minimum} chars long");
        return Some(FieldError::invalid(path, text.into(), detail));
    }
    let pattern = checks.pattern.as_ref()?;
    let source = &pattern.source;
    let detail = match pattern.is_match(text) {
        Ok(true) => return None,
        Ok(false) => format!("{path} in body should match '{source}'"),
        Err(reason) => format!("{path} in body should match '{source}, but pattern is invalid: {reason}'"),
    };
    Some(FieldError::invalid(path, text.into(), detail))
}

/// The size of a list and the uniqueness of its items.
pub(super) fn check_array(checks: &Checks, items: &[Value], path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let size = items.len() as i64;
    if let Some(minimum) = checks.min_items.filter(|minimum| size < *minimum) {
        let detail = format!("{path} in body should have at least {minimum} items");
        errors.push(FieldError::invalid(path, json!(size), detail));
    }
    if let Some(maximum) = checks.max_items.filter(|maximum| size > *maximum) {
        errors.push(FieldError::too_many(path, size, maximum));
    }
    let repeats = || items.iter().enumerate().any(|(position, item)| items[..position].contains(item));
    if checks.unique_items && repeats() {
        errors.push(FieldError::invalid(path, "".into(), format!("{path} in body shouldn't contain duplicates")));
    }
    errors
}

/// The number of fields.
pub(super) fn check_object(checks: &Checks, fields: &Map<String, Value>, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let size = fields.len() as i64;
    if let Some(minimum) = checks.min_properties.filter(|minimum| size < *minimum) {
        let detail = format!("{path} in body should have at least {minimum} properties");
        errors.push(FieldError::invalid(path, json!(size), detail));
    }
    if let Some(maximum) = checks.max_properties.filter(|maximum| size > *maximum) {
        errors.push(FieldError::too_many(path, size, maximum));
    }
    errors
}

/// The range of a number: that of its type and format, and that of the schema.
pub(super) fn check_number(node: &Node, number: &Number, path: &str) -> Vec<FieldError> {
    let default_checks = Checks::default();
    let checks = node.checks.as_deref().unwrap_or(&default_checks);
    let range = NumberRange::of(node, checks);
    let mut errors = Vec::new();
    errors.extend(range.check(number_text(number), "Checked", path));
    if let Some(factor) = checks.multiple_of {
        let unfit = range.check(go_text::float_in_digits(factor), "MultipleOf", path);
        errors.extend(check_multiple(number, factor, unfit.is_none(), path));
        errors.extend(unfit);
    }
    if let Some(minimum) = checks.minimum {
        let unfit = range.check(go_text::float_in_digits(minimum), "Minimum boundary", path);
        let bound = Bound {
            limit: minimum,
            is_exclusive: checks.exclusive_minimum,
            is_lower: true,
            is_native: unfit.is_none(),
        };
        errors.extend(unfit);
        errors.extend(bound.check(number, path));
    }
    if let Some(maximum) = checks.maximum {
        let unfit = range.check(go_text::float_in_digits(maximum), "Maximum boundary", path);
        let bound = Bound {
            limit: maximum,
            is_exclusive: checks.exclusive_maximum,
            is_lower: false,
            is_native: unfit.is_none(),
        };
        errors.extend(unfit);
        errors.extend(bound.check(number, path));
    }
    errors
}

fn number_text(number: &Number) -> String {
    match number.as_i64() {
        Some(integer) => integer.to_string(),
        None => go_text::float_in_digits(number.as_f64().unwrap_or_default()),
    }
}

/// What fits into the type and format of a number.
struct NumberRange<'a> {
    value_type: Option<ValueType>,
    format: Option<&'a str>,
}

impl<'a> NumberRange<'a> {
    fn of(node: &Node, checks: &'a Checks) -> Self {
        let is_plain = !node.int_or_string;
        let value_type = node
            .value_type
            .filter(|value_type| is_plain && matches!(value_type, ValueType::Integer | ValueType::Number));
        Self { value_type, format: checks.format.as_deref().filter(|_| value_type.is_some()) }
    }

    fn check(&self, text: String, what: &str, path: &str) -> Option<FieldError> {
        let fits = match (self.value_type, self.format) {
            (Some(ValueType::Integer), Some("int32")) => text.parse::<i32>().is_ok(),
            (Some(ValueType::Integer), _) => text.parse::<i64>().is_ok(),
            (_, Some("float")) => text.parse::<f32>().is_ok_and(f32::is_finite),
            _ => true,
        };
        if fits {
            return None;
        }
        let type_name = self.value_type.map_or("", ValueType::name);
        let detail = match self.format {
            Some(format) => format!("{what} value must be of type {type_name} with format {format} in {path}"),
            None => format!("{what} value must be of type {type_name} (default format) in {path}"),
        };
        Some(FieldError::invalid("", "".into(), detail))
    }
}

fn check_multiple(number: &Number, factor: f64, is_native: bool, path: &str) -> Option<FieldError> {
    match number.as_i64().filter(|_| is_native) {
        Some(integer) => {
            let factor = factor as i64;
            if factor <= 0 {
                return Some(bad_factor(path, json!(factor), &factor.to_string()));
            }
            let detail = format!("{path} in body should be a multiple of {factor}");
            (integer % factor != 0).then(|| FieldError::invalid(path, json!(integer), detail))
        }
        None => {
            let value = number.as_f64().unwrap_or_default();
            let text = go_text::float_in_message(factor);
            if factor <= 0.0 {
                return Some(bad_factor(path, json!(factor), &text));
            }
            let ratio = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
            let detail = format!("{path} in body should be a multiple of {text}");
            (!is_whole(ratio)).then(|| FieldError::invalid(path, json!(value), detail))
        }
    }
}

fn bad_factor(path: &str, factor: Value, text: &str) -> FieldError {
    FieldError::invalid(path, factor, format!("factor MultipleOf declared for {path} must be positive: {text}"))
}

/// A float that is a whole number, up to the error of one division.
fn is_whole(value: f64) -> bool {
    const SAFE: f64 = 9_007_199_254_740_991.0;
    if !value.is_finite() || value.abs() > SAFE {
        return false;
    }
    let rounded = value.round();
    let difference = (value - rounded).abs();
    value == rounded || difference < f64::MIN_POSITIVE || difference / (value.abs() + rounded.abs()) < 1e-9
}

/// A limit of a number, from above or from below.
struct Bound {
    limit: f64,
    is_exclusive: bool,
    is_lower: bool,
    /// The limit fits into the type of the number, so that both are compared in that type.
    is_native: bool,
}

impl Bound {
    fn check(&self, number: &Number, path: &str) -> Option<FieldError> {
        let (is_over, limit, value) = match number.as_i64().filter(|_| self.is_native) {
            Some(integer) => {
                let limit = self.limit as i64;
                (self.is_over(integer.cmp(&limit)), limit.to_string(), json!(integer))
            }
            None => {
                let value = number.as_f64().unwrap_or_default();
                let order = value.partial_cmp(&self.limit).unwrap_or(std::cmp::Ordering::Equal);
                (self.is_over(order), go_text::float_in_message(self.limit), json!(value))
            }
        };
        let relation = match (self.is_lower, self.is_exclusive) {
            (true, true) => "greater than",
            (true, false) => "greater than or equal to",
            (false, true) => "less than",
            (false, false) => "less than or equal to",
        };
        is_over.then(|| FieldError::invalid(path, value, format!("{path} in body should be {relation} {limit}")))
    }

    fn is_over(&self, order: std::cmp::Ordering) -> bool {
        match (self.is_lower, self.is_exclusive) {
            (true, true) => order.is_le(),
            (true, false) => order.is_lt(),
            (false, true) => order.is_ge(),
            (false, false) => order.is_gt(),
        }
    }
}
