//! Equality of JSON values as Python has it.
//!
//! Whether a handler is called again depends on comparisons that Python operators have always
//! made with `==`, so diffs and value filters compare by this function and not by types.

use serde_json::{Number, Value};

/// Whether two values are equal as Python's `==` says: numbers and booleans by value
/// (`1`, `1.0` and `true` are equal), objects regardless of the order of keys.
///
/// Unlike in diffs, a null inside of objects and lists differs from an absent key here.
pub fn python_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Number(left), Value::Number(right)) => numbers_equal(left, right),
        (Value::Bool(flag), Value::Number(number)) | (Value::Number(number), Value::Bool(flag)) => {
            numbers_equal(number, &Number::from(u8::from(*flag)))
        }
        (Value::String(left), Value::String(right)) => left == right,
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| python_equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, left)| right.get(key).is_some_and(|right| python_equal(left, right)))
        }
        _ => false,
    }
}

fn numbers_equal(left: &Number, right: &Number) -> bool {
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => left == right,
        (None, None) => left.as_f64() == right.as_f64(),
        (Some(integer), None) => right.as_f64().is_some_and(|float| is_same(integer, float)),
        (None, Some(integer)) => left.as_f64().is_some_and(|float| is_same(integer, float)),
    }
}

/// Compares exactly, without rounding the integer to a float. The cast saturates for floats
/// out of range, and no 64-bit integer is as large as the saturated values.
fn is_same(integer: i128, float: f64) -> bool {
    float.fract() == 0.0 && float as i128 == integer
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equality() {
        let check = |left: Value, right: Value, expected: bool| {
            assert_eq!(python_equal(&left, &right), expected, "{left} == {right}");
            assert_eq!(python_equal(&right, &left), expected, "{right} == {left}");
        };
        check(json!(1), json!(1.0), true);
        check(json!(1), json!(true), true);
        check(json!(1.0), json!(true), true);
        check(json!(0), json!(false), true);
        check(json!(-0.0), json!(0), true);
        check(json!(2), json!(true), false);
        check(json!(1), json!("1"), false);
        check(json!(0), json!(null), false);
        check(json!(false), json!(null), false);
        check(json!([1, {"a": 1}]), json!([true, {"a": 1.0}]), true);
        check(json!([1]), json!([1, 1]), false);
        check(json!({"a": null}), json!({}), false);
        check(json!({"a": null}), json!({"b": null}), false);
        check(json!({"a": 1, "b": 2}), json!({"b": 2, "a": 1}), true);
        check(json!(9007199254740993u64), json!(9007199254740992.0), false);
        check(json!(9007199254740992u64), json!(9007199254740992.0), true);
        check(json!(u64::MAX), json!(18446744073709551616.0), false);
        check(json!(u64::MAX), json!(-1), false);
        check(json!(1), json!(1e300), false);
    }
}
