//! Managed fields: which manager owns which fields of an object.
//!
//! `admit.rs` records every create and update here; `verbs/patch.rs` calls [`apply_configuration`] for
//! server-side apply. The algorithms are in `patching/managed`. This file tells them the manager, the versions
//! of the kind, and the fields that a subresource never changes.

use std::cell::Cell;
use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::builtin::{convert, strategy};
use crate::catalog::{Catalog, ResourceType};
use crate::patching::managed::{
    ApplyError, FieldSet, FieldWrite, Unconverted, Versions, apply, keep_times_of_no_change, manager_name, record_write,
};
use crate::request::query::WriteOptions;
use crate::request::status::StatusError;
use crate::request::{Replay, Request};
use crate::schema::Schema;
use crate::state::State;
use crate::support::clock::timestamp;
use crate::webhooks::Converter;

/// Who writes, and which part of an object.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    manager: String,
    /// Empty for the object itself.
    subresource: String,
    /// The responses of conversion webhooks to the request; None for writes of the system, which need no
    /// conversion.
    replay: Option<Arc<Replay>>,
}

impl Writer {
    /// The client of a request.
    pub(crate) fn of(request: &Request, options: &WriteOptions, subresource: Option<&str>) -> Self {
        let manager = manager_name(options.field_manager.as_deref().unwrap_or_default(), request.user_agent());
        let replay = Some(Arc::clone(&request.replay));
        Self { manager, subresource: subresource.unwrap_or_default().to_owned(), replay }
    }

    /// A part of the system itself.
    pub(crate) fn system(manager: &str, subresource: &str) -> Self {
        Self { manager: manager.to_owned(), subresource: subresource.to_owned(), replay: None }
    }
}

/// Records a create, an update or a patch in the managed fields of the new state. The only error is
/// [`Replay::wait`], while the response of a conversion webhook is missing.
pub(crate) fn record(
    state: &State,
    resource: &ResourceType,
    writer: &Writer,
    old: Option<&Value>,
    new: &mut Value,
) -> Result<(), StatusError> {
    let ignored = untouched(resource, &writer.subresource);
    with_write(state, resource, writer, ignored, |write| record_write(write, old, new))
}

/// Restores the times of the managed fields if a write has changed nothing else.
pub(crate) fn keep_times(old: &Value, new: &mut Value) {
    keep_times_of_no_change(old, new);
}

/// Applies a configuration to an object, or makes a new object from it.
pub(crate) fn apply_configuration(
    state: &State,
    resource: &ResourceType,
    writer: &Writer,
    live: Option<&Value>,
    configuration: &Value,
    force: bool,
) -> Result<Value, StatusError> {
    let ignored = untouched(resource, &writer.subresource);
    with_write(state, resource, writer, ignored, |write| {
        apply(write, live, configuration, force).map_err(status_error)
    })?
}

fn with_write<T>(
    state: &State,
    resource: &ResourceType,
    writer: &Writer,
    ignored: &FieldSet,
    act: impl FnOnce(&FieldWrite<'_>) -> T,
) -> Result<T, StatusError> {
    let converter = writer.replay.as_deref().map(|replay| Converter { state, replay });
    let versions = KindVersions { catalog: state.catalog(), resource, converter, is_waiting: Cell::new(false) };
    let done = act(&FieldWrite {
        versions: &versions,
        api_version: resource.api_version(),
        manager: &writer.manager,
        subresource: &writer.subresource,
        ignored,
        now: &timestamp(state.now()),
    });
    match versions.is_waiting.get() {
        true => Err(Replay::wait()),
        false => Ok(done),
    }
}

/// The fields that a write to a subresource never changes.
fn untouched(resource: &ResourceType, subresource: &str) -> &'static FieldSet {
    static NOTHING: LazyLock<FieldSet> = LazyLock::new(FieldSet::default);
    static SPEC: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&[&["spec"]]));
    static STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&[&["status"]]));
    static SPEC_AND_METADATA: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&[&["spec"], &["metadata"]]));
    static SPEC_AND_LABELS: LazyLock<FieldSet> =
        LazyLock::new(|| FieldSet::of_fields(&[&["spec"], &["metadata", "labels"]]));
    static SPEC_AND_STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&[&["spec"], &["status"]]));
    static SPEC_AND_CONDITIONS: LazyLock<FieldSet> =
        LazyLock::new(|| FieldSet::of_fields(&[&["spec"], &["status", "conditions"]]));
    static SPEC_AND_CERTIFICATE: LazyLock<FieldSet> =
        LazyLock::new(|| FieldSet::of_fields(&[&["spec"], &["status", "certificate"]]));
    if resource.is("certificates.k8s.io", "certificatesigningrequests") {
        // Nobody owns the spec of a signing request: it is immutable.
        return match subresource {
            "status" => &SPEC_AND_CONDITIONS,
            "approval" => &SPEC_AND_CERTIFICATE,
            _ => &SPEC_AND_STATUS,
        };
    }
    match subresource {
        "status" if strategy::status_keeps_metadata(resource) => &SPEC_AND_METADATA,
        "status" if resource.is("apps", "deployments") => &SPEC_AND_LABELS,
        "status" => &SPEC,
        _ if resource.has_status() => &STATUS,
        _ => &NOTHING,
    }
}

fn status_error(error: ApplyError) -> StatusError {
    let message = error.to_string();
    match &error {
        ApplyError::BadRequest(_) => StatusError::bad_request(message),
        ApplyError::Untypable(_) => StatusError::bare(message),
        ApplyError::Conflicts(_) => {
            let mut status_error = StatusError::bare(message);
            status_error.code = 409;
            status_error.reason = "Conflict";
            *status_error.details = json!({"causes": error.causes()});
            status_error
        }
    }
}

/// The versions of a kind in the catalog. Most differ in their `apiVersion` only.
struct KindVersions<'a> {
    catalog: Arc<Catalog>,
    resource: &'a ResourceType,
    /// Calls the conversion webhook of the kind; None for writes of the system.
    converter: Option<Converter<'a>>,
    /// Whether a response of the webhook is missing, so that the result is invalid.
    is_waiting: Cell<bool>,
}

impl KindVersions<'_> {
    /// The kind in one of its versions.
    fn find(&self, api_version: &str) -> Option<&Arc<ResourceType>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let found = self.catalog.get(group, version, &self.resource.plural)?;
        (found.storage == self.resource.storage).then_some(found)
    }
}

impl Versions for KindVersions<'_> {
    fn schema(&self, api_version: &str) -> Option<Schema> {
        Some(self.find(api_version)?.schema().cloned().unwrap_or_else(Schema::of_anything))
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, Unconverted> {
        if let Some(converter) = self.converter.filter(|_| self.resource.conversion().is_some()) {
            // The key is the object itself, so that all fields of one object share one call.
            let key = format!("managed/{object}");
            return match converter.unpruned(self.resource, &key, object, api_version) {
                Some(converted) => converted.map_err(|status_error| Unconverted::Failed(status_error.message)),
                None => {
                    self.is_waiting.set(true);
                    Err(Unconverted::Failed("the answer of the webhook is awaited".to_owned()))
                }
            };
        }
        let mut converted = object.clone();
        let from = object["apiVersion"].as_str().and_then(|version| self.find(version));
        if let (Some(from), Some(to)) = (from, self.find(api_version))
            && from.custom().is_none()
            && from.api_version() != api_version
        {
            convert::to_storage(from, &mut converted);
            convert::from_storage(to, &mut converted);
        }
        converted["apiVersion"] = json!(api_version);
        Ok(converted)
    }

    fn may_misfit(&self) -> bool {
        // The system changes nothing that could fit one version only.
        self.resource.custom().is_some_and(|custom| custom.conversion.is_none() || self.converter.is_some())
    }
}
