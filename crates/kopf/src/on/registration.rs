//! A registration: which objects a handler is for, and how it is retried. `Operator::on`, `Operator::index` and
//! `Children::on` take it together with the function. The trigger decides which options there are.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use kopf_object::FieldPath;
use kopf_reaction::{ErrorsMode, Filter, Handler, InitialDelay, Seconds, WebhookOptions, WebhookType};

use super::backoff::Schedule;
use super::trigger::{
    AdmissionTrigger, BackgroundTrigger, ChangeTrigger, Convert, Daemon, Delete, ObjectTrigger, Resume, Timer, Trigger,
};
use crate::context::Context;
use crate::context::review::Operation;
use crate::filter::{Callbacks, Condition, TextFilter, ValueFilter};
use crate::handler::{function_identity, function_name};

/// What a handler reacts to and how, before its function is known. `T` is the [trigger](super::trigger).
#[must_use = "a registration does nothing until `Operator::on` gets it with a function"]
pub struct Registration<T> {
    declaration: Handler,
    id: Option<String>,
    callbacks: Callbacks,
    trigger: PhantomData<fn(T)>,
}

/// A mistake in a registration, found when the operator starts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeclarationError {
    /// Closures have no names to take the id from.
    #[error("a handler without a name needs an id: add `.id(\"…\")` to its registration ({function})")]
    NoId {
        /// The type of the function.
        function: &'static str,
    },
    /// There is a filter on a value, but no field.
    #[error("handler '{id}' filters by value(), old_value() or new_value(), but has no field()")]
    NoField {
        /// The id of the handler.
        id: String,
    },
    /// The filters exclude each other.
    #[error("handler '{id}' filters by both value() and old_value() or new_value(): only one can be used")]
    ValueAndChange {
        /// The id of the handler.
        id: String,
    },
    /// The handler could never be called.
    #[error("handler '{id}' has a concurrency of zero: it would never be called")]
    NoConcurrency {
        /// The id of the handler.
        id: String,
    },
    /// The handler reads an index that would always be empty.
    #[error(
        "handler '{id}' has a parameter `{index}`, but no function fills this index: \
         register one that returns such keys and values with `Operator::index`"
    )]
    NoIndex {
        /// The id of the handler.
        id: String,
        /// The type of the index.
        index: String,
    },
    /// The selector has no name.
    #[error("handler '{id}' has a selector without the name of a resource: {selector}")]
    NoResource {
        /// The id of the handler.
        id: String,
        /// The selector as the operator understands it.
        selector: String,
    },
}

/// Options of all handlers.
impl<T: Trigger> Registration<T> {
    pub(crate) fn new(declaration: Handler, callbacks: Callbacks) -> Self {
        Self { declaration, id: None, callbacks, trigger: PhantomData }
    }

    /// The name under which the progress and the result are stored; by default that of the function.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// The number of attempts before the handler fails for good.
    pub fn retries(mut self, retries: u32) -> Self {
        self.declaration.retries = Some(retries);
        self
    }

    /// The time for all attempts together. The last one is cancelled.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.declaration.timeout = Some(seconds(timeout));
        self
    }

    /// The delay after an arbitrary error: always the same, or [`exponential`](super::exponential).
    pub fn backoff(mut self, backoff: impl Into<Schedule>) -> Self {
        self.declaration.backoff = Some(backoff.into().into_backoff());
        self
    }

    /// What arbitrary errors mean.
    pub fn errors(mut self, errors: ErrorsMode) -> Self {
        self.declaration.errors = Some(errors);
        self
    }

    /// Completes the declaration with what the function says.
    pub(crate) fn finish<H: 'static>(
        self,
        index: usize,
        parent: Option<&str>,
    ) -> Result<(Handler, Callbacks), DeclarationError> {
        let Self { mut declaration, id, callbacks, .. } = self;
        let no_name = || DeclarationError::NoId { function: std::any::type_name::<H>() };
        let own = match id {
            Some(id) => id,
            None => function_name::<H>().ok_or_else(no_name)?.to_owned(),
        };
        let field = declaration.field.as_ref().map(ToString::to_string);
        let parts = [parent.map(str::to_owned), Some(own), field];
        let id = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
        check(&declaration, &id)?;
        declaration.index = index;
        declaration.function = function_identity::<H>();
        declaration.id = id.into();
        Ok((declaration, callbacks))
    }
}

fn check(declaration: &Handler, id: &str) -> Result<(), DeclarationError> {
    let id = || id.to_owned();
    let filters_change = declaration.old.is_some() || declaration.new.is_some();
    if declaration.field.is_none() && (declaration.value.is_some() || filters_change) {
        return Err(DeclarationError::NoField { id: id() });
    }
    if declaration.value.is_some() && filters_change {
        return Err(DeclarationError::ValueAndChange { id: id() });
    }
    if declaration.concurrency == Some(0) {
        return Err(DeclarationError::NoConcurrency { id: id() });
    }
    if let Some(selector) = &declaration.selector {
        let names = [&selector.kind, &selector.plural, &selector.singular, &selector.shortcut, &selector.any_name];
        let named = names.iter().any(|name| name.is_some()) || selector.category.is_some();
        let blank = names.iter().any(|name| name.as_deref() == Some(""));
        if blank || !(named || selector.everything || selector.callback) {
            return Err(DeclarationError::NoResource { id: id(), selector: selector.to_string() });
        }
    }
    Ok(())
}

/// Options of handlers of objects.
impl<T: ObjectTrigger> Registration<T> {
    /// The number of calls of this handler that may run at once, over all objects.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.declaration.concurrency = Some(concurrency);
        self
    }

    /// Only objects with such a label: a text, [`present()`](crate::filter::present),
    /// [`absent()`](crate::filter::absent), or a closure that takes an `Option<&str>`.
    pub fn label(mut self, key: impl Into<String>, filter: impl TextFilter) -> Self {
        let (key, (filter, callback)) = (key.into(), filter.into_parts());
        if let Some(callback) = callback {
            self.callbacks.labels.insert(key.clone(), callback);
        }
        self.declaration.labels.get_or_insert_default().insert(key, filter);
        self
    }

    /// Only objects with such an annotation: as for [`label`](Self::label).
    pub fn annotation(mut self, key: impl Into<String>, filter: impl TextFilter) -> Self {
        let (key, (filter, callback)) = (key.into(), filter.into_parts());
        if let Some(callback) = callback {
            self.callbacks.annotations.insert(key.clone(), callback);
        }
        self.declaration.annotations.get_or_insert_default().insert(key, filter);
        self
    }

    /// Only objects with this field. `Old` and `New` get its values, and it becomes a part of the id.
    pub fn field(mut self, field: impl Into<FieldPath>) -> Self {
        self.declaration.field = Some(field.into());
        self
    }

    /// Only objects with such a value of the field: a plain value, [`present()`](crate::filter::present),
    /// [`absent()`](crate::filter::absent), or a closure that takes an `Option<&Value>`.
    pub fn value(mut self, filter: impl ValueFilter) -> Self {
        let (filter, callback) = filter.into_parts();
        self.declaration.value = Some(filter);
        self.callbacks.value = callback;
        self
    }

    /// Only if the callback returns true. Of several callbacks, all have to.
    pub fn when(mut self, callback: impl Fn(&Context) -> bool + Send + Sync + 'static) -> Self {
        self.declaration.when = true;
        self.callbacks.when.push(Arc::new(callback));
        self
    }
}

/// Options of handlers that compare the states before and after.
impl<T: ChangeTrigger> Registration<T> {
    /// One more filter, maybe about another field. Of several conditions, all must be true.
    pub fn condition(mut self, condition: Condition) -> Self {
        let Condition { mut declaration, callbacks } = condition;
        declaration.index = self.callbacks.conditions.len();
        self.declaration.conditions.push(declaration);
        self.callbacks.conditions.push(callbacks);
        self
    }

    /// Only if the field had such a value: as for [`value`](Self::value).
    pub fn old_value(mut self, filter: impl ValueFilter) -> Self {
        let (filter, callback): (Filter, _) = filter.into_parts();
        self.declaration.old = Some(filter);
        self.callbacks.old = callback;
        self
    }

    /// Only if the field has such a value now: as for [`value`](Self::value).
    pub fn new_value(mut self, filter: impl ValueFilter) -> Self {
        let (filter, callback): (Filter, _) = filter.into_parts();
        self.declaration.new = Some(filter);
        self.callbacks.new = callback;
        self
    }
}

/// Options of validating and mutating handlers.
impl<T: AdmissionTrigger> Registration<T> {
    /// Only these operations; all by default.
    pub fn operations(mut self, operations: impl IntoIterator<Item = Operation>) -> Self {
        let operations: Vec<String> = operations.into_iter().map(|operation| operation.as_str().to_owned()).collect();
        self.webhook().operations = Some(operations).filter(|operations| !operations.is_empty());
        self
    }

    /// A subresource, such as `status`, instead of the object itself; `*` means the object and all its subresources.
    pub fn subresource(mut self, subresource: impl Into<String>) -> Self {
        self.webhook().subresource = Some(subresource.into());
        self
    }

    /// The handler has side effects, except in dry runs.
    pub fn side_effects(mut self) -> Self {
        self.webhook().side_effects = true;
        self
    }

    /// The cluster makes the change without an answer if it cannot reach the operator.
    pub fn ignore_failures(mut self) -> Self {
        self.webhook().ignore_failures = true;
        self
    }

    /// The webhook stays configured while the operator does not run: the cluster then denies such changes.
    pub fn persistent(mut self) -> Self {
        self.webhook().persistent = true;
        self
    }
}

impl<T> Registration<T> {
    fn webhook(&mut self) -> &mut WebhookOptions {
        self.declaration.webhook.get_or_insert_with(|| WebhookOptions::new(WebhookType::Validating))
    }
}

impl Registration<Convert> {
    /// The conversion stays configured while the operator does not run.
    pub fn persistent(mut self) -> Self {
        self.webhook().persistent = true;
        self
    }
}

impl Registration<Delete> {
    /// No finalizer: the object may disappear before the handler is called.
    pub fn optional(mut self) -> Self {
        self.declaration.requires_finalizer = false;
        self
    }
}

impl Registration<Resume> {
    /// Also objects that are being deleted.
    pub fn deleted(mut self) -> Self {
        self.declaration.deleted = true;
        self
    }
}

/// Options of daemons and timers.
impl<T: BackgroundTrigger> Registration<T> {
    /// The delay before the first call.
    pub fn initial_delay(mut self, delay: Duration) -> Self {
        self.declaration.background.initial_delay = Some(InitialDelay::Seconds(seconds(delay)));
        self.callbacks.initial_delay = None;
        self
    }

    /// The delay before the first call, computed for each object.
    pub fn initial_delay_by(mut self, delay: impl Fn(&Context) -> Duration + Send + Sync + 'static) -> Self {
        self.declaration.background.initial_delay = Some(InitialDelay::Callback { callback: true });
        self.callbacks.initial_delay = Some(Arc::new(delay));
        self
    }
}

impl Registration<Timer> {
    /// The pause from the end of a call to the start of the next one.
    pub fn every(mut self, interval: Duration) -> Self {
        self.declaration.background.interval = Some(seconds(interval));
        self
    }

    /// The interval counts from the start of a call. A call that takes longer skips the missed times.
    pub fn sharp(mut self) -> Self {
        self.declaration.background.sharp = true;
        self
    }

    /// Only objects that have not changed for this time. Without an interval: once after each change.
    pub fn idle(mut self, idle: Duration) -> Self {
        self.declaration.background.idle = Some(seconds(idle));
        self
    }
}

impl Registration<Daemon> {
    /// The time that the daemon has to exit by [`Stopped`](crate::extract::Stopped), before it is cancelled.
    pub fn cancellation_backoff(mut self, backoff: Duration) -> Self {
        self.declaration.background.cancellation_backoff = Some(seconds(backoff));
        self
    }

    /// The daemon is cancelled when it has to stop, and abandoned if it has not exited after this time.
    pub fn cancellation_timeout(mut self, timeout: Duration) -> Self {
        self.declaration.background.cancellation_timeout = Some(seconds(timeout));
        self
    }

    /// The interval of log messages while the daemon has not exited yet.
    pub fn cancellation_polling(mut self, polling: Duration) -> Self {
        self.declaration.background.cancellation_polling = Some(seconds(polling));
        self
    }
}

fn seconds(duration: Duration) -> Seconds {
    Seconds::new(duration.as_secs_f64())
}
