//! Parts of CRDs as the server quotes them in its errors: all fields of the server's structs, in
//! their order.

use serde_json::Value;

use super::go_json;

/// How a field is shown.
#[derive(Clone, Copy)]
enum QuotedAs {
    /// As text; empty if it is missing.
    Text,
    /// As a number; 0 if it is missing.
    Number,
    /// True or false.
    Flag,
    /// Unchanged; `null` if it is missing.
    Plain,
    /// As a struct; `null` if it is missing.
    Struct(QuotedFields),
    /// Items by their fields; `null` if there are none.
    List(QuotedFields),
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
type QuotedFields = &'static [(&'static str, &'static str, QuotedAs)];

const VERSION: QuotedFields = &[
    ("name", "Name", QuotedAs::Text),
    ("served", "Served", QuotedAs::Flag),
    ("storage", "Storage", QuotedAs::Flag),
    ("deprecated", "Deprecated", QuotedAs::Flag),
    ("deprecationWarning", "DeprecationWarning", QuotedAs::Plain),
    ("schema", "Schema", QuotedAs::Struct(&[("openAPIV3Schema", "OpenAPIV3Schema", QuotedAs::Schema)])),
    ("subresources", "Subresources", QuotedAs::Struct(SUBRESOURCES)),
    ("additionalPrinterColumns", "AdditionalPrinterColumns", QuotedAs::List(COLUMN)),
    ("selectableFields", "SelectableFields", QuotedAs::List(&[("jsonPath", "JSONPath", QuotedAs::Text)])),
];

const SUBRESOURCES: QuotedFields = &[
    ("status", "Status", QuotedAs::Struct(&[])),
    (
        "scale",
        "Scale",
        QuotedAs::Struct(&[
            ("specReplicasPath", "SpecReplicasPath", QuotedAs::Text),
            ("statusReplicasPath", "StatusReplicasPath", QuotedAs::Text),
            ("labelSelectorPath", "LabelSelectorPath", QuotedAs::Plain),
        ]),
    ),
];

const COLUMN: QuotedFields = &[
    ("name", "Name", QuotedAs::Text),
    ("type", "Type", QuotedAs::Text),
    ("format", "Format", QuotedAs::Text),
    ("description", "Description", QuotedAs::Text),
    ("priority", "Priority", QuotedAs::Number),
    ("jsonPath", "JSONPath", QuotedAs::Text),
];

const RULE: QuotedFields = &[
    ("rule", "Rule", QuotedAs::Text),
    ("message", "Message", QuotedAs::Text),
    ("messageExpression", "MessageExpression", QuotedAs::Text),
    ("reason", "Reason", QuotedAs::Plain),
    ("fieldPath", "FieldPath", QuotedAs::Text),
    ("optionalOldSelf", "OptionalOldSelf", QuotedAs::Plain),
];

const SCHEMA: QuotedFields = &[
    ("id", "ID", QuotedAs::Text),
    ("$schema", "Schema", QuotedAs::Text),
    ("$ref", "Ref", QuotedAs::Plain),
    ("description", "Description", QuotedAs::Text),
    ("type", "Type", QuotedAs::Text),
    ("nullable", "Nullable", QuotedAs::Flag),
    ("format", "Format", QuotedAs::Text),
    ("title", "Title", QuotedAs::Text),
    ("default", "Default", QuotedAs::Plain),
    ("maximum", "Maximum", QuotedAs::Plain),
    ("exclusiveMaximum", "ExclusiveMaximum", QuotedAs::Flag),
    ("minimum", "Minimum", QuotedAs::Plain),
    ("exclusiveMinimum", "ExclusiveMinimum", QuotedAs::Flag),
    ("maxLength", "MaxLength", QuotedAs::Plain),
    ("minLength", "MinLength", QuotedAs::Plain),
    ("pattern", "Pattern", QuotedAs::Text),
    ("maxItems", "MaxItems", QuotedAs::Plain),
    ("minItems", "MinItems", QuotedAs::Plain),
    ("uniqueItems", "UniqueItems", QuotedAs::Flag),
    ("multipleOf", "MultipleOf", QuotedAs::Plain),
    ("enum", "Enum", QuotedAs::Plain),
    ("maxProperties", "MaxProperties", QuotedAs::Plain),
    ("minProperties", "MinProperties", QuotedAs::Plain),
    ("required", "Required", QuotedAs::Plain),
    ("items", "Items", QuotedAs::SchemaOrList),
    ("allOf", "AllOf", QuotedAs::Schemas),
    ("oneOf", "OneOf", QuotedAs::Schemas),
    ("anyOf", "AnyOf", QuotedAs::Schemas),
    ("not", "Not", QuotedAs::Schema),
    ("properties", "Properties", QuotedAs::SchemaMap),
    ("additionalProperties", "AdditionalProperties", QuotedAs::SchemaOrFlag),
    ("patternProperties", "PatternProperties", QuotedAs::SchemaMap),
    ("dependencies", "Dependencies", QuotedAs::Plain),
    ("additionalItems", "AdditionalItems", QuotedAs::SchemaOrFlag),
    ("definitions", "Definitions", QuotedAs::SchemaMap),
    ("externalDocs", "ExternalDocs", QuotedAs::Plain),
    ("example", "Example", QuotedAs::Plain),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields", QuotedAs::Plain),
    ("x-kubernetes-embedded-resource", "XEmbeddedResource", QuotedAs::Flag),
    ("x-kubernetes-int-or-string", "XIntOrString", QuotedAs::Flag),
    ("x-kubernetes-list-map-keys", "XListMapKeys", QuotedAs::Plain),
    ("x-kubernetes-list-type", "XListType", QuotedAs::Plain),
    ("x-kubernetes-map-type", "XMapType", QuotedAs::Plain),
    ("x-kubernetes-validations", "XValidations", QuotedAs::List(RULE)),
];

/// The versions of a CRD, without the parts that are kept above them.
pub(crate) fn versions(versions: &[Value], is_shared: impl Fn(&str) -> bool) -> String {
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
pub(crate) fn rule(declared: &Value) -> String {
    fields_text(declared, RULE)
}

fn fields_text(value: &Value, fields: QuotedFields) -> String {
    let parts = fields.iter().map(|(name, shown, how)| format!("\"{shown}\":{}", text(value.get(name), *how)));
    format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
}

fn text(value: Option<&Value>, how: QuotedAs) -> String {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return match how {
            QuotedAs::Text => "\"\"",
            QuotedAs::Number => "0",
            QuotedAs::Flag => "false",
            _ => "null",
        }
        .to_owned();
    };
    let list = |show: fn(&Value) -> String| match value.as_array().filter(|items| !items.is_empty()) {
        Some(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(",")),
        None => "null".to_owned(),
    };
    match how {
        QuotedAs::Text | QuotedAs::Number | QuotedAs::Flag | QuotedAs::Plain => go_json(value),
        QuotedAs::Struct(fields) => fields_text(value, fields),
        QuotedAs::List(fields) => match value.as_array().filter(|items| !items.is_empty()) {
            Some(items) => {
                let shown: Vec<String> = items.iter().map(|item| fields_text(item, fields)).collect();
                format!("[{}]", shown.join(","))
            }
            None => "null".to_owned(),
        },
        QuotedAs::Schema => schema(value),
        QuotedAs::Schemas => list(schema),
        QuotedAs::SchemaMap => {
            let mut entries: Vec<_> = value.as_object().into_iter().flatten().collect();
            entries.sort_by_key(|(name, _)| *name);
            let shown: Vec<String> = entries
                .into_iter()
                .map(|(name, below)| format!("{}:{}", go_json(&Value::String(name.clone())), schema(below)))
                .collect();
            if shown.is_empty() { "null".to_owned() } else { format!("{{{}}}", shown.join(",")) }
        }
        QuotedAs::SchemaOrList if value.is_array() => format!("{{\"Schema\":null,\"JSONSchemas\":{}}}", list(schema)),
        QuotedAs::SchemaOrList => format!("{{\"Schema\":{},\"JSONSchemas\":null}}", schema(value)),
        QuotedAs::SchemaOrFlag => match value {
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
