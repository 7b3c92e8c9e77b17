//! The settings of the operator that the decisions depend on.

use crate::{DiffBaseStorage, Lifecycle, ProgressStorage};

/// The settings of the operator that matter for decisions.
#[derive(Clone, Debug)]
pub struct ReactionSettings {
    pub finalizer: String,
    pub progress: ProgressStorage,
    pub diffbase: DiffBaseStorage,
    pub lifecycle: Lifecycle,
    /// Seconds after an arbitrary error, where the handler does not say.
    pub default_backoff: f64,
}

impl Default for ReactionSettings {
    fn default() -> Self {
        Self {
            finalizer: "kopf.zalando.org/KopfFinalizerMarker".to_owned(),
            progress: ProgressStorage::default(),
            diffbase: DiffBaseStorage::default(),
            lifecycle: Lifecycle::default(),
            default_backoff: 60.0,
        }
    }
}

impl ReactionSettings {
    /// The same settings with everything in the status. Storages of the user are left as they are.
    #[must_use]
    pub fn compacted(&self) -> Self {
        Self { progress: self.progress.compacted(), diffbase: self.diffbase.compacted(), ..self.clone() }
    }

    /// The same settings, but what the compact storages have left is found.
    #[must_use]
    pub fn expanded(&self) -> Self {
        Self { diffbase: self.diffbase.expanded(), ..self.clone() }
    }
}
