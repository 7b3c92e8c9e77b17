//! The validation of CRDs, with the errors of the server.
//!
//! `builtin/kinds.rs` calls [`check`] for every CRD that is created or changed. Errors in fields that all
//! versions share have the paths where the server keeps these fields, above the versions.

mod versions;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use crate::go::FieldError;
use crate::values::names::{check_label_1035, check_subdomain};
use versions::versions;

/// All errors in a CRD; `old` is its current state, if it exists already.
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

/// The groups of the Kubernetes project are protected.
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

/// Errors for changed fields that are immutable once the resources are served.
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
