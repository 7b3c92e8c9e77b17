//! Reads the response of an admission webhook: allowed, denied, patched, or invalid.
//!
//! `admission.rs` passes every response here. Errors have the exact texts of a real server, since users
//! find the mistakes in their webhooks by these texts.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::request::Answered;
use crate::request::status::StatusError;

/// The type of the webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Mutating,
    Validating,
}

/// A valid response of a webhook.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReviewResponse {
    pub warnings: Vec<String>,
    pub decision: Decision,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Decision {
    /// The webhook allows the request.
    Allowed,
    /// The webhook allows the request with the operations of this JSON patch.
    Patched(Vec<Value>),
    /// The webhook denies the request.
    Denied(Box<StatusError>),
}

/// Reads the response of a webhook; an error says why the call counts as failed.
pub(super) fn read(name: &str, version: &str, role: Role, answered: &Answered) -> Result<ReviewResponse, String> {
    let failed = |reason: String| format!("failed to call webhook: {reason}");
    let invalid = |reason: String| format!("received invalid webhook response: {reason}");
    let review = answered.outcome.as_ref().map_err(|reason| failed(reason.clone()))?;
    check_kind(review, version).map_err(failed)?;
    let Some(response) = review.get("response").filter(|response| !response.is_null()) else {
        return Err(invalid("webhook response was absent".to_owned()));
    };
    check_types(response).map_err(failed)?;
    let text = |field: &str| response.get(field).and_then(Value::as_str);
    if version == "v1" {
        let uid = text("uid").unwrap_or_default();
        if uid != answered.uid {
            return Err(invalid(format!("expected response.uid=\"{}\", got \"{uid}\"", answered.uid)));
        }
        let kind = go_kind(review);
        let expected = "admission.k8s.io/v1, Kind=AdmissionReview";
        if kind != expected {
            return Err(invalid(format!("expected webhook response of {expected}, got {kind}")));
        }
    }
    let patch = text("patch").map(|patch| STANDARD.decode(patch));
    let patch = match patch {
        Some(Ok(patch)) => Some(patch),
        Some(Err(_)) => return Err(failed("illegal base64 data at input byte 0".to_owned())),
        None => None,
    };
    let patch_type = text("patchType");
    check_patch(version, role, patch.as_deref(), patch_type).map_err(invalid)?;
    let warnings = response.get("warnings").and_then(Value::as_array).into_iter().flatten();
    let warnings = warnings.filter_map(Value::as_str).map(str::to_owned).collect();
    if response["allowed"] != true {
        let status_error = denial(name, response.get("status").unwrap_or(&Value::Null));
        return Ok(ReviewResponse { warnings, decision: Decision::Denied(Box::new(status_error)) });
    }
    let operations = match patch.filter(|patch| role == Role::Mutating && !patch.is_empty()) {
        Some(patch) => operations_of(&patch)?,
        None => Vec::new(),
    };
    if operations.is_empty() {
        return Ok(ReviewResponse { warnings, decision: Decision::Allowed });
    }
    match (version, patch_type) {
        ("v1", Some(other)) if other != "JSONPatch" => Err(format!("unsupported patch type \"{other}\"")),
        _ => Ok(ReviewResponse { warnings, decision: Decision::Patched(operations) }),
    }
}

/// The error that the client gets for a denial.
fn denial(name: &str, status: &Value) -> StatusError {
    let denied = format!("admission webhook \"{name}\" denied the request");
    let text = |field: &str| status.get(field).and_then(Value::as_str).unwrap_or_default();
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = status.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let code = code.filter(|code| *code >= 400).unwrap_or(400);
    let mut given = Map::new();
    given.insert("kind".into(), json!("Status"));
    given.insert("apiVersion".into(), json!("v1"));
    given.insert(
        "metadata".into(),
        status.get("metadata").filter(|value| value.is_object()).cloned().unwrap_or(json!({})),
    );
    let failed = match text("status") {
        "" | "Success" => "Failure",
        other => other,
    };
    given.insert("status".into(), json!(failed));
    given.insert("message".into(), json!(message));
    if !text("reason").is_empty() {
        given.insert("reason".into(), json!(text("reason")));
    }
    if let Some(details) = status.get("details").filter(|details| details.is_object()) {
        given.insert("details".into(), details.clone());
    }
    given.insert("code".into(), json!(code));
    StatusError::given(code, message, Value::Object(given))
}

/// A response may lack its kind, but must not have another one.
fn check_kind(review: &Value, version: &str) -> Result<(), String> {
    let text = |field: &str| review.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let expected = format!("admission.k8s.io/{version}");
    let is_expected =
        (api_version.is_empty() || api_version == expected) && (kind.is_empty() || kind == "AdmissionReview");
    if is_expected {
        return Ok(());
    }
    let readable = match (api_version, kind) {
        ("admission.k8s.io/v1", "AdmissionReview") => Some("v1.AdmissionReview"),
        ("admission.k8s.io/v1beta1", "AdmissionReview") => Some("v1beta1.AdmissionReview"),
        ("v1", "Status") => Some("v1.Status"),
        _ => None,
    };
    Err(match readable {
        Some(found) => format!("converting ({found}) to ({version}.AdmissionReview): unknown conversion"),
        None => not_registered(api_version, kind),
    })
}

/// The error of the server for unknown kinds.
pub(super) fn not_registered(api_version: &str, kind: &str) -> String {
    format!("no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/runtime/scheme.go:111\"")
}

fn check_types(response: &Value) -> Result<(), String> {
    let type_error = |value: &Value, field: &str, expected: &str| {
        let found = go_type(value);
        Err(format!(
            "json: cannot unmarshal {found} into Go struct field AdmissionResponse.response{field} of type {expected}"
        ))
    };
    if !response.is_object() {
        let found = go_type(response);
        return Err(format!(
            "json: cannot unmarshal {found} into Go struct field AdmissionReview.response of type v1.AdmissionResponse"
        ));
    }
    for (field, expected) in
        [("uid", "types.UID"), ("allowed", "bool"), ("patch", "[]uint8"), ("patchType", "v1.PatchType")]
    {
        let Some(value) = response.get(field).filter(|value| !value.is_null()) else { continue };
        let fits = if expected == "bool" { value.is_boolean() } else { value.is_string() };
        if !fits {
            return type_error(value, &format!(".{field}"), expected);
        }
    }
    if let Some(warnings) = response.get("warnings").filter(|value| !value.is_null()) {
        let Some(items) = warnings.as_array() else { return type_error(warnings, ".warnings", "[]string") };
        if let Some(item) = items.iter().find(|item| !item.is_string() && !item.is_null()) {
            return type_error(item, ".warnings", "string");
        }
    }
    match response.get("status") {
        Some(status) if !status.is_object() && !status.is_null() => type_error(status, ".status", "v1.Status"),
        _ => Ok(()),
    }
}

fn check_patch(version: &str, role: Role, patch: Option<&[u8]>, patch_type: Option<&str>) -> Result<(), String> {
    let has_patch = patch.is_some_and(|patch| !patch.is_empty());
    let problem = match (role, patch_type) {
        (Role::Validating, _) if patch.is_some() => "validating webhook may not return response.patch",
        (Role::Validating, Some(_)) if version == "v1" => "validating webhook may not return response.patchType",
        (Role::Mutating, None) if version == "v1" && has_patch => {
            "webhook returned response.patch but not response.patchType"
        }
        (Role::Mutating, Some(_)) if version == "v1" && !has_patch => {
            "webhook returned response.patchType but not response.patch"
        }
        (Role::Mutating, Some("")) if version == "v1" => "webhook returned invalid response.patchType of \"\"",
        _ => return Ok(()),
    };
    Err(problem.to_owned())
}

fn operations_of(patch: &[u8]) -> Result<Vec<Value>, String> {
    let undecodable = |reason: String| format!("received undecodable patch in webhook response: {reason}");
    match serde_json::from_slice(patch) {
        Ok(Value::Array(operations)) => Ok(operations),
        Ok(Value::Null) => Ok(Vec::new()),
        Ok(other) => {
            let found = go_type(&other);
            Err(undecodable(format!("json: cannot unmarshal {found} into Go value of type jsonpatch.Patch")))
        }
        Err(error) if error.is_eof() => Err(undecodable("unexpected end of JSON input".to_owned())),
        Err(_) => {
            let text = String::from_utf8_lossy(patch);
            let first = text.trim_start().chars().next().unwrap_or_default();
            Err(undecodable(format!("invalid character '{first}' looking for beginning of value")))
        }
    }
}

/// The kind of an object as Go prints it.
fn go_kind(review: &Value) -> String {
    let text = |field: &str| review.get(field).and_then(Value::as_str).unwrap_or_default();
    let api_version = match text("apiVersion") {
        "" => "/",
        given => given,
    };
    format!("{api_version}, Kind={}", text("kind"))
}

pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(role: Role, response: Value) -> Result<ReviewResponse, String> {
        let mut review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
        if let Some(fields) = review["response"].as_object_mut() {
            fields.entry("uid").or_insert(json!("u"));
        }
        read("a.b.c", "v1", role, &Answered { uid: "u".into(), outcome: Ok(review) })
    }

    #[test]
    fn denials_become_refusals() {
        for (status, code, message) in [
            (Value::Null, 400, "without explanation"),
            (json!({"message": "no"}), 400, ": no"),
            (json!({"reason": "Forbidden", "code": 403}), 403, ": Forbidden"),
            (json!({"message": "m", "code": 200}), 400, ": m"),
        ] {
            let reviewed = answer(Role::Validating, json!({"allowed": false, "status": status, "warnings": ["w"]}));
            let Ok(ReviewResponse { decision: Decision::Denied(status_error), warnings }) = reviewed else {
                panic!("{status}: {reviewed:?}")
            };
            assert_eq!((status_error.code, warnings), (code, vec!["w".to_owned()]));
            let expected = format!(
                "admission webhook \"a.b.c\" denied the request{}{message}",
                if message.starts_with(':') { "" } else { " " }
            );
            assert_eq!(status_error.to_value()["message"], expected);
        }
    }

    #[test]
    fn invalid_responses_are_failures() {
        let operations = STANDARD.encode(r#"[{"op":"add","path":"/x","value":1}]"#);
        let invalid = |text: &str| Err(format!("received invalid webhook response: {text}"));
        for (role, response, expected) in [
            (Role::Validating, Value::Null, invalid("webhook response was absent")),
            (Role::Validating, json!({"uid": "x"}), invalid("expected response.uid=\"u\", got \"x\"")),
            (
                Role::Validating,
                json!({"allowed": true, "patch": operations}),
                invalid("validating webhook may not return response.patch"),
            ),
            (
                Role::Mutating,
                json!({"allowed": true, "patch": operations}),
                invalid("webhook returned response.patch but not response.patchType"),
            ),
            (
                Role::Mutating,
                json!({"allowed": true, "patchType": "JSONPatch"}),
                invalid("webhook returned response.patchType but not response.patch"),
            ),
            (
                Role::Mutating,
                json!({"allowed": true, "patch": operations, "patchType": "MergePatch"}),
                Err("unsupported patch type \"MergePatch\"".to_owned()),
            ),
            (
                Role::Mutating,
                json!({"allowed": true, "patch": STANDARD.encode("{}"), "patchType": "JSONPatch"}),
                Err("received undecodable patch in webhook response: json: cannot unmarshal object into Go value of \
                     type jsonpatch.Patch"
                    .to_owned()),
            ),
            (
                Role::Validating,
                json!({"allowed": "yes"}),
                Err("failed to call webhook: json: cannot unmarshal string into Go struct field \
                     AdmissionResponse.response.allowed of type bool"
                    .to_owned()),
            ),
        ] {
            assert_eq!(answer(role, response.clone()).map(|_| ()), expected, "{response}");
        }
        let patched = answer(Role::Mutating, json!({"allowed": true, "patch": operations, "patchType": "JSONPatch"}));
        assert!(matches!(patched, Ok(ReviewResponse { decision: Decision::Patched(list), .. }) if list.len() == 1));
    }

    #[test]
    fn answers_of_other_kinds_are_failures() {
        for (api_version, kind, expected) in [
            (
                "v1",
                "ConfigMap",
                "failed to call webhook: no kind \"ConfigMap\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"",
            ),
            (
                "v1",
                "Status",
                "failed to call webhook: converting (v1.Status) to (v1.AdmissionReview): unknown conversion",
            ),
            (
                "",
                "",
                "received invalid webhook response: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
            ),
        ] {
            let review = json!({"apiVersion": api_version, "kind": kind, "response": {"uid": "u", "allowed": true}});
            let answered = Answered { uid: "u".into(), outcome: Ok(review) };
            assert_eq!(read("a.b.c", "v1", Role::Validating, &answered), Err(expected.to_owned()));
        }
    }
}
