//! 4. The worker of one object: it does what `kopf-reaction` decides.
//!
//! The queue calls [`Reactor::pass`] with an object and a body. A pass is one or more cycles: the answer to the patch of a
//! cycle is the body of the next one, so that the next handler starts from it at once.

mod pass;
mod reactor;
mod cycles;
mod cycle;
mod driver;
mod indexes;
mod own_updates;
mod gone;
mod outcome;
mod memory;

pub(crate) use memory::ObjectMemory;
pub(crate) use pass::{AfterPass, ObjectInWork, Pass, ServedResource};
pub(crate) use reactor::{Reactor, ReactorDeps};
