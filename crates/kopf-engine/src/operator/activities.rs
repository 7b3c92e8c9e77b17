//! The activities of one operator: startup, cleanup, and the login whenever credentials are needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::BoxFuture;
use kopf_reaction::{Activity, Handler};
use serde_json::Value;

use crate::calls::{ActivityError, Caller, logger_of, run_activity};
use crate::{ConnectionInfo, Login};

/// The delay after errors in activities that come before the settings are known.
const BACKOFF_SECONDS: f64 = 60.0;

pub(super) struct Activities {
    caller: Arc<Caller>,
    handlers: Vec<Arc<Handler>>,
    /// How many logins there were.
    logins: AtomicU64,
}

impl Activities {
    pub(super) fn new(caller: Arc<Caller>, handlers: Vec<Arc<Handler>>) -> Self {
        Self { caller, handlers, logins: AtomicU64::new(0) }
    }

    pub(super) async fn run(&self, activity: Activity) -> Result<Vec<(Arc<str>, Value)>, ActivityError> {
        let handlers = match activity {
            // Users may declare them while they acquire the resources that are to be cleaned up.
            Activity::Cleanup => &self.caller.front.activities().await.unwrap_or_else(|| self.handlers.clone()),
            Activity::Startup | Activity::Authentication | Activity::Probe => &self.handlers,
        };
        run_activity(&self.caller, activity, handlers, BACKOFF_SECONDS).await
    }
}

impl Login for Activities {
    fn login(&self) -> BoxFuture<'_, Result<Vec<ConnectionInfo>, String>> {
        Box::pin(async move {
            let target = logger_of(Activity::Authentication);
            let first = self.logins.fetch_add(1, Ordering::Relaxed) == 0;
            let title = if first { "Initial authentication" } else { "Re-authentication" };
            self.caller.log.info(target, format!("{title} has been initiated."));
            let results = self.run(Activity::Authentication).await.map_err(|error| error.to_string())?;
            if results.is_empty() {
                let reason = "no credentials were retrieved from the login handlers";
                self.caller.log.warn(target, format!("{title} has failed: {reason}."));
            } else {
                self.caller.log.info(target, format!("{title} has finished."));
            }
            let mut infos = Vec::with_capacity(results.len());
            for (id, result) in results {
                match serde_json::from_value::<ConnectionInfo>(result) {
                    Ok(info) => infos.push(info),
                    // The text of the error could show a part of a secret: only the handler is named.
                    Err(_) => {
                        let text = format!("The credentials of the login handler {id} cannot be understood.");
                        self.caller.log.error(target, text);
                    }
                }
            }
            Ok(infos)
        })
    }
}
