//! Panics in the tasks that an operator cannot do without. They are bugs of ours; but an operator that goes on
//! without its streams looks alive and does nothing, so that the crash is logged, the operator ends, and its supervisor starts it again.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use tokio::sync::watch;

use crate::Log;

const TARGET: &str = "kopf.engine";

/// Where the crashes of one operator are reported. Clones are the same.
#[derive(Clone)]
pub(crate) struct Crashes {
    first: watch::Sender<Option<String>>,
    log: Log,
}

impl Crashes {
    pub(crate) fn new(log: Log) -> Self {
        Self { first: watch::Sender::new(None), log }
    }

    /// The same task, but its crash is reported.
    pub(crate) async fn guard(self, what: String, task: impl Future<Output = ()>) {
        if let Err(text) = catch(&what, task).await {
            self.log.error(TARGET, format!("{text} This is a bug of the framework; the operator will stop."));
            self.first.send_if_modified(|first| first.is_none() && first.replace(text).is_none());
        }
    }

    /// Waits for the first crash.
    pub(crate) async fn reported(&self) -> String {
        let mut first = self.first.subscribe();
        match first.wait_for(Option::is_some).await.map(|text| text.clone()) {
            Ok(Some(text)) => text,
            // We hold the other side ourselves.
            _ => std::future::pending().await,
        }
    }
}

/// Does it, or tells about its crash: for what the operator can do without.
pub(crate) async fn catch<T>(what: &str, task: impl Future<Output = T>) -> Result<T, String> {
    let done = AssertUnwindSafe(task).catch_unwind().await;
    done.map_err(|panic| format!("{what} has crashed: {}", message_of(&*panic)))
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "for an unknown reason".to_owned()) + "."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_crash_is_reported() {
        let crashes = Crashes::new(Log::silent());
        crashes.clone().guard("The good one".into(), async {}).await;
        assert_eq!(crashes.reported().now_or_never(), None);
        crashes.clone().guard("The bad one".into(), async { panic!("no {}", 1) }).await;
        crashes.clone().guard("Another one".into(), async { panic!("late") }).await;
        assert_eq!(crashes.reported().await, "The bad one has crashed: no 1.");
    }
}
