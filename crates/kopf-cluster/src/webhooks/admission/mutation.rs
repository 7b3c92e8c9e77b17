//! Applies the patches of mutating webhooks, and checks the resulting object.

use serde_json::{Value, json};

use super::Admission;
use super::matching::Invocation;
use crate::builtin::complete;
use crate::codec::struct_types;
use crate::go::FieldError;
use crate::patching::{JsonPatchError, apply_json_patch};
use crate::request::status::StatusError;
use crate::webhooks::review;

impl Admission<'_> {
    /// Applies the patch of a webhook to an object, in the version that the webhook has seen.
    pub(super) fn patched(
        &self,
        invocation: &Invocation,
        key: &str,
        current: &Value,
        operations: Vec<Value>,
    ) -> Result<Value, StatusError> {
        let shown = self.in_version(&invocation.resource, &format!("{key}/new"), current)?;
        let patched = apply_json_patch(&shown, &Value::Array(operations)).map_err(|error| match error {
            JsonPatchError::Inapplicable(reason) => StatusError::internal(reason),
            other => StatusError::internal(other.to_string()),
        })?;
        let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&patched, "apiVersion"), text(&patched, "kind"));
        let is_custom = self.resource.custom().is_some() && self.subresource != "scale";
        let is_retyped = api_version != text(&shown, "apiVersion") || (kind != text(&shown, "kind") && !is_custom);
        if is_retyped && is_custom {
            let group = if api_version.contains('/') { "" } else { "/" };
            return Err(StatusError::bare(format!(
                "{group}{api_version}, Kind={kind} is unstructured and is not suitable for converting to \"{}\"",
                self.resource.api_version()
            )));
        }
        if is_retyped {
            return Err(StatusError::internal(review::not_registered(&api_version, &kind)));
        }
        let mut patched = patched;
        let is_whole = self.subresource.is_empty() || self.subresource == "status";
        if is_whole {
            if !is_custom && let Some(problem) = struct_types::type_error(&invocation.resource, &patched) {
                return Err(StatusError::internal(problem));
            }
            complete(&invocation.resource, &mut patched);
        }
        self.in_version(self.resource, &format!("{key}/back"), &patched)
    }

    /// Rejects a mutation that changes the namespace, the name or the uid of the object.
    pub(super) fn checked_identity(
        &self,
        before: &Value,
        old: Option<&Value>,
        mutated: Value,
    ) -> Result<Value, StatusError> {
        let text = |value: &Value, field: &str| value["metadata"][field].as_str().unwrap_or_default().to_owned();
        if text(&mutated, "namespace") != text(before, "namespace") {
            return Err(StatusError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        let Some(old) = old.filter(|_| self.subresource.is_empty() || self.subresource == "status") else {
            return Ok(mutated);
        };
        let mut errors = Vec::new();
        for field in ["name", "uid"] {
            let new = text(&mutated, field);
            if new != text(before, field) && new != text(old, field) {
                errors.push(FieldError::invalid(format!("metadata.{field}"), json!(new), "field is immutable"));
            }
        }
        match errors.is_empty() {
            true => Ok(mutated),
            false => {
                // A real server checks the metadata twice, so each cause is there twice.
                let twice: Vec<_> = errors.iter().chain(&errors).cloned().collect();
                let mut status_error = StatusError::invalid(self.resource, &text(&mutated, "name"), &twice);
                status_error.message = StatusError::invalid(self.resource, &text(&mutated, "name"), &errors).message;
                Err(status_error)
            }
        }
    }

    /// Restores the managed fields if a webhook has made them invalid, and warns the client.
    pub(super) fn restore_managed_fields(&self, before: &Value, mutated: &mut Value) {
        let entries = mutated["metadata"]["managedFields"].as_array().into_iter().flatten();
        let is_known = |entry: &Value| matches!(entry["operation"].as_str(), Some("Apply" | "Update"));
        if entries.into_iter().all(is_known) {
            if let Some(metadata) = mutated["metadata"].as_object_mut()
                && metadata.get("managedFields") == Some(&json!([]))
            {
                metadata.shift_remove("managedFields");
            }
            return;
        }
        mutated["metadata"]["managedFields"] = before["metadata"]["managedFields"].clone();
        self.request.replay.warn(
            ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated \
             mutating admission controller; please fix your requests: operation must be `Apply` or `Update`",
        );
    }

    /// Removes duplicate owner references, and warns the client.
    pub(super) fn drop_repeated_owners(&self, mutated: &mut Value) {
        let Some(owners) = mutated.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) else {
            return;
        };
        let mut kept: Vec<Value> = Vec::new();
        let mut repeated: Vec<String> = Vec::new();
        for owner in owners.drain(..) {
            match kept.contains(&owner) {
                true => repeated.push(owner["uid"].as_str().unwrap_or_default().to_owned()),
                false => kept.push(owner),
            }
        }
        *owners = kept;
        if !repeated.is_empty() {
            self.request.replay.warn(format!(
                ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server \
                 dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your \
                 requests; duplicate UID(s) observed: {}",
                repeated.join(", ")
            ));
        }
    }
}
