//! The validation of the versions of a CRD: schemas, columns, subresources, selectable fields.

use serde_json::{Value, json};

use super::text;
use crate::go::{FieldError, FieldErrorKind, crd_text};
use crate::schema::check_definition;
use crate::values::names::check_label_1035;

/// How many fields of a version can be selected by.
const MAX_SELECTABLE_FIELDS: usize = 8;

/// The longest warning about a deprecated version.
const MAX_DEPRECATION_WARNING: usize = 256;

/// All errors in the versions of a CRD.
pub(super) fn versions(spec: &Value) -> Vec<FieldError> {
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut errors = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        let name = text(&version["name"]);
        for problem in check_label_1035(name) {
            errors.push(FieldError::invalid(format!("{path}.name"), json!(name), problem));
        }
        errors.extend(deprecation(version, &path));
        if !shared(versions, "schema") {
            errors.extend(schema(&version["schema"], &path, &format!("{path}.schema.openAPIV3Schema")));
        }
        for (field, check) in PARTS {
            if !shared(versions, field) {
                errors.extend(check(version, &format!("{path}.{field}")));
            }
        }
    }
    let storages = versions.iter().filter(|version| version["storage"] == true).count();
    if storages != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::quoting(FieldErrorKind::Invalid, "spec.versions", &quoted(versions), detail));
    }
    let mut names: Vec<&str> = versions.iter().map(|version| text(&version["name"])).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        let detail = "must contain unique version names";
        errors.push(FieldError::quoting(FieldErrorKind::Invalid, "spec.versions", &quoted(versions), detail));
    }
    let Some(first) = versions.first() else { return errors };
    // The server knows the first version by an older field, too.
    let name = text(&first["name"]);
    for problem in check_label_1035(name).into_iter().filter(|_| !name.is_empty()) {
        errors.push(FieldError::invalid("spec.version", json!(name), problem));
    }
    if shared(versions, "schema") {
        errors.extend(schema(&first["schema"], "spec.versions[0]", "spec.validation.openAPIV3Schema"));
    }
    for (field, check) in PARTS {
        if shared(versions, field) {
            errors.extend(check(first, &format!("spec.{field}")));
        }
    }
    errors
}

type PartCheck = fn(&Value, &str) -> Vec<FieldError>;

/// The parts of a version that are kept above the versions if all of them share it.
const PARTS: [(&str, PartCheck); 3] =
    [("selectableFields", selectable_fields), ("additionalPrinterColumns", columns), ("subresources", subresources)];

fn shared(versions: &[Value], field: &str) -> bool {
    let of = |version: &Value| version.get(field).filter(|value| !value.is_null()).cloned();
    versions.windows(2).all(|pair| of(&pair[0]) == of(&pair[1]))
}

/// The versions as errors about all of them show them.
fn quoted(versions: &[Value]) -> String {
    crd_text::versions(versions, |field| shared(versions, field))
}

fn deprecation(version: &Value, path: &str) -> Option<FieldError> {
    let warning = version["deprecationWarning"].as_str()?;
    let problem = match warning.char_indices().find(|(_, character)| character.is_control()) {
        _ if version["deprecated"] != true => "can only be set for deprecated versions".to_owned(),
        Some((index, _)) => {
            format!("must only contain printable UTF-8 characters; non-printable character found at index {index}")
        }
        None if warning.is_empty() => "must not be an empty string".to_owned(),
        None if warning.len() > MAX_DEPRECATION_WARNING => {
            format!("must be <= {MAX_DEPRECATION_WARNING} characters long")
        }
        None => return None,
    };
    Some(FieldError::invalid(format!("{path}.deprecationWarning"), json!(warning), problem))
}

fn schema(schema: &Value, version_path: &str, path: &str) -> Vec<FieldError> {
    match &schema["openAPIV3Schema"] {
        Value::Null => vec![FieldError::required(format!("{version_path}.schema.openAPIV3Schema"), "")],
        given => check_definition(given, path),
    }
}

fn columns(version: &Value, path: &str) -> Vec<FieldError> {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    let mut errors = Vec::new();
    let columns = version["additionalPrinterColumns"].as_array().into_iter().flatten();
    for (index, column) in columns.enumerate() {
        let at = |field: &str| format!("{path}[{index}].{field}");
        let (kind, format, json_path) = (text(&column["type"]), text(&column["format"]), text(&column["jsonPath"]));
        if text(&column["name"]).is_empty() {
            errors.push(FieldError::required(at("name"), ""));
        }
        if kind.is_empty() {
            let detail = format!("must be one of {}", TYPES.join(","));
            errors.push(FieldError::required(at("type"), detail));
        } else if !TYPES.contains(&kind) {
            errors.push(FieldError::invalid(at("type"), json!(kind), format!("must be one of {}", TYPES.join(","))));
        }
        if !format.is_empty() && !FORMATS.contains(&format) {
            let detail = format!("must be one of {}", FORMATS.join(","));
            errors.push(FieldError::invalid(at("format"), json!(format), detail));
        }
        errors.extend(simple_path(json_path, at("JSONPath")));
    }
    errors
}

fn subresources(version: &Value, path: &str) -> Vec<FieldError> {
    let Some(scale) = version["subresources"].get("scale").filter(|scale| !scale.is_null()) else { return Vec::new() };
    let mut errors = Vec::new();
    for (field, allowed) in [
        ("specReplicasPath", "should be a json path under .spec"),
        ("statusReplicasPath", "should be a json path under .status"),
        ("labelSelectorPath", "should be a json path under either .spec or .status"),
    ] {
        let given = text(&scale[field]);
        if given.is_empty() && field == "labelSelectorPath" {
            continue;
        }
        let at = format!("{path}.scale.{field}");
        if let Some(error) = simple_path(given, at.clone()) {
            errors.push(error);
            continue;
        }
        let is_below = |part: &str| given.starts_with(part);
        let fits = match field {
            "specReplicasPath" => is_below(".spec."),
            "statusReplicasPath" => is_below(".status."),
            _ => is_below(".spec.") || is_below(".status."),
        };
        if !fits {
            errors.push(FieldError::invalid(at, json!(given), allowed));
        }
    }
    errors
}

fn simple_path(path: &str, at: String) -> Option<FieldError> {
    match path {
        "" => Some(FieldError::required(at, "")),
        path if !path.starts_with('.') => {
            Some(FieldError::invalid(at, json!(path), "must be a simple json path starting with ."))
        }
        _ => None,
    }
}

fn selectable_fields(version: &Value, path: &str) -> Vec<FieldError> {
    let fields = version["selectableFields"].as_array().map(Vec::as_slice).unwrap_or_default();
    if fields.len() > MAX_SELECTABLE_FIELDS {
        return vec![FieldError::too_many(path, fields.len() as i64, MAX_SELECTABLE_FIELDS as i64)];
    }
    let mut errors = Vec::new();
    let mut known: Vec<&str> = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        let given = text(&field["jsonPath"]);
        let at = format!("{path}[{index}].jsonPath");
        if given.is_empty() {
            errors.push(FieldError::required(at, ""));
            continue;
        }
        let found = field_schema(&version["schema"]["openAPIV3Schema"], given);
        match found.map(|schema| text(&schema["type"])) {
            _ if known.contains(&given) => errors.push(FieldError::duplicate(at, json!(given))),
            None => {
                let detail = "is an invalid path: does not refer to a valid field";
                errors.push(FieldError::invalid(at, json!(given), detail));
            }
            Some("string" | "boolean" | "integer") => {}
            Some(_) => {
                let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                              with formats are allowed.";
                errors.push(FieldError::invalid(at, json!(given), detail));
            }
        }
        known.push(given);
    }
    errors
}

fn field_schema<'a>(schema: &'a Value, path: &str) -> Option<&'a Value> {
    path.strip_prefix('.')?.split('.').try_fold(schema, |schema, name| schema["properties"].get(name))
}
