//! Match conditions: CEL expressions that decide whether a webhook is called for a request.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::KubeCelExt;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, ExecutionError, Program, Value as CelValue};
use serde_json::Value;

use crate::values::cel;

/// One entry of `matchConditions`.
#[derive(Debug)]
pub(crate) struct MatchCondition {
    expression: String,
    /// The compiled expression, or why it does not compile; such a condition fails.
    program: Result<Program, String>,
}

/// The variables of a condition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConditionInput<'a> {
    pub object: Option<&'a Value>,
    pub old_object: Option<&'a Value>,
    /// The request of the review, without the objects.
    pub request: &'a Value,
}

impl MatchCondition {
    pub(crate) fn parse(condition: &Value) -> Self {
        let expression = condition["expression"].as_str().unwrap_or_default().to_owned();
        let program = cel::compile(&expression);
        Self { expression, program }
    }
}

/// Whether all conditions hold. A false condition takes precedence over a failing one.
pub(crate) fn all_hold(conditions: &[MatchCondition], seen: ConditionInput<'_>) -> Result<bool, String> {
    if conditions.is_empty() {
        return Ok(true);
    }
    let mut context = Context::default().with_all();
    let of = |value: Option<&Value>| value.map_or(CelValue::Null, convert);
    context.add_variable_from_value("object", of(seen.object));
    context.add_variable_from_value("oldObject", of(seen.old_object));
    context.add_variable_from_value("request", convert(seen.request));
    let mut failures = Vec::new();
    for condition in conditions {
        let outcome = match &condition.program {
            Ok(program) => cel::execute(program, &context).map_err(|error| failure(&error)),
            Err(reason) => Err(reason.clone()),
        };
        match outcome {
            Ok(CelValue::Bool(true)) => {}
            Ok(_) => return Ok(false),
            Err(reason) => {
                failures.push(format!("expression '{}' resulted in error: {reason}", condition.expression));
            }
        }
    }
    match failures.len() {
        0 => Ok(true),
        1 => Err(failures.swap_remove(0)),
        _ => Err(format!("[{}]", failures.join(", "))),
    }
}

fn failure(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::NoSuchOverload => "no such overload".to_owned(),
        other => other.to_string(),
    }
}

/// Data without a schema, as CEL sees it.
fn convert(value: &Value) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(flag) => CelValue::Bool(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => CelValue::Int(integer),
            None => CelValue::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => CelValue::String(Arc::new(text.clone())),
        Value::Array(items) => CelValue::List(Arc::new(items.iter().map(convert).collect())),
        Value::Object(fields) => {
            let converted = fields.iter().map(|(name, field)| (Key::String(Arc::new(name.clone())), convert(field)));
            CelValue::Map(Map { map: Arc::new(converted.collect::<HashMap<_, _>>()) })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_see_the_request_and_its_objects() {
        let object = json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"replicas": 3}});
        let request = json!({"operation": "CREATE", "userInfo": {"groups": ["system:nodes"]}, "dryRun": true});
        let missing = "expression 'object.nope.x == 1' resulted in error: no such key: nope";
        for (expressions, expected) in [
            (vec![], Ok(true)),
            (vec!["object.metadata.name == 'a'", "oldObject == null", "request.dryRun"], Ok(true)),
            (vec!["object.spec.replicas > 5"], Ok(false)),
            (vec!["!('system:nodes' in request.userInfo.groups)"], Ok(false)),
            (vec!["has(object.metadata.labels) && object.metadata.labels.x == 'y'"], Ok(true)),
            (vec!["object.nope.x == 1"], Err(missing.to_owned())),
            (vec!["object.nope.x == 1", "false"], Ok(false)),
            (vec!["object.nope.x == 1", "object.nope.x == 1"], Err(format!("[{missing}, {missing}]"))),
        ] {
            let conditions: Vec<MatchCondition> =
                expressions.iter().map(|text| MatchCondition::parse(&json!({"expression": text}))).collect();
            let seen = ConditionInput { object: Some(&object), old_object: None, request: &request };
            assert_eq!(all_hold(&conditions, seen), expected, "{expressions:?}");
        }
    }
}
