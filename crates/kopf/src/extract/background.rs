//! What daemons and timers have while they run: the request to stop, and the newest state of the object.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kopf_engine::LiveBody;
use kopf_object::Body;
use kopf_reaction::StopReasons;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::FromCall;
use crate::{Call, Error, Result};

/// Whether a daemon or a timer is to stop. Clones are the same request.
///
/// ```
/// use std::time::Duration;
/// use kopf::{Logger, Stopped};
///
/// async fn watch_over(stopped: Stopped, logger: Logger) -> kopf::Result<()> {
///     while !stopped.wait_for(Duration::from_secs(10)).await {
///         logger.info("All is well.");
///     }
///     Ok(())
/// }
/// # let _: kopf::Operator = kopf::Operator::new().on(kopf::daemon("kopfexamples"), watch_over);
/// ```
#[derive(Clone)]
pub struct Stopped {
    reasons: watch::Receiver<StopReasons>,
    /// Where there is nobody else to keep the channel open.
    _sender: Option<Arc<watch::Sender<StopReasons>>>,
}

impl Stopped {
    /// For tests of handlers: with these reasons from the beginning; none of them means that it never comes.
    pub fn with(reasons: StopReasons) -> Self {
        let (sender, receiver) = watch::channel(reasons);
        Self { reasons: receiver, _sender: Some(Arc::new(sender)) }
    }

    /// Whether it is to stop.
    pub fn is_set(&self) -> bool {
        !self.reasons().is_empty()
    }

    /// Why it is to stop, and how far the stopping has come.
    pub fn reasons(&self) -> StopReasons {
        *self.reasons.borrow()
    }

    /// Waits until it is to stop.
    pub async fn wait(&self) {
        let mut reasons = self.reasons.clone();
        if reasons.wait_for(|reasons| !reasons.is_empty()).await.is_err() {
            // The one who would tell is gone: the call itself is about to be dropped.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until it is to stop, but no longer than that; gives whether it is to stop.
    pub async fn wait_for(&self, timeout: Duration) -> bool {
        // It does not matter which of both it was: the flag tells.
        let _ = tokio::time::timeout(timeout, self.wait()).await;
        self.is_set()
    }
}

impl fmt::Debug for Stopped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Stopped").field(&self.reasons()).finish()
    }
}

impl<S: Sync> FromCall<S> for Stopped {
    async fn from_call(call: &Call, _: &S) -> Result<Self> {
        let background = call.background().ok_or_else(|| call.reject("it is neither a daemon nor a timer"))?;
        Ok(Self { reasons: background.stops.clone(), _sender: None })
    }
}

/// The object as it is now, at every look: for daemons, which see it change while they run.
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

impl<S: Sync> FromCall<S> for Latest {
    async fn from_call(call: &Call, _: &S) -> Result<Self> {
        let background = call.background().ok_or_else(|| call.reject("it is neither a daemon nor a timer"))?;
        Ok(Self { live: Arc::clone(&background.live) })
    }
}
