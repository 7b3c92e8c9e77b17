//! How many requests were made, by verb and outcome: plain numbers for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    List,
    Watch,
    Patch,
    Post,
}

/// What a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// 2xx, and whatever is not an error.
    Success,
    Unauthorized,
    Forbidden,
    NotFound,
    Conflict,
    Gone,
    Unprocessable,
    TooManyRequests,
    /// Other 4xx.
    ClientError,
    /// 5xx.
    ServerError,
    /// No connection, a lost one, or a time-out.
    NoAnswer,
}

const VERBS: [(Verb, &str); 5] =
    [(Verb::Get, "get"), (Verb::List, "list"), (Verb::Watch, "watch"), (Verb::Patch, "patch"), (Verb::Post, "post")];

const OUTCOMES: [(RequestOutcome, &str); 11] = [
    (RequestOutcome::Success, "2xx"),
    (RequestOutcome::Unauthorized, "401"),
    (RequestOutcome::Forbidden, "403"),
    (RequestOutcome::NotFound, "404"),
    (RequestOutcome::Conflict, "409"),
    (RequestOutcome::Gone, "410"),
    (RequestOutcome::Unprocessable, "422"),
    (RequestOutcome::TooManyRequests, "429"),
    (RequestOutcome::ClientError, "4xx"),
    (RequestOutcome::ServerError, "5xx"),
    (RequestOutcome::NoAnswer, "error"),
];

/// Counts of one operator since its start.
#[derive(Debug, Default)]
pub struct RequestCounters {
    counts: [[AtomicU64; OUTCOMES.len()]; VERBS.len()],
}

impl RequestCounters {
    pub(super) fn count(&self, verb: Verb, outcome: RequestOutcome) {
        self.counts[verb as usize][outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn get(&self, verb: Verb, outcome: RequestOutcome) -> u64 {
        self.counts[verb as usize][outcome as usize].load(Ordering::Relaxed)
    }

    /// Everything counted so far, with the labels of verbs and codes.
    pub fn snapshot(&self) -> Vec<(&'static str, &'static str, u64)> {
        let all = VERBS.iter().flat_map(|verb| OUTCOMES.iter().map(move |outcome| (verb, outcome)));
        all.map(|(verb, outcome)| (verb.1, outcome.1, self.get(verb.0, outcome.0))).filter(|row| row.2 > 0).collect()
    }
}

impl RequestOutcome {
    pub(super) fn of(status: StatusCode) -> Self {
        match status.as_u16() {
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 => Self::NotFound,
            409 => Self::Conflict,
            410 => Self::Gone,
            422 => Self::Unprocessable,
            429 => Self::TooManyRequests,
            400..=499 => Self::ClientError,
            500..=599 => Self::ServerError,
            _ => Self::Success,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_fit_their_places() {
        for (index, (verb, _)) in VERBS.iter().enumerate() {
            assert_eq!(*verb as usize, index);
        }
        for (index, (outcome, _)) in OUTCOMES.iter().enumerate() {
            assert_eq!(*outcome as usize, index);
        }
        let counters = RequestCounters::default();
        counters.count(Verb::Patch, RequestOutcome::of(StatusCode::CONFLICT));
        assert_eq!(counters.snapshot(), [("patch", "409", 1)]);
    }
}
