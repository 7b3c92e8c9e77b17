//! The background tasks of one object, as the memory of the object holds them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use kopf_object::Body;
use kopf_reaction::{Cause, Handler, HandlerSet, HandlerType, StopReasons};

use super::object_tasks::{ObjectTasks, TaskContext};
use super::{Background, fingerprint, lock};

/// The daemons and timers of one object. They stop when it is dropped.
pub(crate) struct TasksHandle {
    background: Background,
    pub(super) tasks: Arc<ObjectTasks>,
}

impl TasksHandle {
    pub(super) fn new(background: Background, tasks: Arc<ObjectTasks>) -> Self {
        Self { background, tasks }
    }

    /// The latest body is at least this one.
    pub(crate) fn update_body(&self, body: &Body) {
        self.tasks.update_body(body);
    }

    /// Restarts the waiting of timers that wait until the object is idle, if its essence has changed.
    pub(crate) fn essence_seen(&self, handlers: &HandlerSet, cause: &Cause) {
        let waits_until_idle =
            |handler: &Arc<Handler>| handler.handler_type == HandlerType::Timer && handler.background.idle.is_some();
        if handlers.background_handlers.iter().any(waits_until_idle) {
            let essence = fingerprint(cause);
            let follow_up = self.background.with_context(|context| self.tasks.essence_seen(essence, context));
            self.background.follow_up(&self.tasks, follow_up);
        }
    }

    /// The latest body, for the next decision.
    pub(crate) fn latest(&self) -> Option<Body> {
        Body::parse(self.tasks.raw()).ok()
    }
}

impl Drop for TasksHandle {
    fn drop(&mut self) {
        lock(&self.background.inner.all_tasks).remove(self.tasks.place);
        let exiting = self.background.inner.closing.load(Ordering::Acquire);
        let reason = if exiting { StopReasons::OPERATOR_EXITING } else { StopReasons::RESOURCE_DELETED };
        let forget = |context: TaskContext<'_>| self.tasks.forget(reason, context);
        let follow_up = self.background.with_context(forget);
        self.background.follow_up(&self.tasks, follow_up);
    }
}
