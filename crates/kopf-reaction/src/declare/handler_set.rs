//! The handlers of one resource, grouped by what they react to.

use std::sync::Arc;

use kopf_object::FieldPath;

use super::handler::{Handler, HandlerType, deduplicated};
use super::resource::Resource;

/// The handlers of one kind of objects.
#[derive(Clone, Debug, Default)]
pub struct HandlerSet {
    /// The resource that the handlers are for, if it is known.
    pub resource: Option<Arc<Resource>>,
    pub event_handlers: Vec<Arc<Handler>>,
    pub change_handlers: Vec<Arc<Handler>>,
    pub index_handlers: Vec<Arc<Handler>>,
    /// Daemons and timers.
    pub background_handlers: Vec<Arc<Handler>>,
    /// The change handlers without repetitions: whose progress can be on the objects.
    pub distinct_change_handlers: Vec<Arc<Handler>>,
    /// The fields that handlers name: part of the essence wherever they are.
    pub extra_fields: Vec<FieldPath>,
}

impl HandlerSet {
    /// Groups the handlers that match a resource. Conditions about other resources do not count here.
    pub fn for_resource(resource: &Arc<Resource>, matching: impl IntoIterator<Item = Arc<Handler>>) -> Self {
        Self { resource: Some(Arc::clone(resource)), ..Self::default() }.with_handlers(matching)
    }

    /// Groups handlers whatever resource they are for: all their conditions count.
    pub fn from_handlers(handlers: impl IntoIterator<Item = Arc<Handler>>) -> Self {
        Self::default().with_handlers(handlers)
    }

    fn with_handlers(mut self, handlers: impl IntoIterator<Item = Arc<Handler>>) -> Self {
        let set = &mut self;
        for handler in handlers {
            // Indexes look at bodies, not at changes: their fields say nothing about the essence.
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

    /// There is nothing to be done with an object but to index it.
    pub fn only_indexes(&self) -> bool {
        self.event_handlers.is_empty() && self.change_handlers.is_empty() && self.background_handlers.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.only_indexes() && self.index_handlers.is_empty()
    }
}
