//! A handler as data: what a front declares about a user's function.
//!
//! The function itself stays with the front; here it is an index. The Python front sends declarations as JSON; the
//! Rust front fills the same struct.

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

/// The declaration of a user's function.
///
/// ```
/// use kopf_reaction::{Handler, HandlerType, Reason};
/// use serde_json::json;
///
/// let mut handler = Handler::new(0, "create_fn", HandlerType::Change);
/// handler.reason = Some(Reason::Create);
/// assert_eq!(handler.title(), "Handler 'create_fn'");
///
/// // The Python front sends the same as JSON.
/// let json = json!({"index": 0, "id": "create_fn", "kind": "changing", "reason": "create"});
/// let declared: Handler = serde_json::from_value(json)?;
/// assert_eq!((declared.handler_type, declared.reason), (handler.handler_type, handler.reason));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Deserialize)]
pub struct Handler {
    /// The front's own number of the function; unique within one operator.
    pub index: usize,
    /// The name under which the progress and the results are stored.
    pub id: Arc<str>,
    /// The identity of the function: a cycle calls the same function with the same id only once.
    #[serde(rename = "fn", default)]
    pub function: u64,
    /// What it reacts to.
    #[serde(rename = "kind")]
    pub handler_type: HandlerType,
    /// The activity that it serves; `None` for handlers of resources.
    #[serde(default)]
    pub activity: Option<Activity>,
    /// The reason for which it is called; `None` means any (field handlers and sub-handlers).
    #[serde(default)]
    pub reason: Option<Reason>,
    /// A resuming handler: called only for objects that existed before the operator started.
    #[serde(default)]
    pub initial: bool,
    /// A resuming handler that is also called for objects under deletion.
    #[serde(default)]
    pub deleted: bool,
    /// The operator blocks the deletion of the object until this handler is finished.
    #[serde(default)]
    pub requires_finalizer: bool,
    /// The resources that it serves; `None` for sub-handlers, which serve the resource of their parent.
    #[serde(default)]
    pub selector: Option<Selector>,
    /// What it expects of the labels.
    #[serde(default)]
    pub labels: Option<BTreeMap<String, Filter>>,
    /// What it expects of the annotations.
    #[serde(default)]
    pub annotations: Option<BTreeMap<String, Filter>>,
    /// The field that it is about; it also narrows the `old`, `new` and `diff` of the call.
    #[serde(default)]
    pub field: Option<FieldPath>,
    /// The field must differ between old and new, not just match.
    #[serde(default)]
    pub field_needs_change: bool,
    /// What it expects of the field, either before or after the change.
    #[serde(default)]
    pub value: Option<Filter>,
    /// What it expects of the field before the change.
    #[serde(default)]
    pub old: Option<Filter>,
    /// What it expects of the field after the change.
    #[serde(default)]
    pub new: Option<Filter>,
    /// The front has a callback on the whole cause.
    #[serde(default)]
    pub when: bool,
    /// More filters, of the function as a whole; decided after all others.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// What arbitrary errors mean; `None` means the default of the handler type.
    #[serde(default)]
    pub errors: Option<ErrorsMode>,
    /// How long it may take, over all its attempts.
    #[serde(default)]
    pub timeout: Option<Seconds>,
    /// How many attempts it has.
    #[serde(default)]
    pub retries: Option<u32>,
    /// The delays after arbitrary errors; `None` means the default of the operator.
    #[serde(default)]
    pub backoff: Option<Backoff>,
    /// How many of its calls may run at once, over all objects.
    #[serde(default)]
    pub concurrency: Option<usize>,
    /// A login handler that counts only if no other one is declared.
    #[serde(default)]
    pub fallback: bool,
    /// Options of webhooks.
    #[serde(default)]
    pub webhook: Option<WebhookOptions>,
    /// Options of daemons and timers.
    #[serde(default)]
    pub background: BackgroundOptions,
}

/// What a handler reacts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HandlerType {
    /// The life of the operator: startup, cleanup, login, probes.
    Activity,
    /// Every event of an object (`on.event`).
    #[serde(rename = "watching")]
    Event,
    /// Changes of an object, with progress and retries.
    #[serde(rename = "changing")]
    Change,
    /// Runs in the background, once per object, as long as the object exists.
    Daemon,
    /// Is called in the background, again and again, as long as the object exists.
    Timer,
    /// Every body of an object, for the in-memory indexes.
    #[serde(rename = "indexing")]
    Index,
    /// Requests of the API server: admission and conversion.
    Webhook,
}

/// The moments in the life of an operator that have handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activity {
    /// Before anything else.
    Startup,
    /// After everything else.
    Cleanup,
    /// Whenever the operator needs credentials.
    Authentication,
    /// Whenever somebody asks for the health of the operator.
    Probe,
}

/// What an arbitrary error of a handler means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ErrorsMode {
    /// The handler counts as succeeded, without a result.
    Ignored,
    /// The engine retries the handler.
    Temporary,
    /// The handler has failed for good.
    Permanent,
}

impl Handler {
    /// A declaration without any options: where builders and tests start.
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

    /// The name of the handler in the log.
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

/// Removes repeated declarations of the same function under the same id.
pub(crate) fn deduplicated(handlers: Vec<Arc<Handler>>) -> Vec<Arc<Handler>> {
    let mut kept: Vec<Arc<Handler>> = Vec::with_capacity(handlers.len());
    for handler in handlers {
        if !kept.iter().any(|known| known.function == handler.function && known.id == handler.id) {
            kept.push(handler);
        }
    }
    kept
}
