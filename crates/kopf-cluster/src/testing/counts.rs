//! Request counts, so that tests can check what an operator does.
//!
//! `http/service.rs` counts every request but the controls; `Cluster::requests` returns the counts.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use super::RequestInfo;

/// The number of requests with one verb for one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RequestCount {
    /// As in roles: `get`, `list`, `watch`, …
    pub verb: String,
    /// `pods`, `deployments.apps/scale`, or a path such as `/version`.
    pub resource: String,
    pub count: u64,
}

/// All counts since the start, or since they were reset.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// By resource, then by verb: a few of each, so that nothing is allocated for known ones.
    counts: Mutex<HashMap<String, Vec<(&'static str, u64)>>>,
}

impl Counts {
    pub(crate) fn count(&self, info: &RequestInfo) {
        let resource = info.resource();
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let verbs = counts.entry(resource).or_default();
        match verbs.iter_mut().find(|(verb, _)| *verb == info.verb_name()) {
            Some((_, count)) => *count += 1,
            None => verbs.push((info.verb_name(), 1)),
        }
    }

    /// The counts, ordered by resource and verb.
    pub(crate) fn list(&self) -> Vec<RequestCount> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = |resource: &str, (verb, count): &(&str, u64)| RequestCount {
            verb: (*verb).to_owned(),
            resource: resource.to_owned(),
            count: *count,
        };
        let mut list: Vec<RequestCount> =
            counts.iter().flat_map(|(resource, verbs)| verbs.iter().map(|verb| entry(resource, verb))).collect();
        list.sort_by(|one, other| (&one.resource, &one.verb).cmp(&(&other.resource, &other.verb)));
        list
    }

    pub(crate) fn reset(&self) {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Verb;

    #[test]
    fn requests_are_counted_by_verb_and_resource() {
        let counts = Counts::default();
        let info = |verb, plural: &str, group: &str, part: Option<&str>| RequestInfo {
            verb: Some(verb),
            plural: plural.into(),
            group: group.into(),
            subresource: part.map(str::to_owned),
            ..RequestInfo::default()
        };
        for _ in 0..3 {
            counts.count(&info(Verb::List, "pods", "", None));
        }
        counts.count(&info(Verb::Patch, "widgets", "example.com", Some("status")));
        counts.count(&info(Verb::Get, "/version", "", None));
        counts.count(&info(Verb::Get, "pods", "", None));
        let list: Vec<String> =
            counts.list().into_iter().map(|one| format!("{} {} {}", one.verb, one.resource, one.count)).collect();
        assert_eq!(list, ["get /version 1", "get pods 1", "list pods 3", "patch widgets.example.com/status 1"]);
        counts.reset();
        assert!(counts.list().is_empty());
    }
}
