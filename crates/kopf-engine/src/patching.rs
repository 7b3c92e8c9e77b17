//! 7. Patches: from the outcome of a cycle to the object in the cluster. Few patches; each answer is the latest body.
//!
//! The record that a change was handled goes last, or together with what goes last: if the operator dies before it is
//! written, the handler runs again instead of losing its result. So the status goes first, where it is a subresource;
//! the user's transformations go by the same JSON patch as the record. Finalizers and transformations test the version.
//! If an answer leaves open whether the patch was applied, an empty patch resolves it: its answer is the current object.
//! All merge patches name the uid of the object, so that another object under the same name is left alone.
//!
//! What an error means, for the object and for its status alike ([`ErrorPolicy`]):
//!
//! | answer | policy |
//! |---|---|
//! | 404 | The object is gone: nothing is left to be done. |
//! | 400, 405, 413, 415, 422, other 4xx | The content is rejected: an error in the log; the record is stored without it. |
//! | 409, and 422 by a version test | Retried on the latest state: at once, then by the backoffs; then throttled. |
//! | 5xx, time-outs, lost connections | Retried by the backoffs, each time with a line in the log; then throttled. |
//! | 429 | Retried after the time that the server asks for, by the backoffs; then throttled. |
//! | 401, 403 | Throttled: permissions come and go. |
//!
//! Throttled means: the object pauses, and the same patch is sent afterwards. No handler is called again for it.

mod patcher;
mod target;
mod policy;
mod latest;
mod results;

use kopf_object::{Diff, MergePatch};
use kopf_reaction::FinalizerChange;
use serde_json::Value;

pub(crate) use latest::Latest;
pub(crate) use patcher::Patcher;
pub(crate) use policy::{IncompletePatch, PatchError};
pub(crate) use target::PatchDeps;

use crate::ApiError;

/// What is to be changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectPatch {
    /// What the user's code wants.
    pub wanted: Option<Value>,
    /// What the framework stores.
    pub stored: MergePatch,
    /// What the framework stores is a part of what the user's code wants, by a storage of the user.
    pub stored_by_user: bool,
    /// There are transformations of the user.
    pub transformations: bool,
    pub finalizer: Option<FinalizerChange>,
    /// Probably, nobody will need the whole object after it.
    pub is_last: bool,
}

impl ObjectPatch {
    pub(crate) fn is_empty(&self) -> bool {
        let has_data = self.wanted.as_ref().and_then(Value::as_object).is_some_and(|wanted| !wanted.is_empty());
        !has_data && self.stored.is_empty() && !self.transformations && self.finalizer.is_none()
    }
}

/// The outcome of a patch.
#[derive(Debug)]
pub(crate) enum Applied {
    /// There was nothing to do.
    Nothing,
    /// The latest state, what is not as it was wanted, and what the API did not accept.
    Patched { latest: Latest, inconsistencies: Diff, refusals: Vec<ApiError> },
    /// The object is not there any more.
    Gone,
}
