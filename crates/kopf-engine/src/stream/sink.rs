//! Where the items of a stream go: into the queue, or through a channel to a part that watches for itself.

use tokio::sync::mpsc;

use super::StreamItem;

/// Takes the items of one stream, in their order. A stream reads on only when its item is taken.
pub trait StreamSink: Send {
    fn deliver(&mut self, item: StreamItem) -> impl Future<Output = Result<(), SinkClosed>> + Send;
}

/// Nobody wants the items any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkClosed;

impl StreamSink for mpsc::Sender<StreamItem> {
    async fn deliver(&mut self, item: StreamItem) -> Result<(), SinkClosed> {
        self.send(item).await.map_err(|_| SinkClosed)
    }
}
