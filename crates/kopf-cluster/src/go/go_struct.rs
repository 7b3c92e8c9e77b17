//! Values that the server quotes by the fields of its own structs: all of them, in their order.

use serde_json::Value;

use super::go_json;

/// The fields of a struct: the name in objects, the name in quotes, and the fields below.
pub type Fields = &'static [(&'static str, &'static str, Shape)];

/// How a field is shown.
#[derive(Clone, Copy)]
pub enum Shape {
    /// As it is; `null` if it is missing.
    Plain,
    /// A text; an empty one if it is missing.
    Text,
    /// As it is; left out if it is missing.
    Optional,
    /// By its own fields.
    Struct(Fields),
}

/// The text of a struct.
pub fn quote(value: &Value, fields: Fields) -> String {
    let mut parts = Vec::new();
    for (name, shown, shape) in fields {
        let field = value.get(name).filter(|field| !field.is_null());
        let text = match (shape, field) {
            (Shape::Optional, None) => continue,
            (Shape::Text, None) => "\"\"".to_owned(),
            (_, None) => "null".to_owned(),
            (Shape::Struct(fields), Some(field)) => quote(field, fields),
            (Shape::Plain | Shape::Text | Shape::Optional, Some(field)) => go_json(field),
        };
        parts.push(format!("\"{shown}\":{text}"));
    }
    format!("{{{}}}", parts.join(","))
}

/// A label selector.
pub fn selector(value: &Value) -> String {
    const REQUIREMENT: Fields =
        &[("key", "key", Shape::Plain), ("operator", "operator", Shape::Plain), ("values", "values", Shape::Optional)];
    if !value.is_object() {
        return "null".to_owned();
    }
    let mut parts = Vec::new();
    if let Some(labels) =
        value.get("matchLabels").filter(|labels| labels.as_object().is_some_and(|map| !map.is_empty()))
    {
        parts.push(format!("\"matchLabels\":{}", go_json(labels)));
    }
    if let Some(list) = value.get("matchExpressions").and_then(Value::as_array).filter(|list| !list.is_empty()) {
        let items: Vec<String> = list.iter().map(|item| quote(item, REQUIREMENT)).collect();
        parts.push(format!("\"matchExpressions\":[{}]", items.join(",")));
    }
    format!("{{{}}}", parts.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_shown_in_the_order_of_the_struct() {
        const FIELDS: Fields = &[("type", "Type", Shape::Plain), ("a", "A", Shape::Plain), ("b", "B", Shape::Optional)];
        assert_eq!(quote(&json!({"a": 1, "type": "x"}), FIELDS), r#"{"Type":"x","A":1}"#);
        assert_eq!(quote(&json!({"b": 2}), FIELDS), r#"{"Type":null,"A":null,"B":2}"#);
        let both = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}], "matchLabels": {"b": "c"}});
        let expected = r#"{"matchLabels":{"b":"c"},"matchExpressions":[{"key":"a","operator":"Exists"}]}"#;
        assert_eq!(selector(&both), expected);
    }
}
