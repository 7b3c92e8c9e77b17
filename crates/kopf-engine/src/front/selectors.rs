//! The users' functions in selectors of resources and patterns of namespaces.

use std::sync::Arc;

use futures::future::BoxFuture;
use kopf_reaction::Resource;

/// The user's functions about resources and namespaces, asked on the side of the front.
pub trait SelectorCallbacks: Send + Sync {
    /// The answer of the callback of the selector at the index.
    fn resource(&self, selector: usize, resource: Arc<Resource>) -> BoxFuture<'_, bool>;

    /// The answer of a callback in the settings, by the index that the front has given to it.
    fn setting(&self, index: usize, resource: Arc<Resource>) -> BoxFuture<'_, bool>;

    /// The answer of the callback of the namespace pattern at the index.
    fn namespace(&self, pattern: usize, name: String) -> BoxFuture<'_, bool>;
}

/// For operators without such functions.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSelectorCallbacks;

impl SelectorCallbacks for NoSelectorCallbacks {
    fn resource(&self, _: usize, _: Arc<Resource>) -> BoxFuture<'_, bool> {
        Box::pin(async { false })
    }

    fn setting(&self, _: usize, _: Arc<Resource>) -> BoxFuture<'_, bool> {
        Box::pin(async { false })
    }

    fn namespace(&self, _: usize, _: String) -> BoxFuture<'_, bool> {
        Box::pin(async { false })
    }
}
