//! The users' functions in selectors and the patterns of namespaces, as discovery and the streams ask for them.

use std::sync::Arc;

use futures::future::BoxFuture;
use kopf_reaction::{Handler, Resource};
use regex_lite::Regex;

use super::TARGET;
use crate::front::{Front, SelectorCallbacks};
use crate::support::Log;

pub(super) struct FrontSelectorCallbacks {
    pub front: Arc<dyn Front>,
    pub handlers: Arc<[Arc<Handler>]>,
    /// They come first among the patterns.
    pub expressions: Vec<Regex>,
    pub log: Log,
}

impl SelectorCallbacks for FrontSelectorCallbacks {
    fn resource(&self, selector: usize, resource: Arc<Resource>) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let Some(handler) = self.handlers.get(selector) else { return false };
            let answer = self.front.select(handler.index, resource).await;
            answer.unwrap_or_else(|failure| {
                let text = format!("The selector of {} has failed: {}", handler.title(), failure.message);
                self.log.error(TARGET, text);
                false
            })
        })
    }

    fn setting(&self, index: usize, resource: Arc<Resource>) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            self.front.select(index, resource).await.unwrap_or_else(|failure| {
                self.log.error(TARGET, format!("A selector in the settings has failed: {}", failure.message));
                false
            })
        })
    }

    fn namespace(&self, pattern: usize, name: String) -> BoxFuture<'_, bool> {
        let matching = self.expressions.get(pattern).is_some_and(|expression| expression.is_match(&name));
        Box::pin(async move { matching })
    }
}
