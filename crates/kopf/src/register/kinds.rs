//! The kinds of handlers, and the functions that start their declarations.

use kopf_object::FieldPath;
use kopf_reaction::{Activity, Handler, HandlerType, Reason, Selector, WebhookOptions, WebhookType};

use super::Registration;
use crate::call::{ActivityCall, AnyCall, Call};
use crate::filter::{Callbacks, ResourceCallback};
use crate::handler::Function;
use crate::registry::AnyFunction;
use crate::selector::{self, IntoSelector};

/// What a handler reacts to.
pub trait Kind: sealed::Sealed + 'static {
    /// What its function is called with.
    type Call: AnyCall;

    #[doc(hidden)]
    fn wrap(function: sealed::Erased<Self::Call>) -> sealed::Wrapped;
}

/// Kinds of handlers of objects.
pub trait ObjectKind: Kind<Call = Call> {}

/// Kinds of handlers which run in the background.
pub trait BackgroundKind: ObjectKind {}

/// Kinds of handlers which compare the states before and after.
pub trait ChangeKind: ObjectKind {}

/// Kinds of handlers that are asked before a change is made.
pub trait WebhookKind: ObjectKind {}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident: $call:ident as $variant:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $name {}

        impl sealed::Sealed for $name {}

        impl Kind for $name {
            type Call = $call;

            fn wrap(function: sealed::Erased<$call>) -> sealed::Wrapped {
                sealed::Wrapped(AnyFunction::$variant(function.0))
            }
        }
    )*};
}

kinds! {
    /// When the operator starts.
    Startup: ActivityCall as Activity;
    /// When the operator stops.
    Cleanup: ActivityCall as Activity;
    /// When somebody asks about the health of the operator.
    Probe: ActivityCall as Activity;
    /// When credentials are needed.
    Login: ActivityCall as Activity;
    /// Every event, as it comes.
    Event: Call as Object;
    /// Objects that were never handled before.
    Create: Call as Object;
    /// Objects that have changed.
    Update: Call as Object;
    /// Objects that are to be deleted.
    Delete: Call as Object;
    /// Objects that were there when the operator started.
    Resume: Call as Object;
    /// Fields that have changed, appeared or gone.
    Field: Call as Object;
    /// Objects as they are, to be found by their keys.
    Indexing: Call as Object;
    /// Changes that are to be accepted or refused before they are made.
    Validate: Call as Object;
    /// Changes that are to be adjusted before they are made.
    Mutate: Call as Object;
    /// Objects of one version that should have another one.
    Convert: Call as Object;
    /// Parts of another handler.
    Subhandler: Call as Object;
    /// What runs in the background for as long as the object is there.
    Daemon: Call as Object;
    /// What runs again and again for as long as the object is there.
    Timer: Call as Object;
}

impl ObjectKind for Event {}
impl ObjectKind for Create {}
impl ObjectKind for Update {}
impl ObjectKind for Delete {}
impl ObjectKind for Resume {}
impl ObjectKind for Field {}
impl ObjectKind for Indexing {}
impl ObjectKind for Validate {}
impl ObjectKind for Mutate {}
impl ObjectKind for Convert {}
impl ObjectKind for Subhandler {}
impl WebhookKind for Validate {}
impl WebhookKind for Mutate {}
impl ObjectKind for Daemon {}
impl ObjectKind for Timer {}
impl BackgroundKind for Daemon {}
impl BackgroundKind for Timer {}
impl ChangeKind for Update {}
impl ChangeKind for Field {}
impl ChangeKind for Subhandler {}

/// Once when the operator starts, before anything else; it does not start if the handler fails.
pub fn startup() -> Registration<Startup> {
    activity(Activity::Startup)
}

/// Once when the operator stops, after everything else.
pub fn cleanup() -> Registration<Cleanup> {
    activity(Activity::Cleanup)
}

/// When somebody asks about the health of the operator, at its liveness endpoint: what the function returns is shown there.
pub fn probe() -> Registration<Probe> {
    activity(Activity::Probe)
}

/// When credentials are needed: at the start, and when the old ones are not accepted any more.
/// The function returns a [`ConnectionInfo`](crate::ConnectionInfo).
pub fn login() -> Registration<Login> {
    activity(Activity::Authentication)
}

/// A part of another handler; see [`Children`](crate::Children).
pub fn subhandler() -> Registration<Subhandler> {
    Registration::new(Handler::new(0, "", HandlerType::Change), Callbacks::default())
}

macro_rules! starters {
    ($($(#[$doc:meta])* $untyped:ident, $typed:ident($($field:ident)?): $kind:ident, $handler_kind:ident, $refine:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// The kind of objects is selected by a text or more: see [`IntoSelector`].
        pub fn $untyped(selector: impl IntoSelector, $($field: impl Into<FieldPath>)?) -> Registration<$kind> {
            let (selector, callback) = selector.into_parts();
            object(HandlerType::$handler_kind, selector, callback, $refine) $(.field($field))?
        }

        $(#[$doc])*
        ///
        /// The kind of objects is known by its type.
        pub fn $typed<K: kube::Resource<DynamicType = ()>>($($field: impl Into<FieldPath>)?) -> Registration<$kind> {
            object(HandlerType::$handler_kind, selector::of_type::<K>(), None, $refine) $(.field($field))?
        }
    )*};
}

starters! {
    /// Every event of an object, as it comes, with no progress, retries or results.
    event, event_of(): Event, Event, |_| {};
    /// Objects as they are: what the function returns for them is kept in an [`Index`](crate::Index).
    /// For [`Operator::index`](crate::Operator::index).
    index, index_of(): Indexing, Index, |_| {};
    /// Objects that were never handled before.
    create, create_of(): Create, Change, |handler| handler.reason = Some(Reason::Create);
    /// Changes that are to be accepted or refused before they are made: an error refuses, see
    /// [`Error::denied`](crate::Error::denied). Needs [`Operator::webhooks`](crate::Operator::webhooks).
    validate, validate_of(): Validate, Webhook, |handler| {
        handler.webhook = Some(WebhookOptions::new(WebhookType::Validating));
    };
    /// Changes that are to be adjusted before they are made, by the [`Patch`](crate::Patch); an error refuses.
    /// Needs [`Operator::webhooks`](crate::Operator::webhooks).
    mutate, mutate_of(): Mutate, Webhook, |handler| {
        handler.webhook = Some(WebhookOptions::new(WebhookType::Mutating));
    };
    /// Objects that have changed since they were handled last.
    update, update_of(): Update, Change, |handler| {
        handler.reason = Some(Reason::Update);
        handler.field_needs_change = true;
    };
    /// Objects that are to be deleted: they are held until the handler has succeeded,
    /// unless it is [`optional`](Registration::optional).
    delete, delete_of(): Delete, Change, |handler| {
        handler.reason = Some(Reason::Delete);
        handler.requires_finalizer = true;
    };
    /// Objects that were there when the operator started.
    resume, resume_of(): Resume, Change, |handler| handler.initial = true;
    /// Objects of which a field has changed, has appeared (also with the object), or is gone.
    field, field_of(path): Field, Change, |handler| handler.field_needs_change = true;
    /// A function that runs in the background for as long as the object is there, and matches the filters.
    /// It takes [`Stopped`](crate::Stopped) to know when to exit; the object is held until it has.
    daemon, daemon_of(): Daemon, Daemon, |handler| handler.requires_finalizer = true;
    /// A function that is called again and again for as long as the object is there, and matches the filters:
    /// see [`every`](Registration::every) and [`idle`](Registration::idle). With neither of them, it is called once.
    timer, timer_of(): Timer, Timer, |handler| handler.requires_finalizer = true;
}

/// Objects of one version that should have another one: the function returns the whole new object, or changes
/// the old one by the [`Patch`](crate::Patch). Where there is no direct way, the shortest chain is taken.
/// Needs [`Operator::webhooks`](crate::Operator::webhooks).
///
/// The kind of objects is selected by a text or more: see [`IntoSelector`].
pub fn convert(selector: impl IntoSelector, from: impl Into<String>, to: impl Into<String>) -> Registration<Convert> {
    let (selector, callback) = selector.into_parts();
    converting(selector, callback, from.into(), to.into())
}

/// As [`convert`], where the kind of objects is known by its type, of whichever version.
pub fn convert_of<K: kube::Resource<DynamicType = ()>>(
    from: impl Into<String>,
    to: impl Into<String>,
) -> Registration<Convert> {
    converting(selector::of_type::<K>(), None, from.into(), to.into())
}

fn converting(
    selector: Selector,
    callback: Option<ResourceCallback>,
    from: String,
    to: String,
) -> Registration<Convert> {
    let selector = Selector { version: None, ..selector };
    object(HandlerType::Webhook, selector, callback, |handler| {
        let options = WebhookOptions::new(WebhookType::Converting);
        handler.webhook = Some(WebhookOptions { from: Some(from), to: Some(to), ..options });
    })
}

fn activity<K: Kind>(activity: Activity) -> Registration<K> {
    let mut handler = Handler::new(0, "", HandlerType::Activity);
    handler.activity = Some(activity);
    Registration::new(handler, Callbacks::default())
}

fn object<K: Kind>(
    kind: HandlerType,
    selector: Selector,
    resource: Option<ResourceCallback>,
    refine: impl FnOnce(&mut Handler),
) -> Registration<K> {
    let mut handler = Handler::new(0, "", kind);
    handler.selector = Some(selector);
    refine(&mut handler);
    Registration::new(handler, Callbacks { resource, ..Callbacks::default() })
}

pub(crate) mod sealed {
    use super::{AnyFunction, Function};

    pub trait Sealed {}

    /// A function of one kind of calls.
    pub struct Erased<C>(pub(crate) Function<C>);

    /// A function of any kind of calls.
    pub struct Wrapped(pub(crate) AnyFunction);
}
