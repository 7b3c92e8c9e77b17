//! A handler as data: what a front declares about a user's function.
//!
//! The function itself stays with the front; here it is an index. The JSON of the Python front is
//! read as it is; the Rust front fills the same struct.

use std::collections::BTreeMap;
use std::sync::Arc;

use kopf_object::FieldPath;
use serde::Deserialize;

use super::background::BackgroundOptions;
use super::backoff::{Backoff, Seconds};
use super::condition::Condition;
use super::filter::Filter;
use super::reason::Reason;
use super::resource::Resource;
use super::selector::Selector;
use super::webhook::WebhookOptions;

/// A user's function plus its declaration.
#[derive(Clone, Debug, Deserialize)]
pub struct Handler {
    /// The front's own number of the function; unique within one operator.
    pub index: usize,
    /// The name under which the progress and the results are stored.
    pub id: Arc<str>,
    /// The identity of the function: the same function with the same id runs once per cycle.
    #[serde(rename = "fn", default)]
    pub function: u64,
    /// What it reacts to.
    #[serde(rename = "kind")]
    pub handler_type: HandlerType,
    /// Which activity it serves; None for resource handlers.
    #[serde(default)]
    pub activity: Option<Activity>,
    /// For which reason it is called; None means any (field handlers and sub-handlers).
    #[serde(default)]
    pub reason: Option<Reason>,
    /// Called only for objects that were there when the operator started (resuming).
    #[serde(default)]
    pub initial: bool,
    /// A resuming handler that is called for objects under deletion too.
    #[serde(default)]
    pub deleted: bool,
    /// The object must not disappear before this handler has had its turn.
    #[serde(default)]
    pub requires_finalizer: bool,
    /// Which kinds it serves; None in sub-handlers, which serve the kind of their parent.
    #[serde(default)]
    pub selector: Option<Selector>,
    #[serde(default)]
    pub labels: Option<BTreeMap<String, Filter>>,
    #[serde(default)]
    pub annotations: Option<BTreeMap<String, Filter>>,
    #[serde(default)]
    pub field: Option<FieldPath>,
    /// The field must differ between old and new, not just match.
    #[serde(default)]
    pub field_needs_change: bool,
    #[serde(default)]
    pub value: Option<Filter>,
    #[serde(default)]
    pub old: Option<Filter>,
    #[serde(default)]
    pub new: Option<Filter>,
    /// There is a callback on the whole cause.
    #[serde(default)]
    pub when: bool,
    /// More filters, of the function as a whole; decided after all others.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    #[serde(default)]
    pub errors: Option<ErrorsMode>,
    /// How long it may take, over all its attempts.
    #[serde(default)]
    pub timeout: Option<Seconds>,
    /// How many attempts it has.
    #[serde(default)]
    pub retries: Option<u32>,
    #[serde(default)]
    pub backoff: Option<Backoff>,
    /// How many calls of it may run at once, over all objects.
    #[serde(default)]
    pub concurrency: Option<usize>,
    /// A login handler that is used only when no other one is declared.
    #[serde(default)]
    pub fallback: bool,
    /// What only handlers of webhooks have.
    #[serde(default)]
    pub webhook: Option<WebhookOptions>,
    /// When daemons and timers run, and how they are stopped.
    #[serde(default)]
    pub background: BackgroundOptions,
}

/// What a handler reacts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HandlerType {
    /// The operator's own life: startup, cleanup, login, probes.
    Activity,
    /// Every event of an object, as it comes.
    #[serde(rename = "watching")]
    Event,
    /// Changes of an object, with progress and retries.
    #[serde(rename = "changing")]
    Change,
    /// Runs in the background, once per object, for as long as the object is there.
    Daemon,
    /// Runs in the background, again and again, for as long as the object is there.
    Timer,
    /// In-memory indexes.
    #[serde(rename = "indexing")]
    Index,
    /// Admission requests.
    Webhook,
}

/// The moments of an operator's life which have handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activity {
    Startup,
    Cleanup,
    Authentication,
    Probe,
}

/// What an arbitrary error of a handler means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ErrorsMode {
    /// As if the handler had succeeded, with no result.
    Ignored,
    /// To be retried.
    Temporary,
    /// The handler has failed for good.
    Permanent,
}

impl Handler {
    /// A declaration with nothing but its identity: the start of every builder and test.
    pub fn new(index: usize, id: &str, handler_type: HandlerType) -> Self {
        Self {
            index,
            id: id.into(),
            function: index as u64,
            handler_type,
            activity: None,
            reason: None,
            initial: false,
            deleted: false,
            requires_finalizer: false,
            selector: None,
            labels: None,
            annotations: None,
            field: None,
            field_needs_change: false,
            value: None,
            old: None,
            new: None,
            when: false,
            conditions: Vec::new(),
            errors: None,
            timeout: None,
            retries: None,
            backoff: None,
            concurrency: None,
            fallback: false,
            webhook: None,
            background: BackgroundOptions::default(),
        }
    }

    /// How the handler is called in the log.
    pub fn title(&self) -> String {
        let noun = match self.handler_type {
            HandlerType::Activity => "Activity",
            HandlerType::Index => "Indexer",
            HandlerType::Webhook => "Webhook",
            HandlerType::Daemon => "Daemon",
            HandlerType::Timer => "Timer",
            HandlerType::Event | HandlerType::Change => "Handler",
        };
        format!("{noun} {}", crate::text::repr_str(&self.id))
    }

    /// The fields that its filters look at: part of the essence wherever they are.
    pub(super) fn fields(&self) -> impl Iterator<Item = &FieldPath> {
        self.field.iter().chain(self.conditions.iter().filter_map(|condition| condition.field.as_ref()))
    }

    /// The handler without the conditions that are about other resources.
    pub(crate) fn for_resource(self: Arc<Self>, resource: &Resource) -> Arc<Self> {
        if self.conditions.iter().all(|condition| condition.concerns(resource)) {
            return self;
        }
        let mut handler = Self::clone(&self);
        handler.conditions.retain(|condition| condition.concerns(resource));
        Arc::new(handler)
    }
}

/// The same function with the same id counts once, however often it was declared.
pub(crate) fn deduplicated(handlers: Vec<Arc<Handler>>) -> Vec<Arc<Handler>> {
    let mut kept: Vec<Arc<Handler>> = Vec::with_capacity(handlers.len());
    for handler in handlers {
        if !kept.iter().any(|known| known.function == handler.function && known.id == handler.id) {
            kept.push(handler);
        }
    }
    kept
}
