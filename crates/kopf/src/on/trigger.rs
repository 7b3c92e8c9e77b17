//! The triggers of handlers, as types: what a [`Registration`](super::Registration) is for.
//!
//! A trigger decides which options a registration has, and with which [`call`](crate::call) its function is called,
//! and so which extractors the function can have. The functions of [`on`](super) return registrations of these types.

use crate::call::sealed::Sealed as SealedCall;
use crate::call::{
    ActivityCall, AdmissionCall, AnyCall, BackgroundCall, ChangeCall, ConversionCall, EventCall, IndexCall, ObjectCall,
};

/// What a function reacts to.
pub trait Trigger: sealed::Sealed + 'static {
    /// What the function is called with.
    type Call: AnyCall + SealedCall;
}

/// Triggers of handlers that [`Operator::on`](crate::Operator::on) accepts.
#[diagnostic::on_unimplemented(
    message = "`Operator::on` does not accept a registration for `{Self}`",
    label = "this registration is for `{Self}`",
    note = "register index functions with `Operator::index`, and sub-handlers with `Children::on`"
)]
pub trait HandlerTrigger: Trigger {}

/// Triggers that are about objects.
pub trait ObjectTrigger: Trigger<Call: ObjectCall> {}

/// Triggers that compare the states before and after.
pub trait ChangeTrigger: ObjectTrigger {}

/// Triggers that run in the background for each object.
pub trait BackgroundTrigger: ObjectTrigger {}

/// Triggers that come before a change is made.
pub trait AdmissionTrigger: ObjectTrigger {}

macro_rules! triggers {
    ($($(#[$doc:meta])* $name:ident($call:ident): $($family:ident)*;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $name {}

        impl sealed::Sealed for $name {}

        impl Trigger for $name {
            type Call = $call;
        }

        $(impl $family for $name {})*
    )*};
}

triggers! {
    /// The operator starts: [`on::startup`](super::startup).
    Startup(ActivityCall): HandlerTrigger;
    /// The operator stops: [`on::cleanup`](super::cleanup).
    Cleanup(ActivityCall): HandlerTrigger;
    /// The operator needs credentials: [`on::login`](super::login).
    Login(ActivityCall): HandlerTrigger;
    /// Somebody asks about the health of the operator: [`on::probe`](super::probe).
    Probe(ActivityCall): HandlerTrigger;
    /// An event of an object: [`on::event`](super::event).
    Event(EventCall): HandlerTrigger ObjectTrigger;
    /// An object that was never handled before: [`on::create`](super::create).
    Create(ChangeCall): HandlerTrigger ObjectTrigger;
    /// An object that changed: [`on::update`](super::update).
    Update(ChangeCall): HandlerTrigger ObjectTrigger ChangeTrigger;
    /// An object that is to be deleted: [`on::delete`](super::delete).
    Delete(ChangeCall): HandlerTrigger ObjectTrigger;
    /// An object that was there when the operator started: [`on::resume`](super::resume).
    Resume(ChangeCall): HandlerTrigger ObjectTrigger;
    /// A field that changed, appeared or vanished: [`on::field`](super::field).
    Field(ChangeCall): HandlerTrigger ObjectTrigger ChangeTrigger;
    /// A part of another handler: [`on::subhandler`](super::subhandler).
    Subhandler(ChangeCall): ObjectTrigger ChangeTrigger;
    /// A function that runs as long as the object exists: [`on::daemon`](super::daemon).
    Daemon(BackgroundCall): HandlerTrigger ObjectTrigger BackgroundTrigger;
    /// A function that runs again and again as long as the object exists: [`on::timer`](super::timer).
    Timer(BackgroundCall): HandlerTrigger ObjectTrigger BackgroundTrigger;
    /// An object to be found by its keys: [`on::index`](super::index).
    Index(IndexCall): ObjectTrigger;
    /// A change to be accepted or denied: [`on::validate`](super::validate).
    Validate(AdmissionCall): HandlerTrigger ObjectTrigger AdmissionTrigger;
    /// A change to be adjusted: [`on::mutate`](super::mutate).
    Mutate(AdmissionCall): HandlerTrigger ObjectTrigger AdmissionTrigger;
    /// An object to be converted to another version: [`on::convert`](super::convert).
    Convert(ConversionCall): HandlerTrigger ObjectTrigger;
}

mod sealed {
    pub trait Sealed {}
}
