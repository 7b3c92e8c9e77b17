//! Triggers in the life of the operator itself: handlers of activities have no object.

use kopf_reaction::{Activity, Handler, HandlerType};

use super::Registration;
use super::trigger::{Cleanup, Login, Probe, Startup, Trigger};
use crate::filter::Callbacks;

/// Calls the handler once when the operator starts, before anything else. The operator does not start if it fails.
///
/// ```
/// use kopf::{Operator, on};
/// use kopf::extract::Logger;
///
/// async fn prepare(logger: Logger) {
///     logger.info("Here we go.");
/// }
/// # let _: Operator =
/// Operator::new().on(on::startup(), prepare)
/// # ;
/// ```
pub fn startup() -> Registration<Startup> {
    activity(Activity::Startup)
}

/// Calls the handler once when the operator stops, after everything else.
///
/// ```
/// use kopf::{Operator, on};
/// use kopf::extract::Logger;
///
/// async fn leave(logger: Logger) {
///     logger.info("That was all.");
/// }
/// # let _: Operator =
/// Operator::new().on(on::cleanup(), leave)
/// # ;
/// ```
pub fn cleanup() -> Registration<Cleanup> {
    activity(Activity::Cleanup)
}

/// Calls the handler when the operator needs credentials: at the start, and when the cluster does not accept the old
/// ones any more. The function returns a [`ConnectionInfo`](crate::ConnectionInfo). Without login handlers, the operator
/// takes the credentials from the kubeconfig or from the pod.
///
/// ```
/// use kopf::{ConnectionInfo, Operator, on};
///
/// async fn login() -> kopf::Result<ConnectionInfo> {
///     let token = std::fs::read_to_string("token.txt")?;
///     Ok(ConnectionInfo { server: "https://localhost:6443".into(), token: Some(token), ..Default::default() })
/// }
/// # let _: Operator =
/// Operator::new().on(on::login(), login)
/// # ;
/// ```
pub fn login() -> Registration<Login> {
    activity(Activity::Authentication)
}

/// Calls the handler when somebody asks for the health of the operator at its
/// [liveness endpoint](crate::Operator::liveness), which shows what the function returns.
///
/// ```
/// use kopf::{Operator, on};
///
/// async fn name() -> kopf::Result<&'static str> {
///     Ok("the operator of caches")
/// }
/// # let _: Operator =
/// Operator::new().on(on::probe(), name).liveness("http://0.0.0.0:8080/healthz")
/// # ;
/// ```
pub fn probe() -> Registration<Probe> {
    activity(Activity::Probe)
}

fn activity<T: Trigger>(activity: Activity) -> Registration<T> {
    let mut handler = Handler::new(0, "", HandlerType::Activity);
    handler.activity = Some(activity);
    Registration::new(handler, Callbacks::default())
}
