//! The cycles of one object: what `kopf-reaction` decides is done here.

mod react;
mod indexes;
mod memory;

pub(crate) use indexes::IndexingMemory;
pub(crate) use memory::{ObjectMemory, Unapplied, Version, version_number};
pub(crate) use react::{After, OBJECTS, Reactor, ServedKind, Turn, level_of};
