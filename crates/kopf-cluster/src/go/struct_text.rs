//! Values that the server prints as Go structs: all fields, in their order.

use serde_json::Value;

use super::go_json;

/// The fields of a struct: the name in objects, the name in quotes, and the fields below.
pub(crate) type StructFields = &'static [(&'static str, &'static str, FieldShape)];

/// How a field is shown.
#[derive(Clone, Copy)]
pub(crate) enum FieldShape {
    /// Unchanged; `null` if it is missing.
    Plain,
    /// A text; an empty one if it is missing.
    Text,
    /// Unchanged; omitted if it is missing.
    Optional,
    /// By its own fields.
    Struct(StructFields),
}

/// The text of a struct.
pub(crate) fn quote(value: &Value, fields: StructFields) -> String {
    let mut parts = Vec::new();
    for (name, shown, shape) in fields {
        let field = value.get(name).filter(|field| !field.is_null());
        let text = match (shape, field) {
            (FieldShape::Optional, None) => continue,
            (FieldShape::Text, None) => "\"\"".to_owned(),
            (_, None) => "null".to_owned(),
            (FieldShape::Struct(fields), Some(field)) => quote(field, fields),
            (FieldShape::Plain | FieldShape::Text | FieldShape::Optional, Some(field)) => go_json(field),
        };
        parts.push(format!("\"{shown}\":{text}"));
    }
    format!("{{{}}}", parts.join(","))
}

/// A label selector.
pub(crate) fn selector(value: &Value) -> String {
    const REQUIREMENT: StructFields = &[
        ("key", "key", FieldShape::Plain),
        ("operator", "operator", FieldShape::Plain),
        ("values", "values", FieldShape::Optional),
    ];
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
        const FIELDS: StructFields =
            &[("type", "Type", FieldShape::Plain), ("a", "A", FieldShape::Plain), ("b", "B", FieldShape::Optional)];
        assert_eq!(quote(&json!({"a": 1, "type": "x"}), FIELDS), r#"{"Type":"x","A":1}"#);
        assert_eq!(quote(&json!({"b": 2}), FIELDS), r#"{"Type":null,"A":null,"B":2}"#);
        let both = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}], "matchLabels": {"b": "c"}});
        let expected = r#"{"matchLabels":{"b":"c"},"matchExpressions":[{"key":"a","operator":"Exists"}]}"#;
        assert_eq!(selector(&both), expected);
    }
}
