//! What passes between the queue and the worker of an object.

use std::sync::Arc;
use std::time::Duration;

use kopf_object::Body;
use kopf_reaction::{EventType, HandlerSet, Resource, UpToDateCheck};
use tokio::time::Instant;

use super::memory::ObjectMemory;
use crate::calls::WorkerPermit;
use crate::support::ObjectKey;

/// One resource, and what serves it.
pub(crate) struct ServedResource {
    pub resource: Arc<Resource>,
    pub handlers: Arc<HandlerSet>,
    /// How objects look when they are up to date; None if only a whole cycle can tell.
    pub up_to_date: Option<UpToDateCheck>,
}

/// An object while a worker has it.
pub(crate) struct ObjectInWork<'a> {
    pub served: &'a ServedResource,
    pub key: &'a ObjectKey,
    pub memory: &'a mut ObjectMemory,
    pub permit: &'a mut WorkerPermit,
}

/// Why a worker visits an object.
pub(crate) struct Pass {
    pub body: Body,
    /// None if the body has waited for its time to come.
    pub event: Option<EventType>,
    /// The body is older than what is known already: for the event handlers only.
    pub outdated: bool,
    /// The handlers must wait until all indexes are complete.
    pub only_index: bool,
}

/// What the queue does with the object after a pass.
pub(crate) enum AfterPass {
    /// Nothing is pending.
    Idle,
    /// Another pass at that time, with this body unless a newer one comes.
    Requeue { when: Instant, body: Body },
    /// A pause after an error; newer bodies wait, too. Without a body: what was pending is still pending.
    Throttled { delay: Duration, body: Option<Body> },
    /// The body was outdated: what was pending is still pending.
    Unchanged,
    /// The object is indexed; its handlers must wait until all other objects are.
    Indexed,
    /// The object is gone.
    Forget,
}
