//! The settings of the operator that the cycle depends on.

use crate::{DiffBaseStorage, Lifecycle, ProgressStorage};

/// The settings of the operator that the cycle depends on.
#[derive(Clone, Debug)]
pub struct ReactionSettings {
    /// The operator's finalizer.
    pub finalizer: String,
    /// Where the object keeps the progress of handlers.
    pub progress: ProgressStorage,
    /// Where the object keeps the last handled essence.
    pub diffbase: DiffBaseStorage,
    /// How batches choose among the due handlers.
    pub lifecycle: Lifecycle,
    /// Seconds after an arbitrary error, unless the handler declares its backoff.
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
    /// The same settings with compact storages. Storages that users have written stay unchanged.
    #[must_use]
    pub fn compacted(&self) -> Self {
        Self { progress: self.progress.compacted(), diffbase: self.diffbase.compacted(), ..self.clone() }
    }

    /// The same settings, but the storages also read what compact storages have left.
    #[must_use]
    pub fn expanded(&self) -> Self {
        Self { diffbase: self.diffbase.expanded(), ..self.clone() }
    }
}
