//! Sub-handlers: parts of a handler with their own progress, retries and results.
//!
//! A handler registers them anew in each of its calls; the engine remembers which are finished.

use std::marker::PhantomData;
use std::sync::Arc;

use kopf_reaction::Lifecycle;

use crate::extract::FromCall;
use crate::handler::{self, Handler};
use crate::register::{Registration, Subhandler};
use crate::registry::{AnyFunction, Entry, SubhandlerScope};
use crate::{Call, Error, Result, call::AnyCall};

/// The sub-handlers of the handler that takes it.
///
/// They are executed when the handler has returned, or where it calls [`execute`](Self::execute).
/// The handler is called again until all of them are finished. `S` is the state of the operator.
///
/// ```
/// use kopf::{Children, Patch, Spec, subhandler};
///
/// #[derive(serde::Deserialize)]
/// struct FleetSpec {
///     ships: Vec<String>,
/// }
///
/// async fn build(spec: Spec<FleetSpec>, children: Children) -> kopf::Result<()> {
///     for ship in &spec.ships {
///         let name = ship.clone();
///         children.on(subhandler().id(ship).retries(3), move |patch: Patch| async move {
///             patch.status(["ships", name.as_str()], "built")
///         })?;
///     }
///     Ok(())
/// }
/// # let _: kopf::Operator = kopf::Operator::new().on(kopf::create("fleets"), build);
/// ```
pub struct Children<S = ()> {
    scope: SubhandlerScope,
    /// The declaration of the handler whose children they are.
    parent: Arc<kopf_reaction::Handler>,
    state: PhantomData<fn(S)>,
}

impl<S: Send + Sync + 'static> Children<S> {
    /// Registers a sub-handler. Its id is put below that of its parent.
    pub fn on<P, H>(&self, registration: Registration<Subhandler>, handler: H) -> Result<()>
    where
        H: Handler<P, S>,
    {
        let index = self.scope.allocate_index();
        let finished = registration.finish::<H>(index, Some(&self.parent.id));
        // Another try would not declare it any better.
        let (mut declaration, callbacks) = finished.map_err(Error::permanent)?;
        declaration.field_needs_change = self.parent.field_needs_change;
        let function = AnyFunction::Object(handler::erase(handler));
        self.scope.add(declaration, Entry { function, callbacks: Arc::new(callbacks) });
        Ok(())
    }

    /// Executes the registered sub-handlers now. Pass the error on by `?`: it is how the engine
    /// learns that the handler is to be called again.
    pub async fn execute(&self) -> Result<()> {
        self.scope.execute(None).await
    }

    /// Executes the registered sub-handlers now, picked by another lifecycle than the operator's.
    pub async fn execute_by(&self, lifecycle: Lifecycle) -> Result<()> {
        self.scope.execute(Some(lifecycle)).await
    }
}

impl<S: Send + Sync + 'static> FromCall<S> for Children<S> {
    async fn from_call(call: &Call, _: &S) -> Result<Self> {
        let parent = Arc::clone(&call.invocation().handler);
        if parent.handler_type == kopf_reaction::HandlerType::Event {
            return Err(call.reject("event handlers cannot have sub-handlers, since nothing tracks their progress"));
        }
        Ok(Self { scope: call.scope().clone(), parent, state: PhantomData })
    }
}
