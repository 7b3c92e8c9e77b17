//! What handlers react to: one function per trigger starts a registration, and its methods refine it.
//!
//! ```
//! use std::time::Duration;
//! use kopf::extract::{Meta, Stopped};
//! use kopf::{Operator, on};
//!
//! async fn greet(meta: Meta) {
//!     println!("Hello, {}!", meta.name());
//! }
//!
//! async fn look_after(meta: Meta, stopped: Stopped) {
//!     while !stopped.wait_for(Duration::from_secs(10)).await {
//!         println!("{} is fine.", meta.name());
//!     }
//! }
//! # let _: Operator =
//! Operator::new()
//!     .on(on::create("memcacheds").label("tier", "cache").retries(5), greet)
//!     .on(on::daemon("memcacheds"), look_after)
//! # ;
//! ```
//!
//! There is one function per trigger, not one for types and one for names: which objects a handler is for is a value.
//! [`of::<Memcached>()`](crate::of) selects the resource of a type, `"memcacheds"` a resource by its name,
//! [`Everything`](crate::selector::Everything) all resources, and a closure decides by itself; see
//! [`IntoSelector`]. So `on::create(of::<Memcached>())` reads like a sentence, and a new trigger is one more function.
//!
//! [`trigger`] has the types of the registrations: they decide which options and which [extractors](crate::extract)
//! a handler has.

pub mod trigger;
mod activities;
mod registration;
mod backoff;

use kopf_object::FieldPath;
use kopf_reaction::{Handler, HandlerType, Reason, Selector, WebhookOptions, WebhookType};

use self::trigger::{
    Convert, Create, Daemon, Delete, Event, Field, Index, Mutate, Resume, Subhandler, Timer, Trigger, Update, Validate,
};
use crate::filter::Callbacks;
use crate::selector::IntoSelector;

pub use self::activities::{cleanup, login, probe, startup};
pub use self::backoff::{Exponential, Schedule, exponential};
pub use self::registration::{DeclarationError, Registration};
pub use kopf_reaction::ErrorsMode;

/// Calls the handler for each object that was never handled before.
///
/// ```
/// use kopf::{Operator, on};
/// use kopf::extract::Meta;
///
/// async fn greet(meta: Meta) {
///     println!("Hello, {}!", meta.name());
/// }
/// # let _: Operator =
/// Operator::new().on(on::create("memcacheds"), greet)
/// # ;
/// ```
pub fn create(selector: impl IntoSelector) -> Registration<Create> {
    object(HandlerType::Change, selector, |handler| handler.reason = Some(Reason::Create))
}

/// Calls the handler for each object that changed since it was handled last.
///
/// ```
/// use kopf::{Operator, on};
/// use kopf::extract::Diff;
///
/// async fn show(diff: Diff) {
///     for change in diff.iter() {
///         println!("{} was {} and is {} now", change.field, change.old, change.new);
///     }
/// }
/// # let _: Operator =
/// Operator::new().on(on::update("memcacheds").field("spec"), show)
/// # ;
/// ```
pub fn update(selector: impl IntoSelector) -> Registration<Update> {
    object(HandlerType::Change, selector, |handler| {
        handler.reason = Some(Reason::Update);
        handler.field_needs_change = true;
    })
}

/// Calls the handler for each object that is to be deleted. A finalizer keeps the object until the handler succeeded,
/// unless the registration is [`optional`](Registration::optional).
///
/// ```
/// use kopf::{Operator, on};
/// use kopf::extract::Meta;
///
/// async fn release(meta: Meta) -> kopf::Result<()> {
///     println!("{} is going away.", meta.name());
///     Ok(())
/// }
/// # let _: Operator =
/// Operator::new().on(on::delete("memcacheds"), release)
/// # ;
/// ```
pub fn delete(selector: impl IntoSelector) -> Registration<Delete> {
    object(HandlerType::Change, selector, |handler| {
        handler.reason = Some(Reason::Delete);
        handler.requires_finalizer = true;
    })
}

/// Calls the handler for each object that was there when the operator started.
///
/// ```
/// use kopf::{Operator, on};
/// use kopf::extract::Meta;
///
/// async fn reconnect(meta: Meta) {
///     println!("{} is still here.", meta.name());
/// }
/// # let _: Operator =
/// Operator::new().on(on::resume("memcacheds"), reconnect)
/// # ;
/// ```
pub fn resume(selector: impl IntoSelector) -> Registration<Resume> {
    object(HandlerType::Change, selector, |handler| handler.initial = true)
}

/// Calls the handler for each object whose field changed, appeared (also with the object), or vanished.
///
/// ```
/// use kopf::{Operator, on};
/// use kopf::extract::{New, Old};
///
/// async fn resize(old: Old<Option<u32>>, new: New<Option<u32>>) {
///     println!("from {:?} to {:?}", *old, *new);
/// }
/// # let _: Operator =
/// Operator::new().on(on::field("memcacheds", "spec.size"), resize)
/// # ;
/// ```
pub fn field(selector: impl IntoSelector, path: impl Into<FieldPath>) -> Registration<Field> {
    object(HandlerType::Change, selector, |handler| handler.field_needs_change = true).field(path)
}

/// Calls the handler for every event of an object, without progress, retries or results.
///
/// ```
/// use kopf::{Operator, on};
/// use kopf::extract::{EventType, Meta};
///
/// async fn watch(event_type: EventType, meta: Meta) {
///     println!("{event_type:?} {}", meta.name());
/// }
/// # let _: Operator =
/// Operator::new().on(on::event("v1/pods"), watch)
/// # ;
/// ```
pub fn event(selector: impl IntoSelector) -> Registration<Event> {
    object(HandlerType::Event, selector, |_| {})
}

/// Runs the handler in the background as long as the object exists and matches the filters. The handler takes
/// [`Stopped`](crate::extract::Stopped) to know when to exit; a finalizer keeps the object until it has.
///
/// ```
/// use kopf::{Operator, on};
/// use std::time::Duration;
/// use kopf::extract::Stopped;
///
/// async fn look_after(stopped: Stopped) {
///     while !stopped.wait_for(Duration::from_secs(10)).await {
///         println!("All is well.");
///     }
/// }
/// # let _: Operator =
/// Operator::new().on(on::daemon("memcacheds").cancellation_timeout(Duration::from_secs(5)), look_after)
/// # ;
/// ```
pub fn daemon(selector: impl IntoSelector) -> Registration<Daemon> {
    object(HandlerType::Daemon, selector, |handler| handler.requires_finalizer = true)
}

/// Calls the handler again and again as long as the object exists and matches the filters: see
/// [`every`](Registration::every) and [`idle`](Registration::idle). With neither of them, the handler is called once.
///
/// ```
/// use kopf::{Operator, on};
/// use std::time::Duration;
/// use kopf::extract::Latest;
///
/// async fn check(latest: Latest) -> kopf::Result<()> {
///     println!("{:?}", latest.body()?.name());
///     Ok(())
/// }
/// # let _: Operator =
/// Operator::new().on(on::timer("memcacheds").every(Duration::from_secs(60)), check)
/// # ;
/// ```
pub fn timer(selector: impl IntoSelector) -> Registration<Timer> {
    object(HandlerType::Timer, selector, |handler| handler.requires_finalizer = true)
}

/// Fills an [`Index`](crate::extract::Index) with what the function returns for each object. Registered with
/// [`Operator::index`](crate::Operator::index), not with `Operator::on`.
///
/// ```
/// use kopf::{Operator, on};
/// use kopf::extract::Body;
///
/// async fn names(body: Body) -> Option<(String, String)> {
///     Some((body.namespace()?.to_owned(), body.name()?.to_owned()))
/// }
/// # let _: Operator =
/// Operator::new().index(on::index("v1/pods"), names)
/// # ;
/// ```
pub fn index(selector: impl IntoSelector) -> Registration<Index> {
    object(HandlerType::Index, selector, |_| {})
}

/// Calls the handler before a change is made, to accept or deny it: an error denies, see
/// [`Error::denied`](crate::Error::denied). Needs [`Operator::webhooks`](crate::Operator::webhooks).
///
/// ```
/// use kopf::{Error, Operator, on, webhook};
/// use kopf::extract::Review;
/// use kopf::webhook::Operation;
///
/// async fn protect(review: Review) -> kopf::Result<()> {
///     Err(Error::denied(403, format!("{} is not allowed", review.operation)))
/// }
/// # let _: Operator =
/// Operator::new()
///     .webhooks(webhook::Server::new().managed("validation.example.com"))
///     .on(on::validate("memcacheds").operations([Operation::Delete]), protect)
/// # ;
/// ```
pub fn validate(selector: impl IntoSelector) -> Registration<Validate> {
    object(HandlerType::Webhook, selector, |handler| {
        handler.webhook = Some(WebhookOptions::new(WebhookType::Validating));
    })
}

/// Calls the handler before a change is made, to adjust the object with the [`Patch`](crate::extract::Patch);
/// an error denies the change. Needs [`Operator::webhooks`](crate::Operator::webhooks).
///
/// ```
/// use kopf::{Operator, on, webhook};
/// use kopf::extract::Patch;
/// use kopf::webhook::Operation;
///
/// async fn set_defaults(patch: Patch) -> kopf::Result<()> {
///     patch.spec("size", 1)
/// }
/// # let _: Operator =
/// Operator::new()
///     .webhooks(webhook::Server::new().managed("defaults.example.com"))
///     .on(on::mutate("memcacheds").operations([Operation::Create]), set_defaults)
/// # ;
/// ```
pub fn mutate(selector: impl IntoSelector) -> Registration<Mutate> {
    object(HandlerType::Webhook, selector, |handler| {
        handler.webhook = Some(WebhookOptions::new(WebhookType::Mutating));
    })
}

/// Calls the handler to convert objects between the versions of a custom resource: the function returns the whole new
/// object, or changes the old one with the [`Patch`](crate::extract::Patch). Where no handler converts directly, the
/// engine calls the shortest chain of handlers. Needs [`Operator::webhooks`](crate::Operator::webhooks).
///
/// ```
/// use kopf::{Operator, on, webhook};
/// use kopf::extract::{Body, Patch};
///
/// async fn rename(patch: Patch, body: Body) -> kopf::Result<()> {
///     patch.spec("length", &body.spec()["size"])?;
///     patch.remove("spec.size");
///     Ok(())
/// }
/// # let _: Operator =
/// Operator::new()
///     .webhooks(webhook::Server::new().managed("conversion.example.com"))
///     .on(on::convert("memcacheds", "v1alpha1", "v1"), rename)
/// # ;
/// ```
pub fn convert(selector: impl IntoSelector, from: impl Into<String>, to: impl Into<String>) -> Registration<Convert> {
    let (from, to) = (from.into(), to.into());
    object(HandlerType::Webhook, selector, |handler| {
        // The handler is for both versions, whichever one the selector names.
        handler.selector = handler.selector.take().map(|selector| Selector { version: None, ..selector });
        let options = WebhookOptions::new(WebhookType::Converting);
        handler.webhook = Some(WebhookOptions { from: Some(from), to: Some(to), ..options });
    })
}

/// Registers a part of another handler; see [`Children`](crate::extract::Children).
///
/// ```
/// use kopf::{Operator, on};
/// use kopf::extract::{Children, Patch};
///
/// async fn build(children: Children) -> kopf::Result<()> {
///     for part in ["hull", "mast"] {
///         children.on(on::subhandler().id(part), move |patch: Patch| async move { patch.status(part, "built") })?;
///     }
///     Ok(())
/// }
/// # let _: Operator =
/// Operator::new().on(on::create("ships"), build)
/// # ;
/// ```
pub fn subhandler() -> Registration<Subhandler> {
    Registration::new(Handler::new(0, "", HandlerType::Change), Callbacks::default())
}

fn object<T: Trigger>(
    handler_type: HandlerType,
    selector: impl IntoSelector,
    refine: impl FnOnce(&mut Handler),
) -> Registration<T> {
    let (selector, resource) = selector.into_parts();
    let mut handler = Handler::new(0, "", handler_type);
    handler.selector = Some(selector);
    refine(&mut handler);
    Registration::new(handler, Callbacks { resource, ..Callbacks::default() })
}

#[cfg(test)]
mod tests;
