//! Who patches the objects of one operator: for the cycles, and for the daemons and timers.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use kopf_object::{Body, ObjectReference};
use kopf_reaction::{Resource, Severity, diff_repr, python_repr};
use serde_json::{Map, Value};

use super::policy::ErrorPolicy;
use super::results::{Stored, store_result};
use super::target::{PatchDeps, PatchTarget};
use super::{Applied, IncompletePatch, ObjectPatch, PatchError};
use crate::discovery::schema::SchemaBook;
use crate::front::CycleContext;
use crate::support::log::OBJECTS;

pub(crate) struct Patcher {
    deps: PatchDeps,
    /// What the CRDs keep in the status.
    schemas: SchemaBook,
    /// The handlers whose results do not fit the schema, as far as the log has said so.
    warned: Mutex<BTreeSet<String>>,
}

impl Patcher {
    pub(crate) fn new(deps: PatchDeps, schemas: SchemaBook) -> Self {
        Self { deps, schemas, warned: Mutex::default() }
    }

    /// Patches the object.
    pub(crate) async fn apply(
        &self,
        context: &Arc<CycleContext>,
        body: &Body,
        patch: &ObjectPatch,
    ) -> Result<Applied, IncompletePatch> {
        let mut target = PatchTarget::of(&self.deps, context, body);
        match target.apply(context, body, patch).await {
            Ok(applied) => Ok(applied),
            Err(PatchError::Replaced) => Ok(Applied::Gone),
            Err(PatchError::Api(error)) if ErrorPolicy::of(&error) == ErrorPolicy::Gone => Ok(Applied::Gone),
            Err(error) => Err(IncompletePatch { error, latest: target.read().ok().flatten() }),
        }
    }

    /// Adds the result of a handler to the wanted patch, where the schema keeps it.
    pub(crate) fn add_result(
        &self,
        resource: &Resource,
        reference: &Arc<ObjectReference>,
        wanted: &mut Option<Value>,
        id: &Arc<str>,
        result: Value,
    ) {
        let schema = self.schemas.status_schema(resource);
        if let Stored::Nowhere { reason } = store_result(schema.as_deref(), wanted, id, result)
            && self.warned.lock().is_ok_and(|mut warned| warned.insert(id.to_string()))
        {
            let handler = python_repr(&Value::from(&**id));
            let text = format!("The result of handler {handler} cannot be stored: {reason}");
            self.deps.log.about(reference, Severity::Warning, text);
        }
    }

    /// Logs what is about to be sent, for debugging.
    pub(crate) fn log_patch(&self, reference: &Arc<ObjectReference>, patch: &ObjectPatch) {
        if !self.deps.log.enabled(Severity::Debug, OBJECTS) {
            return;
        }
        let mut whole = patch.wanted.clone().unwrap_or_else(|| Map::new().into());
        kopf_object::combine(&mut whole, patch.stored.as_value());
        if whole.as_object().is_some_and(|fields| !fields.is_empty()) {
            let text = format!("Merge-patching the resource with: {}", python_repr(&whole));
            self.deps.log.about(reference, Severity::Debug, text);
        }
    }

    /// Logs the outcome of a patch.
    pub(crate) fn log_outcome(&self, reference: &Arc<ObjectReference>, applied: &Applied) {
        match applied {
            Applied::Nothing => {}
            Applied::Gone => {
                let text = "Patching was skipped: the object does not exist anymore.".to_owned();
                self.deps.log.about(reference, Severity::Debug, text);
            }
            Applied::Patched { inconsistencies, refusals, .. } => {
                for refusal in refusals {
                    let text =
                        format!("The API has rejected a patch; what the handlers wanted there is lost: {refusal}");
                    self.deps.log.about(reference, Severity::Error, text);
                }
                if !inconsistencies.is_empty() {
                    let text = format!("Merge-patching finished with inconsistencies: {}", diff_repr(inconsistencies));
                    self.deps.log.about(reference, Severity::Warning, text);
                }
            }
        }
    }
}
