//! Declarations: handlers as the fronts declare them, and everything that a declaration consists of.
//!
//! Nothing here decides anything about objects. The other modules read the declarations.

mod resource;
mod selector;
mod reason;
mod filter;
mod condition;
mod backoff;
mod background;
mod webhook;
mod handler;
mod handler_set;

pub use background::{BackgroundOptions, InitialDelay};
pub use backoff::{Backoff, Seconds};
pub use condition::Condition;
pub use filter::Filter;
pub(crate) use handler::deduplicated;
pub use handler::{Activity, ErrorsMode, Handler, HandlerType};
pub use handler_set::HandlerSet;
pub(crate) use reason::purpose_title;
pub use reason::{EventType, Reason};
pub use resource::{Resource, ResourceId};
pub use selector::{ResolvedSelectors, Selection, Selector, ServedSelector, passively_matched, resolve_selectors};
pub use webhook::{WebhookOptions, WebhookType};
