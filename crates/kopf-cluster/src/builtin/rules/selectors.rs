//! Label selectors and mappings of labels, which many kinds have.

use serde_json::{Value, json};

use super::evaluate::Errors;
use super::{Location, Rule, Rules};
use crate::go::FieldError;
use crate::values::names;
use Rule::{Code, Each};

/// The fields of a label selector.
pub(super) const LABEL_SELECTOR: Rules = &[Code(match_labels), Each("matchExpressions", REQUIREMENT)];

const REQUIREMENT: Rules = &[Code(operator), Code(requirement_key), Code(requirement_values)];

fn match_labels(selector: &Location<'_>, errors: &mut Errors) {
    labels_at(&selector.at("matchLabels"), selector.get("matchLabels"), errors);
}

/// A map of labels; errors have the path of the map.
pub(super) fn labels_at(path: &str, labels: Option<&Value>, errors: &mut Errors) {
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        for problem in names::check_qualified_name(key) {
            errors.push(FieldError::invalid(path, json!(key), problem));
        }
        for problem in names::check_label_value(value.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(path, value.clone(), problem));
        }
    }
}

fn operator(requirement: &Location<'_>, errors: &mut Errors) {
    let has_values = !requirement.list("values").is_empty();
    match requirement.text("operator") {
        "In" | "NotIn" if !has_values => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(requirement.at("values"), detail));
        }
        "Exists" | "DoesNotExist" if has_values => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(requirement.at("values"), detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            let field = requirement.at("operator");
            errors.push(FieldError::invalid(field, json!(other), "not a valid selector operator"));
        }
    }
}

fn requirement_key(requirement: &Location<'_>, errors: &mut Errors) {
    let key = requirement.text("key");
    for problem in names::check_qualified_name(key) {
        errors.push(FieldError::invalid(requirement.at("key"), json!(key), problem));
    }
}

fn requirement_values(requirement: &Location<'_>, errors: &mut Errors) {
    for (index, value) in requirement.list("values").iter().enumerate() {
        for problem in names::check_label_value(value.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(format!("{}[{index}]", requirement.at("values")), value.clone(), problem));
        }
    }
}

/// Whether labels fit a label selector.
pub(super) fn selects(selector: &Value, labels: &Value) -> bool {
    let fits = |(key, value): (&String, &Value)| labels.get(key) == Some(value);
    let expressions = selector["matchExpressions"].as_array().map(Vec::as_slice).unwrap_or_default();
    selector["matchLabels"].as_object().into_iter().flatten().all(fits)
        && expressions.iter().all(|expression| {
            let label = labels.get(expression["key"].as_str().unwrap_or_default());
            let listed =
                label.is_some_and(|label| expression["values"].as_array().is_some_and(|values| values.contains(label)));
            match expression["operator"].as_str().unwrap_or_default() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => label.is_some(),
                "DoesNotExist" => label.is_none(),
                _ => false,
            }
        })
}
