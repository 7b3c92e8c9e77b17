//! Declarations of handlers: what they are for, which objects they match, how they are retried.
//!
//! One function per cause starts a declaration; its methods refine it; `Operator::on` and
//! `Children::on` take it together with the function. What fits a cause is a matter of types.

mod kinds;
mod backoff;

use std::marker::PhantomData;
use std::time::Duration;

use kopf_object::FieldPath;
use kopf_reaction::{ErrorsMode, Filter, Handler, InitialDelay, Seconds, WebhookOptions, WebhookType};

use crate::Context;
use crate::filter::{Callbacks, TextFilter, ValueFilter};
use crate::handler::{function_identity, function_name};

pub use backoff::{Exponential, Schedule, exponential};
pub use kinds::*;

/// The declaration of a handler of kind `K`, before its function is known.
#[must_use = "a declaration does nothing until it is given to `Operator::on` with a function"]
pub struct Registration<K> {
    declaration: Handler,
    id: Option<String>,
    callbacks: Callbacks,
    kind: PhantomData<fn(K)>,
}

/// What is wrong in a declaration. It is found when the operator is started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeclarationError {
    /// Closures have no names to take the id from.
    #[error("a handler without a name needs an id: add `.id(\"…\")` to its declaration ({function})")]
    NoId {
        /// The type of the function.
        function: &'static str,
    },
    /// There is a filter on a value, but it is not said of which field.
    #[error("handler '{id}' filters by value(), old() or new_value(), but has no field()")]
    NoField {
        /// The id of the handler.
        id: String,
    },
    /// The two kinds of filters exclude each other.
    #[error("handler '{id}' filters by both value() and old() or new_value(): only one can be used")]
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
    /// What the function returns would not be kept anywhere.
    #[error("handler '{id}' is to fill an index: give it to `Operator::index`, not to `Operator::on`")]
    NotIndexing {
        /// The id of the handler.
        id: String,
    },
    /// The selector has no name.
    #[error("handler '{id}' has a selector without the name of a resource: {selector}")]
    NoResource {
        /// The id of the handler.
        id: String,
        /// The selector as it was understood.
        selector: String,
    },
}

/// Options of all handlers.
impl<K: Kind> Registration<K> {
    pub(crate) fn new(declaration: Handler, callbacks: Callbacks) -> Self {
        Self { declaration, id: None, callbacks, kind: PhantomData }
    }

    /// The name under which the progress and the result are stored; by default that of the function.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// How many tries it has.
    pub fn retries(mut self, retries: u32) -> Self {
        self.declaration.retries = Some(retries);
        self
    }

    /// How long it may take, over all its tries. The last one is cancelled.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.declaration.timeout = Some(seconds(timeout));
        self
    }

    /// How long to wait after an arbitrary error: always the same, or [`exponential`].
    pub fn backoff(mut self, backoff: impl Into<Schedule>) -> Self {
        self.declaration.backoff = Some(backoff.into().into_backoff());
        self
    }

    /// What arbitrary errors mean.
    pub fn errors(mut self, errors: ErrorsMode) -> Self {
        self.declaration.errors = Some(errors);
        self
    }

    /// Completes the declaration with what is known by the function.
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
impl<K: ObjectKind> Registration<K> {
    /// How many calls of it may run at once, over all objects.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.declaration.concurrency = Some(concurrency);
        self
    }

    /// Only objects with such a label: a text, [`present()`](crate::present), [`absent()`](crate::absent),
    /// or a closure of an `Option<&str>`.
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

    /// Only objects with this field. Its old and new values are what `Old` and `New` get,
    /// and it becomes a part of the id.
    pub fn field(mut self, field: impl Into<FieldPath>) -> Self {
        self.declaration.field = Some(field.into());
        self
    }

    /// Only objects with such a value of the field: a plain value, [`present()`](crate::present),
    /// [`absent()`](crate::absent), or a closure of an `Option<&Value>`.
    pub fn value(mut self, filter: impl ValueFilter) -> Self {
        let (filter, callback) = filter.into_parts();
        self.declaration.value = Some(filter);
        self.callbacks.value = callback;
        self
    }

    /// Only if the callback agrees. Several callbacks have to agree all.
    pub fn when(mut self, callback: impl Fn(&Context) -> bool + Send + Sync + 'static) -> Self {
        self.declaration.when = true;
        self.callbacks.when.push(std::sync::Arc::new(callback));
        self
    }
}

/// Options of handlers which compare the states before and after.
impl<K: ChangeKind> Registration<K> {
    /// Only if the field had such a value: as for [`value`](Self::value).
    pub fn old(mut self, filter: impl ValueFilter) -> Self {
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

/// Options of handlers that are asked before a change is made.
impl<K: WebhookKind> Registration<K> {
    /// Only these operations: `CREATE`, `UPDATE`, `DELETE`, `CONNECT`.
    pub fn operations(mut self, operations: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let operations: Vec<String> = operations.into_iter().map(Into::into).collect();
        self.webhook().operations = Some(operations).filter(|operations| !operations.is_empty());
        self
    }

    /// A subresource, such as `status`, instead of the object itself; `*` is all of them and the object.
    pub fn subresource(mut self, subresource: impl Into<String>) -> Self {
        self.webhook().subresource = Some(subresource.into());
        self
    }

    /// The handler does something besides answering, except for dry runs.
    pub fn side_effects(mut self) -> Self {
        self.webhook().side_effects = true;
        self
    }

    /// If the operator cannot be reached, the change is made without asking it.
    pub fn ignore_failures(mut self) -> Self {
        self.webhook().ignore_failures = true;
        self
    }

    /// The cluster asks also while the operator does not run, and so makes no such changes.
    pub fn persistent(mut self) -> Self {
        self.webhook().persistent = true;
        self
    }
}

impl<K> Registration<K> {
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
    /// The object may disappear before the handler was called: it is not held for it.
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
impl<K: BackgroundKind> Registration<K> {
    /// How long to wait before the first call.
    pub fn initial_delay(mut self, delay: Duration) -> Self {
        self.declaration.background.initial_delay = Some(InitialDelay::Seconds(seconds(delay)));
        self.callbacks.initial_delay = None;
        self
    }

    /// How long to wait before the first call, by the object.
    pub fn initial_delay_by(mut self, delay: impl Fn(&Context) -> Duration + Send + Sync + 'static) -> Self {
        self.declaration.background.initial_delay = Some(InitialDelay::Callback { callback: true });
        self.callbacks.initial_delay = Some(std::sync::Arc::new(delay));
        self
    }
}

impl Registration<Timer> {
    /// The pause from the end of a call to the start of the next one.
    pub fn every(mut self, interval: Duration) -> Self {
        self.declaration.background.interval = Some(seconds(interval));
        self
    }

    /// The interval counts from the start of a call. Where that takes longer, the next point of the grid is waited for.
    pub fn sharp(mut self) -> Self {
        self.declaration.background.sharp = true;
        self
    }

    /// Only objects that have not changed for so long. Without an interval: once after each change.
    pub fn idle(mut self, idle: Duration) -> Self {
        self.declaration.background.idle = Some(seconds(idle));
        self
    }
}

impl Registration<Daemon> {
    /// How long it has to exit by [`Stopped`](crate::Stopped), before it is cancelled.
    pub fn cancellation_backoff(mut self, backoff: Duration) -> Self {
        self.declaration.background.cancellation_backoff = Some(seconds(backoff));
        self
    }

    /// It is cancelled when it is to stop; and given up if it has not exited after so long.
    pub fn cancellation_timeout(mut self, timeout: Duration) -> Self {
        self.declaration.background.cancellation_timeout = Some(seconds(timeout));
        self
    }

    /// How often the log tells that it still exits.
    pub fn cancellation_polling(mut self, polling: Duration) -> Self {
        self.declaration.background.cancellation_polling = Some(seconds(polling));
        self
    }
}

fn seconds(duration: Duration) -> Seconds {
    Seconds::new(duration.as_secs_f64())
}

#[cfg(test)]
mod tests;
