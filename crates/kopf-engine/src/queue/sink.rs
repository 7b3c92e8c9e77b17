//! 3. The end of a stream: its items go directly into the queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kopf_reaction::EventType;

use super::{Origin, Queue};
use crate::stream::{SinkClosed, StreamItem, StreamSink};
use crate::support::ResourceKey;

/// Puts the items of one stream into the queue. A listing waits here for its budget.
pub(crate) struct QueueSink {
    queue: Queue,
    origin: Origin,
    /// How often the objects were listed so far, over all pauses of the operator.
    listings: Arc<AtomicU64>,
}

impl QueueSink {
    pub(crate) fn new(queue: Queue, resource: ResourceKey, stream: u64, listings: Arc<AtomicU64>) -> Self {
        let origin = Origin { resource, stream, listing: listings.load(Ordering::Relaxed) };
        Self { queue, origin, listings }
    }
}

impl StreamSink for QueueSink {
    async fn deliver(&mut self, item: StreamItem) -> Result<(), SinkClosed> {
        let Self { queue, origin, listings } = self;
        match item {
            StreamItem::ListStarted => origin.listing = listings.fetch_add(1, Ordering::Relaxed) + 1,
            StreamItem::Rewound => queue.rewind(origin.resource, origin.stream),
            StreamItem::ListDone => queue.list_done(*origin),
            StreamItem::Event { event: EventType::Listed, raw } => {
                let permit = queue.listing_budget(origin.resource, raw.len()).await;
                queue.push(*origin, EventType::Listed, raw, permit);
            }
            StreamItem::Event { event, raw } => queue.push(*origin, event, raw, None),
            StreamItem::Forbidden { .. } => {}
        }
        Ok(())
    }
}
