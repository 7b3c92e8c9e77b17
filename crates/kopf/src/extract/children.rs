//! Sub-handlers: parts of a handler with their own progress, retries and results.
//!
//! A handler registers them again in each of its calls; the engine remembers which are finished.

use std::marker::PhantomData;
use std::sync::Arc;

use super::{FromCall, Requirements};
use crate::call::registry::{AnyFunction, RegisteredFunction, SubhandlerScope};
use crate::call::{AnyCall, ChangeCall};
use crate::error::{Error, Result};
use crate::handler::{self, Handler, IntoOutcome, Parameters};
use crate::on::trigger::Subhandler;
use crate::on::{DeclarationError, Registration};
use crate::settings::Lifecycle;

/// The sub-handlers of the handler that takes it.
///
/// The engine calls them when the handler has returned, or when it calls [`execute`](Self::execute).
/// It calls the handler again until all of them are finished. `S` is the state of the operator.
///
/// ```
/// use kopf::extract::{Children, Patch, Spec};
/// use kopf::{Operator, on};
///
/// #[derive(serde::Deserialize)]
/// struct FleetSpec {
///     ships: Vec<String>,
/// }
///
/// async fn build(spec: Spec<FleetSpec>, children: Children) -> kopf::Result<()> {
///     for ship in &spec.ships {
///         let name = ship.clone();
///         children.on(on::subhandler().id(ship).retries(3), move |patch: Patch| async move {
///             patch.status(["ships", name.as_str()], "built")
///         })?;
///     }
///     Ok(())
/// }
/// # let _: Operator = Operator::new().on(on::create("fleets"), build);
/// ```
pub struct Children<S = ()> {
    scope: SubhandlerScope,
    /// The declaration of the handler whose children they are.
    parent: Arc<kopf_reaction::Handler>,
    state: PhantomData<fn(S)>,
}

impl<S: Send + Sync + 'static> Children<S> {
    /// Registers a sub-handler. Its id goes below the id of its parent.
    pub fn on<P, H>(&self, registration: Registration<Subhandler>, handler: H) -> Result<()>
    where
        H: Handler<P>,
        H::Future: Send,
        H::Output: IntoOutcome,
        P: Parameters<S, ChangeCall>,
    {
        let index = self.scope.allocate_index();
        let finished = registration.finish::<H>(index, Some(&self.parent.id));
        // Another attempt would find the same mistake.
        let (mut declaration, callbacks) = finished.map_err(Error::permanent)?;
        let mut requirements = Requirements::default();
        P::require(&mut requirements);
        if let Some(index) = self.scope.operator().indexes.missing(&requirements) {
            let (id, index) = (declaration.id.to_string(), index.to_owned());
            return Err(Error::permanent(DeclarationError::NoIndex { id, index }));
        }
        declaration.field_needs_change = self.parent.field_needs_change;
        let function = AnyFunction::Change(handler::erase(handler));
        self.scope.add(declaration, RegisteredFunction { function, callbacks: Arc::new(callbacks) });
        Ok(())
    }

    /// Executes the registered sub-handlers now. Return the error with `?`: it asks the engine to call the handler again.
    pub async fn execute(&self) -> Result<()> {
        self.scope.execute(None).await
    }

    /// Executes the registered sub-handlers now, in the order of another lifecycle than the operator's.
    pub async fn execute_by(&self, lifecycle: Lifecycle) -> Result<()> {
        self.scope.execute(Some(lifecycle.to_engine())).await
    }
}

impl<S: Send + Sync + 'static> FromCall<S, ChangeCall> for Children<S> {
    async fn from_call(call: &ChangeCall, _: &S) -> Result<Self> {
        let parent = Arc::clone(&call.invocation().handler);
        Ok(Self { scope: call.scope().clone(), parent, state: PhantomData })
    }
}
