//! The handlers of one resource, grouped by what they react to.

use std::sync::Arc;

use kopf_object::FieldPath;

use super::handler::{Handler, HandlerType, deduplicated};
use super::resource::Resource;

/// The handlers of one resource.
#[derive(Clone, Debug, Default)]
pub struct HandlerSet {
    /// The resource that the handlers are for, if it is known.
    pub resource: Option<Arc<Resource>>,
    /// Handlers of events (`on.event`).
    pub event_handlers: Vec<Arc<Handler>>,
    /// Handlers of changes, with progress and retries.
    pub change_handlers: Vec<Arc<Handler>>,
    /// Handlers that fill in-memory indexes.
    pub index_handlers: Vec<Arc<Handler>>,
    /// Daemons and timers.
    pub background_handlers: Vec<Arc<Handler>>,
    /// The change handlers without repetitions: those that may have progress on the objects.
    pub distinct_change_handlers: Vec<Arc<Handler>>,
    /// The fields that handlers name: part of the essence, also in metadata and status.
    pub extra_fields: Vec<FieldPath>,
}

impl HandlerSet {
    /// Groups the handlers that match a resource. Conditions about other resources do not count here.
    pub fn for_resource(resource: &Arc<Resource>, matching: impl IntoIterator<Item = Arc<Handler>>) -> Self {
        Self { resource: Some(Arc::clone(resource)), ..Self::default() }.with_handlers(matching)
    }

    /// Groups handlers without knowing the resource: all their conditions count.
    pub fn from_handlers(handlers: impl IntoIterator<Item = Arc<Handler>>) -> Self {
        Self::default().with_handlers(handlers)
    }

    fn with_handlers(mut self, handlers: impl IntoIterator<Item = Arc<Handler>>) -> Self {
        let set = &mut self;
        for handler in handlers {
            // Index handlers see bodies, not changes: their fields do not belong to the essence.
            for field in handler.fields().filter(|_| handler.handler_type != HandlerType::Index) {
                if !set.extra_fields.contains(field) {
                    set.extra_fields.push(field.clone());
                }
            }
            let handler = set.narrowed(handler);
            match handler.handler_type {
                HandlerType::Event => set.event_handlers.push(handler),
                HandlerType::Change => set.change_handlers.push(handler),
                HandlerType::Index => set.index_handlers.push(handler),
                HandlerType::Daemon | HandlerType::Timer => set.background_handlers.push(handler),
                HandlerType::Activity | HandlerType::Webhook => {}
            }
        }
        set.distinct_change_handlers = deduplicated(set.change_handlers.clone());
        self
    }

    /// The handler without the conditions that are about other resources than that of the set.
    pub(crate) fn narrowed(&self, handler: Arc<Handler>) -> Arc<Handler> {
        match &self.resource {
            Some(resource) => handler.for_resource(resource),
            None => handler,
        }
    }

    /// Whether objects are only indexed.
    pub fn only_indexes(&self) -> bool {
        self.event_handlers.is_empty() && self.change_handlers.is_empty() && self.background_handlers.is_empty()
    }

    /// Whether the resource has no handlers at all.
    pub fn is_empty(&self) -> bool {
        self.only_indexes() && self.index_handlers.is_empty()
    }
}
