//! What daemons and timers have while they run: the request to stop, and the latest state of the object.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kopf_engine::LiveBody;
use kopf_object::Body;
use kopf_reaction::StopReasons;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::FromCall;
use crate::call::BackgroundCall;
use crate::error::{Error, Result};

/// Whether a daemon or a timer has to stop. Clones share the request.
///
/// ```
/// use std::time::Duration;
/// use kopf::extract::{Logger, Stopped};
/// use kopf::{Operator, on};
///
/// async fn watch_over(stopped: Stopped, logger: Logger) -> kopf::Result<()> {
///     while !stopped.wait_for(Duration::from_secs(10)).await {
///         logger.info("All is well.");
///     }
///     Ok(())
/// }
/// # let _: Operator = Operator::new().on(on::daemon("kopfexamples"), watch_over);
/// ```
#[derive(Clone)]
pub struct Stopped {
    reasons: watch::Receiver<StopReasons>,
    /// Keeps the channel open where the engine does not.
    _sender: Option<Arc<watch::Sender<StopReasons>>>,
}

impl Stopped {
    /// A request with these reasons, for calling handlers in tests; without any, it never comes.
    pub fn with(reasons: StopReasons) -> Self {
        let (sender, receiver) = watch::channel(reasons);
        Self { reasons: receiver, _sender: Some(Arc::new(sender)) }
    }

    /// Whether the handler has to stop.
    pub fn is_set(&self) -> bool {
        !self.reasons().is_empty()
    }

    /// Why the handler has to stop, and how far the stopping has come.
    pub fn reasons(&self) -> StopReasons {
        *self.reasons.borrow()
    }

    /// Waits until the handler has to stop.
    pub async fn wait(&self) {
        let mut reasons = self.reasons.clone();
        if reasons.wait_for(|reasons| !reasons.is_empty()).await.is_err() {
            // The sender is gone: the engine is about to drop the call.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the handler has to stop, up to the timeout. Returns whether it has to.
    pub async fn wait_for(&self, timeout: Duration) -> bool {
        // The flag says which of the two it was.
        let _ = tokio::time::timeout(timeout, self.wait()).await;
        self.is_set()
    }
}

impl fmt::Debug for Stopped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Stopped").field(&self.reasons()).finish()
    }
}

impl<S: Sync> FromCall<S, BackgroundCall> for Stopped {
    async fn from_call(call: &BackgroundCall, _: &S) -> Result<Self> {
        Ok(Self { reasons: call.background().stops.clone(), _sender: None })
    }
}

/// The latest state of the object, at every look: daemons see the object change while they run.
#[derive(Clone, Debug)]
pub struct Latest {
    live: Arc<LiveBody>,
}

impl Latest {
    /// The whole object, untyped.
    pub fn body(&self) -> Result<Body> {
        self.live.body().map_err(|error| Error::permanent(format!("the object cannot be read: {error}")))
    }

    /// The whole object, as one of kube's types.
    pub fn object<K: DeserializeOwned>(&self) -> Result<K> {
        Ok(serde_json::from_value(self.body()?.value().clone())?)
    }

    /// The spec of the object.
    pub fn spec<T: DeserializeOwned>(&self) -> Result<T> {
        Ok(serde_json::from_value(self.body()?.spec().clone().into())?)
    }

    /// The status of the object.
    pub fn status<T: DeserializeOwned>(&self) -> Result<T> {
        Ok(serde_json::from_value(self.body()?.status().clone().into())?)
    }
}

impl<S: Sync> FromCall<S, BackgroundCall> for Latest {
    async fn from_call(call: &BackgroundCall, _: &S) -> Result<Self> {
        Ok(Self { live: Arc::clone(&call.background().live) })
    }
}
