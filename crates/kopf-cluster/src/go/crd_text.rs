//! Parts of CRDs as the server quotes them in its complaints: by the fields of its own structs,
//! all of them, in their order.

use serde_json::Value;

use super::go_json;

/// How a field is shown.
#[derive(Clone, Copy)]
enum Shown {
    /// As text; empty if it is missing.
    Text,
    /// As a number; 0 if it is missing.
    Number,
    /// True or false.
    Flag,
    /// As it is; `null` if it is missing.
    Plain,
    /// By fields of its own; `null` if it is missing.
    Struct(Fields),
    /// Items by their fields; `null` if there are none.
    List(Fields),
    /// A schema.
    Schema,
    /// A list of schemas.
    Schemas,
    /// Schemas by names.
    SchemaMap,
    /// A schema, or a list of them.
    SchemaOrList,
    /// A schema, or whether there may be anything.
    SchemaOrFlag,
}

/// The name in objects, the name in quotes, and how it is shown.
type Fields = &'static [(&'static str, &'static str, Shown)];

const VERSION: Fields = &[
    ("name", "Name", Shown::Text),
    ("served", "Served", Shown::Flag),
    ("storage", "Storage", Shown::Flag),
    ("deprecated", "Deprecated", Shown::Flag),
    ("deprecationWarning", "DeprecationWarning", Shown::Plain),
    ("schema", "Schema", Shown::Struct(&[("openAPIV3Schema", "OpenAPIV3Schema", Shown::Schema)])),
    ("subresources", "Subresources", Shown::Struct(SUBRESOURCES)),
    ("additionalPrinterColumns", "AdditionalPrinterColumns", Shown::List(COLUMN)),
    ("selectableFields", "SelectableFields", Shown::List(&[("jsonPath", "JSONPath", Shown::Text)])),
];

const SUBRESOURCES: Fields = &[
    ("status", "Status", Shown::Struct(&[])),
    (
        "scale",
        "Scale",
        Shown::Struct(&[
            ("specReplicasPath", "SpecReplicasPath", Shown::Text),
            ("statusReplicasPath", "StatusReplicasPath", Shown::Text),
            ("labelSelectorPath", "LabelSelectorPath", Shown::Plain),
        ]),
    ),
];

const COLUMN: Fields = &[
    ("name", "Name", Shown::Text),
    ("type", "Type", Shown::Text),
    ("format", "Format", Shown::Text),
    ("description", "Description", Shown::Text),
    ("priority", "Priority", Shown::Number),
    ("jsonPath", "JSONPath", Shown::Text),
];

const RULE: Fields = &[
    ("rule", "Rule", Shown::Text),
    ("message", "Message", Shown::Text),
    ("messageExpression", "MessageExpression", Shown::Text),
    ("reason", "Reason", Shown::Plain),
    ("fieldPath", "FieldPath", Shown::Text),
    ("optionalOldSelf", "OptionalOldSelf", Shown::Plain),
];

const SCHEMA: Fields = &[
    ("id", "ID", Shown::Text),
    ("$schema", "Schema", Shown::Text),
    ("$ref", "Ref", Shown::Plain),
    ("description", "Description", Shown::Text),
    ("type", "Type", Shown::Text),
    ("nullable", "Nullable", Shown::Flag),
    ("format", "Format", Shown::Text),
    ("title", "Title", Shown::Text),
    ("default", "Default", Shown::Plain),
    ("maximum", "Maximum", Shown::Plain),
    ("exclusiveMaximum", "ExclusiveMaximum", Shown::Flag),
    ("minimum", "Minimum", Shown::Plain),
    ("exclusiveMinimum", "ExclusiveMinimum", Shown::Flag),
    ("maxLength", "MaxLength", Shown::Plain),
    ("minLength", "MinLength", Shown::Plain),
    ("pattern", "Pattern", Shown::Text),
    ("maxItems", "MaxItems", Shown::Plain),
    ("minItems", "MinItems", Shown::Plain),
    ("uniqueItems", "UniqueItems", Shown::Flag),
    ("multipleOf", "MultipleOf", Shown::Plain),
    ("enum", "Enum", Shown::Plain),
    ("maxProperties", "MaxProperties", Shown::Plain),
    ("minProperties", "MinProperties", Shown::Plain),
    ("required", "Required", Shown::Plain),
    ("items", "Items", Shown::SchemaOrList),
    ("allOf", "AllOf", Shown::Schemas),
    ("oneOf", "OneOf", Shown::Schemas),
    ("anyOf", "AnyOf", Shown::Schemas),
    ("not", "Not", Shown::Schema),
    ("properties", "Properties", Shown::SchemaMap),
    ("additionalProperties", "AdditionalProperties", Shown::SchemaOrFlag),
    ("patternProperties", "PatternProperties", Shown::SchemaMap),
    ("dependencies", "Dependencies", Shown::Plain),
    ("additionalItems", "AdditionalItems", Shown::SchemaOrFlag),
    ("definitions", "Definitions", Shown::SchemaMap),
    ("externalDocs", "ExternalDocs", Shown::Plain),
    ("example", "Example", Shown::Plain),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields", Shown::Plain),
    ("x-kubernetes-embedded-resource", "XEmbeddedResource", Shown::Flag),
    ("x-kubernetes-int-or-string", "XIntOrString", Shown::Flag),
    ("x-kubernetes-list-map-keys", "XListMapKeys", Shown::Plain),
    ("x-kubernetes-list-type", "XListType", Shown::Plain),
    ("x-kubernetes-map-type", "XMapType", Shown::Plain),
    ("x-kubernetes-validations", "XValidations", Shown::List(RULE)),
];

/// The versions of a CRD, without the parts that are kept above them.
pub fn versions(versions: &[Value], is_shared: impl Fn(&str) -> bool) -> String {
    let shown = versions.iter().map(|version| {
        let mut version = version.clone();
        if let Value::Object(fields) = &mut version {
            fields.retain(|name, _| {
                let part = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];
                !(part.contains(&name.as_str()) && is_shared(name))
            });
        }
        fields_text(&version, VERSION)
    });
    format!("[{}]", shown.collect::<Vec<_>>().join(","))
}

/// A rule of `x-kubernetes-validations`.
pub fn rule(declared: &Value) -> String {
    fields_text(declared, RULE)
}

fn fields_text(value: &Value, fields: Fields) -> String {
    let parts = fields.iter().map(|(name, shown, how)| format!("\"{shown}\":{}", text(value.get(name), *how)));
    format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
}

fn text(value: Option<&Value>, how: Shown) -> String {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return match how {
            Shown::Text => "\"\"",
            Shown::Number => "0",
            Shown::Flag => "false",
            _ => "null",
        }
        .to_owned();
    };
    let list = |show: fn(&Value) -> String| match value.as_array().filter(|items| !items.is_empty()) {
        Some(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(",")),
        None => "null".to_owned(),
    };
    match how {
        Shown::Text | Shown::Number | Shown::Flag | Shown::Plain => go_json(value),
        Shown::Struct(fields) => fields_text(value, fields),
        Shown::List(fields) => match value.as_array().filter(|items| !items.is_empty()) {
            Some(items) => {
                let shown: Vec<String> = items.iter().map(|item| fields_text(item, fields)).collect();
                format!("[{}]", shown.join(","))
            }
            None => "null".to_owned(),
        },
        Shown::Schema => schema(value),
        Shown::Schemas => list(schema),
        Shown::SchemaMap => {
            let mut entries: Vec<_> = value.as_object().into_iter().flatten().collect();
            entries.sort_by_key(|(name, _)| *name);
            let shown: Vec<String> = entries
                .into_iter()
                .map(|(name, below)| format!("{}:{}", go_json(&Value::String(name.clone())), schema(below)))
                .collect();
            if shown.is_empty() { "null".to_owned() } else { format!("{{{}}}", shown.join(",")) }
        }
        Shown::SchemaOrList if value.is_array() => format!("{{\"Schema\":null,\"JSONSchemas\":{}}}", list(schema)),
        Shown::SchemaOrList => format!("{{\"Schema\":{},\"JSONSchemas\":null}}", schema(value)),
        Shown::SchemaOrFlag => match value {
            Value::Bool(allows) => format!("{{\"Allows\":{allows},\"Schema\":null}}"),
            below => format!("{{\"Allows\":true,\"Schema\":{}}}", schema(below)),
        },
    }
}

fn schema(value: &Value) -> String {
    fields_text(value, SCHEMA)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_are_quoted_as_by_the_server() {
        let v1 = json!({"name": "v1", "served": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
        assert_eq!(
            versions(std::slice::from_ref(&v1), |_| true),
            "[{\"Name\":\"v1\",\"Served\":true,\"Storage\":false,\"Deprecated\":false,\"DeprecationWarning\":null,\
             \"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}]"
        );
        let whole = versions(&[v1], |_| false);
        assert!(
            whole.contains("\"Schema\":{\"OpenAPIV3Schema\":{\"ID\":\"\",\"Schema\":\"\",\"Ref\":null,"),
            "{whole}"
        );
        assert_eq!(
            rule(&json!({"rule": "self > 1"})),
            "{\"Rule\":\"self \\u003e 1\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\
             \"FieldPath\":\"\",\"OptionalOldSelf\":null}"
        );
    }
}
