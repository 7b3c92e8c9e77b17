//! The validation of CRDs, with the errors of the server.
//!
//! `builtin/kinds.rs` asks [`check`] for every CRD that is created or changed. Fields that all versions
//! share are told at the places where the server keeps them, above the versions.

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use crate::go::{FieldError, FieldErrorKind, crd_text};
use crate::schema::check_definition;
use crate::values::names::{check_label_1035, check_subdomain};

/// How many fields of a version can be selected by.
const MAX_SELECTABLE_FIELDS: usize = 8;

/// The longest warning about a deprecated version.
const MAX_DEPRECATION_WARNING: usize = 256;

/// All complaints about a CRD; with its current state if it is there already.
pub(crate) fn check(crd: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = &crd["spec"];
    let mut errors = Vec::new();
    let expected = format!("{}.{}", text(&spec["names"]["plural"]), text(&spec["group"]));
    if old.is_none() && text(&crd["metadata"]["name"]) != expected {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", crd["metadata"]["name"].clone(), detail));
    }
    errors.extend(group(spec));
    errors.extend(scope(spec));
    errors.extend(versions(spec));
    errors.extend(names(&spec["names"]));
    errors.extend(conversion(&spec["conversion"]));
    if spec["preserveUnknownFields"] == true && old.is_none_or(|old| old["spec"]["preserveUnknownFields"] != true) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema \
                      instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", json!(true), detail));
    }
    errors.extend(stored_versions(crd));
    errors.extend(approval(crd, old));
    if let Some(old) = old.filter(|old| crate::catalog::is_established(old)) {
        errors.extend(unchangeable(spec, &old["spec"]));
    }
    errors
}

fn group(spec: &Value) -> Option<FieldError> {
    let group = text(&spec["group"]);
    if group.is_empty() {
        return Some(FieldError::required("spec.group", ""));
    }
    if let Some(problem) = check_subdomain(group).pop() {
        return Some(FieldError::invalid("spec.group", json!(group), problem));
    }
    let detail = "should be a domain with at least one dot";
    (!group.contains('.')).then(|| FieldError::invalid("spec.group", json!(group), detail))
}

fn scope(spec: &Value) -> Option<FieldError> {
    let supported = ["Cluster".to_owned(), "Namespaced".to_owned()];
    match text(&spec["scope"]) {
        "Namespaced" | "Cluster" => None,
        "" => Some(FieldError::required("spec.scope", "")),
        _ => Some(FieldError::not_supported("spec.scope", spec["scope"].clone(), &supported)),
    }
}

fn versions(spec: &Value) -> Vec<FieldError> {
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

fn names(names: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["plural", "singular"] {
        let at = format!("spec.names.{field}");
        match text(&names[field]) {
            "" => errors.push(FieldError::required(at, "")),
            given => {
                let problems = check_label_1035(given).into_iter();
                errors.extend(problems.map(|problem| FieldError::invalid(at.clone(), json!(given), problem)));
            }
        }
    }
    let (kind, list_kind) = (text(&names["kind"]), text(&names["listKind"]));
    // Without a kind, the name of the list is made of nothing.
    let list_kind = if kind.is_empty() && list_kind == "List" { "" } else { list_kind };
    for (field, given) in [("kind", kind), ("listKind", list_kind)] {
        let at = format!("spec.names.{field}");
        if given.is_empty() {
            errors.push(FieldError::required(at, ""));
            continue;
        }
        for problem in check_label_1035(&given.to_lowercase()) {
            let detail = format!("may have mixed case, but should otherwise match: {problem}");
            errors.push(FieldError::invalid(at.clone(), json!(given), detail));
        }
    }
    for field in ["shortNames", "categories"] {
        for (index, given) in names[field].as_array().into_iter().flatten().enumerate() {
            let problems = check_label_1035(text(given)).into_iter();
            let at = format!("spec.names.{field}[{index}]");
            errors.extend(problems.map(|problem| FieldError::invalid(at.clone(), given.clone(), problem)));
        }
    }
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid("spec.names.listKind", json!(list_kind), detail));
    }
    errors
}

fn conversion(conversion: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let webhook = &conversion["webhook"];
    let versions = webhook["conversionReviewVersions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let versions_path = "spec.conversion.conversionReviewVersions";
    let client_path = "spec.conversion.webhookClientConfig";
    match text(&conversion["strategy"]) {
        "Webhook" => {
            let config = &webhook["clientConfig"];
            let (url, service) = (config["url"].as_str(), config["service"].as_object());
            match (config.is_object(), url, service) {
                (false, ..) => {
                    errors.push(FieldError::required(client_path, "required when strategy is set to Webhook"))
                }
                (true, Some(_), Some(_)) | (true, None, None) => {
                    errors.push(FieldError::required(client_path, "exactly one of url or service is required"));
                }
                (true, Some(url), None) => errors.extend(https_url(url, &format!("{client_path}.url"))),
                (true, None, Some(_)) => {}
            }
            if versions.is_empty() {
                errors.push(FieldError::required(versions_path, ""));
            } else if !versions.iter().any(|version| matches!(text(version), "v1" | "v1beta1")) {
                let detail = "must include at least one of v1, v1beta1";
                errors.push(FieldError::invalid(versions_path, json!(versions), detail));
            }
        }
        "None" => {
            let detail = "should not be set when strategy is not set to Webhook";
            if webhook["clientConfig"].is_object() {
                errors.push(FieldError::forbidden(client_path, detail));
            }
            if !versions.is_empty() {
                errors.push(FieldError::forbidden(versions_path, detail));
            }
        }
        "" => errors.push(FieldError::required("spec.conversion.strategy", "")),
        other => {
            let supported = ["None".to_owned(), "Webhook".to_owned()];
            errors.push(FieldError::not_supported("spec.conversion.strategy", json!(other), &supported));
        }
    }
    errors
}

fn https_url(url: &str, path: &str) -> Option<FieldError> {
    let form = "; desired format: https://host[/path]";
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{form}");
        return Some(FieldError::invalid(path, json!(scheme), detail));
    }
    let query = rest.split_once('?').map(|(_, query)| query);
    query.map(|query| FieldError::invalid(path, json!(query), "query parameters are not permitted in the URL"))
}

fn stored_versions(crd: &Value) -> Vec<FieldError> {
    let versions = crd["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let stored = crd["status"]["storedVersions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let path = "status.storedVersions";
    if stored.is_empty() {
        return vec![FieldError::invalid(path, Value::Null, "must have at least one stored version")];
    }
    let mut errors = Vec::new();
    for (index, version) in stored.iter().enumerate() {
        if !versions.iter().any(|known| known["name"] == *version) {
            let name = text(version);
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            );
            errors.push(FieldError::invalid(format!("{path}[{index}]"), version.clone(), detail));
        }
    }
    let last = versions.iter().rfind(|version| version["storage"] == true);
    if let Some(storage) = last.filter(|storage| !stored.contains(&storage["name"])) {
        let detail = format!("must have the storage version {}", text(&storage["name"]));
        errors.push(FieldError::invalid(path, json!(stored), detail));
    }
    errors
}

/// The groups of the project itself are protected.
fn approval(crd: &Value, old: Option<&Value>) -> Option<FieldError> {
    const ANNOTATION: &str = "api-approved.kubernetes.io";
    let group = text(&crd["spec"]["group"]);
    let is_protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
    if !is_protected || old.is_some() || crd["metadata"]["annotations"].get(ANNOTATION).is_some() {
        return None;
    }
    let detail = format!(
        "protected groups must have approval annotation \"{ANNOTATION}\", see \
         https://github.com/kubernetes/enhancements/pull/1111"
    );
    Some(FieldError::required(format!("metadata.annotations[{ANNOTATION}]"), detail))
}

/// What cannot be changed once the resources are served.
fn unchangeable(spec: &Value, old: &Value) -> Vec<FieldError> {
    [("group", "/group"), ("scope", "/scope"), ("names.plural", "/names/plural"), ("names.kind", "/names/kind")]
        .into_iter()
        .filter(|(_, pointer)| spec.pointer(pointer) != old.pointer(pointer))
        .map(|(field, pointer)| {
            let given = spec.pointer(pointer).cloned().unwrap_or_default();
            FieldError::invalid(format!("spec.{field}"), given, "field is immutable")
        })
        .collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
