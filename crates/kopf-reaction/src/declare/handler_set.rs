//! The handlers of one resource, grouped by what they react to.

use std::sync::Arc;

use kopf_object::FieldPath;

use super::handler::{Handler, HandlerType, deduplicated};
use super::resource::Resource;

/// The handlers of one kind of objects.
#[derive(Clone, Debug, Default)]
pub struct HandlerSet {
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
    /// The handlers that serve a kind, out of all of an operator.
    pub fn of(resource: &Resource, handlers: &[Arc<Handler>]) -> Self {
        Self::from_handlers(handlers.iter().filter(|handler| handler.serves(resource)).cloned())
    }

    pub fn from_handlers(handlers: impl IntoIterator<Item = Arc<Handler>>) -> Self {
        let mut set = Self::default();
        for handler in handlers {
            // Indexes look at bodies, not at changes: their fields say nothing about the essence.
            let fields = handler.field.iter().chain(&handler.extra_fields);
            for field in fields.filter(|_| handler.handler_type != HandlerType::Index) {
                if !set.extra_fields.contains(field) {
                    set.extra_fields.push(field.clone());
                }
            }
            match handler.handler_type {
                HandlerType::Event => set.event_handlers.push(handler),
                HandlerType::Change => set.change_handlers.push(handler),
                HandlerType::Index => set.index_handlers.push(handler),
                HandlerType::Daemon | HandlerType::Timer => set.background_handlers.push(handler),
                HandlerType::Activity | HandlerType::Webhook => {}
            }
        }
        set.distinct_change_handlers = deduplicated(set.change_handlers.clone());
        set
    }

    /// There is nothing to be done with an object but to index it.
    pub fn only_indexes(&self) -> bool {
        self.event_handlers.is_empty() && self.change_handlers.is_empty() && self.background_handlers.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.only_indexes() && self.index_handlers.is_empty()
    }
}
