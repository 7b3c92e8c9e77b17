//! The cluster's controls for processes in other languages: the paths under `/kopf/`.
//!
//! A real server has none of them. They require the same token as the API, and do what the methods
//! of `Cluster` do. They are not counted, and faults do not affect them.
//!
//! | request | effect |
//! | --- | --- |
//! | `GET /kopf/faults` | lists all faults, with their ids and hits |
//! | `POST /kopf/faults` | adds a fault, and returns its id |
//! | `PUT /kopf/faults` | replaces all faults by a list |
//! | `DELETE /kopf/faults`, `DELETE /kopf/faults/7` | removes all faults, or one |
//! | `GET /kopf/requests`, `DELETE /kopf/requests` | lists or resets the request counts |
//! | `GET /kopf/clock` | returns the time of the cluster |
//! | `POST /kopf/clock/advance` | advances the clock by `{"seconds": 3600}` |
//! | `POST /kopf/compact` | drops the history |
//!
//! A fault is an object such as
//! `{"match": {"verb": "list", "resource": "pods"}, "times": 3, "effect": {"type": "error", "code": 503}}`.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::request::status::StatusError;
use crate::request::{Request, Response};
use crate::state::State;
use crate::testing::{Fault, Faults};

/// The prefix of all controls.
const PREFIX: &str = "/kopf/";

/// The longest single advance: a hundred years.
const LONGEST_ADVANCE_SECONDS: f64 = 100.0 * 366.0 * 86_400.0;

/// How far to advance the clock.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    seconds: f64,
}

/// The response to a control request; None for all other paths.
pub(super) fn answer(state: &Arc<State>, request: &Request) -> Option<Response> {
    let path = request.path.strip_prefix(PREFIX)?;
    Some(control(state, request, path).unwrap_or_else(Response::from))
}

fn control(state: &Arc<State>, request: &Request, path: &str) -> Result<Response, StatusError> {
    let faults = Faults::new(Arc::clone(&state.faults));
    let parts: Vec<&str> = path.trim_end_matches('/').split('/').collect();
    let answer = match (&request.method, parts.as_slice()) {
        (&Method::GET, ["faults"]) => json!({"faults": faults.list()}),
        (&Method::POST, ["faults"]) => {
            let id =
                faults.add(body::<Fault>(request)?).map_err(|error| StatusError::bad_request(error.to_string()))?;
            json!({"id": id})
        }
        (&Method::PUT, ["faults"]) => {
            let ids = faults.replace(body::<Vec<Fault>>(request)?);
            json!({"ids": ids.map_err(|error| StatusError::bad_request(error.to_string()))?})
        }
        (&Method::DELETE, ["faults"]) => {
            faults.clear();
            json!({})
        }
        (&Method::DELETE, ["faults", id]) => match id.parse().is_ok_and(|id| faults.remove(id)) {
            true => json!({}),
            false => return Err(StatusError::no_such_resource()),
        },
        (&Method::GET, ["requests"]) => json!({"requests": state.counts.list()}),
        (&Method::DELETE, ["requests"]) => {
            state.counts.reset();
            json!({})
        }
        (&Method::GET, ["clock"]) => now(state),
        (&Method::POST, ["clock", "advance"]) => {
            let Advance { seconds } = body(request)?;
            if !(0.0..=LONGEST_ADVANCE_SECONDS).contains(&seconds) {
                return Err(StatusError::bad_request("seconds must be between 0 and those of a hundred years"));
            }
            state.clock().advance(Duration::from_secs_f64(seconds));
            now(state)
        }
        (&Method::POST, ["compact"]) => {
            state.store().compact();
            json!({})
        }
        (_, ["faults"] | ["faults", _] | ["requests"] | ["clock"] | ["clock", "advance"] | ["compact"]) => {
            return Err(StatusError::method_not_allowed());
        }
        _ => return Err(StatusError::no_such_resource()),
    };
    Ok(Response::json(200, &answer))
}

fn now(state: &State) -> Value {
    json!({"now": state.now().to_string()})
}

fn body<T: DeserializeOwned>(request: &Request) -> Result<T, StatusError> {
    serde_json::from_slice(&request.body).map_err(|error| StatusError::bad_request(error.to_string()))
}
