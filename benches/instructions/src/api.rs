//! An API in memory, and requests to it.

use std::convert::Infallible;
use std::future::Future;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use jiff::Timestamp;
use kopf_engine::{Api, Clock, Log, NetworkingSettings, PatchKind, Vault};
use kopf_object::parse_partial;
use kube::client::Body as RequestBody;
use serde_json::json;

use crate::{Outcome, object};

/// The engine's client, for an API that is a function.
pub(crate) fn api_of<F, A, B>(respond: F) -> (Api, Clock, Log)
where
    F: Fn(Request<RequestBody>) -> A + Clone + Send + 'static,
    A: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    let client = kube::Client::new(tower::service_fn(respond), "default");
    let (clock, log) = (Clock::simulated(Timestamp::UNIX_EPOCH, 1), Log::silent());
    let vault = Vault::with_client(client, clock.clone(), log.clone());
    (Api::new(vault, &NetworkingSettings::default(), clock.clone(), log.clone()), clock, log)
}

/// One patch, from its bytes to the parsed part of the answer.
pub(crate) async fn patch(count: usize) -> Outcome {
    let answer = Bytes::from(object::fresh().to_string());
    let (api, ..) = api_of(move |_| {
        let answer = answer.clone();
        async move { Ok(Response::new(Full::new(answer))) }
    });
    let change = json!({"metadata": {"uid": "u"}, "status": {"message": "done", "observedGeneration": 1}});
    for _ in 0..count {
        let path = "/apis/bench.dev/v1/namespaces/bench/widgets/widget-1/status";
        let answer = api.patch(path, PatchKind::Merge, Bytes::from(serde_json::to_vec(&change)?)).await?;
        parse_partial(&answer, &change)?;
    }
    Ok(())
}
