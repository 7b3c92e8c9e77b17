//! The request to stop, as the fronts make it and every part of the engine sees it.

use std::sync::Arc;

use tokio::sync::watch;

/// A handle to stop an operator; clones are the same request.
#[derive(Clone, Debug)]
pub struct Stop {
    reason: Arc<watch::Sender<Option<String>>>,
}

impl Stop {
    pub fn new() -> Self {
        Self { reason: Arc::new(watch::Sender::new(None)) }
    }

    /// Asks to stop; only the first request counts.
    pub fn request(&self, reason: &str) {
        self.reason.send_if_modified(|known| {
            let first = known.is_none();
            known.get_or_insert_with(|| reason.to_owned());
            first
        });
    }

    /// Waits for the request, and gives its reason.
    pub async fn requested(&self) -> String {
        let mut receiver = self.reason.subscribe();
        match receiver.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            // The sender lives as long as this handle does.
            Err(_) => String::new(),
        }
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_reason_counts() {
        let stop = Stop::new();
        let other = stop.clone();
        stop.request("a signal");
        stop.request("another one");
        assert_eq!(other.requested().await, "a signal");
    }
}
