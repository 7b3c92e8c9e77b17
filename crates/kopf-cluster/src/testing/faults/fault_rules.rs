//! Which fault hits which request: plain data, without locks, clocks or connections.

use std::time::Duration;

use super::{ActiveFault, Effect, Fault, FaultError, Match};
use crate::testing::RequestInfo;

/// The limit of active faults.
const LIMIT: usize = 1000;

/// The longest delay.
const LONGEST_DELAY_SECONDS: f64 = 86_400.0;

/// The faults that hit a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RequestFault {
    /// The delay before everything else.
    pub delay: Duration,
    /// An error, a disconnection or a cut, if any.
    pub effect: Option<Effect>,
}

/// The faults that hit a watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WatchFault {
    /// Whether the watch gets no bookmarks.
    pub no_bookmarks: bool,
    pub disruption: Option<Disruption>,
}

/// What happens to the stream of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disruption {
    /// It ends regularly.
    End,
    /// It is cut off.
    Disconnect,
    /// It is cut off in the middle of its next line.
    CutLine,
    /// It pauses.
    Silence,
    /// It ends with the error that its version is too old.
    Expire,
}

/// All faults, in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct FaultRules {
    rules: Vec<ActiveFault>,
    next_id: u64,
}

impl FaultRules {
    pub(super) fn add(&mut self, fault: Fault) -> Result<u64, FaultError> {
        check(&fault)?;
        if self.rules.len() >= LIMIT {
            return Err(FaultError::TooMany(LIMIT));
        }
        // Ids start at 1.
        self.next_id = self.next_id.max(1);
        let id = self.next_id;
        self.next_id += 1;
        self.rules.push(ActiveFault { id, hits: 0, fault });
        Ok(id)
    }

    pub(super) fn replace(&mut self, faults: Vec<Fault>) -> Result<Vec<u64>, FaultError> {
        faults.iter().try_for_each(check)?;
        if faults.len() > LIMIT {
            return Err(FaultError::TooMany(LIMIT));
        }
        self.clear();
        faults.into_iter().map(|fault| self.add(fault)).collect()
    }

    pub(super) fn remove(&mut self, id: u64) -> bool {
        let before = self.rules.len();
        self.rules.retain(|rule| rule.id != id);
        self.rules.len() < before
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    pub(super) fn list(&self) -> Vec<ActiveFault> {
        self.rules.clone()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The id of the next fault.
    pub(super) fn next_id(&self) -> u64 {
        self.next_id.max(1)
    }

    /// The faults of a new request: all delays, and the first other effect.
    pub(super) fn hit_request(&mut self, info: &RequestInfo) -> RequestFault {
        let mut hit = RequestFault::default();
        for rule in self.rules.iter_mut().filter(|rule| rule.is_due() && rule.fault.matches.covers(info)) {
            match &rule.fault.effect {
                Effect::Delay { seconds } => {
                    hit.delay = hit.delay.saturating_add(Duration::try_from_secs_f64(*seconds).unwrap_or_default());
                }
                effect @ (Effect::Error { .. } | Effect::Disconnect | Effect::CutAnswer) if hit.effect.is_none() => {
                    hit.effect = Some(effect.clone());
                }
                _ => continue,
            }
            rule.hits += 1;
        }
        hit
    }

    /// The faults of a watch: the first effect on its stream, and whether it gets bookmarks.
    pub(super) fn hit_watch(&mut self, info: &RequestInfo, since: u64, hit_by: &mut Vec<u64>) -> WatchFault {
        let mut fault = WatchFault::default();
        for rule in self.rules.iter_mut().filter(|rule| rule.fault.matches.covers(info)) {
            let known = hit_by.contains(&rule.id);
            if !known && !rule.is_due() {
                continue;
            }
            let disruption = match rule.fault.effect {
                Effect::EndWatch => Some(Disruption::End),
                Effect::CutWatch => Some(Disruption::CutLine),
                Effect::SilenceWatch => Some(Disruption::Silence),
                Effect::ExpireWatch => Some(Disruption::Expire),
                Effect::Disconnect if rule.id >= since => Some(Disruption::Disconnect),
                Effect::DropBookmarks => None,
                _ => continue,
            };
            match disruption {
                None => fault.no_bookmarks = true,
                Some(_) if fault.disruption.is_some() => continue,
                disruption => fault.disruption = disruption,
            }
            if !known {
                rule.hits += 1;
                hit_by.push(rule.id);
            }
        }
        fault
    }
}

impl ActiveFault {
    fn is_due(&self) -> bool {
        self.fault.times.is_none_or(|times| self.hits < times)
    }
}

impl Match {
    /// Whether the fault applies to a request.
    fn covers(&self, info: &RequestInfo) -> bool {
        let same = |wanted: &Option<String>, given: Option<&str>| wanted.is_none() || wanted.as_deref() == given;
        same(&self.verb, Some(info.verb_name()))
            && self.resource.as_deref().is_none_or(|wanted| names_resource(wanted, info))
            && same(&self.namespace, info.namespace.as_deref())
            && same(&self.name, info.name.as_deref())
            && self.user_agent.as_deref().is_none_or(|part| info.user_agent.contains(part))
    }
}

fn names_resource(wanted: &str, info: &RequestInfo) -> bool {
    if info.plural.starts_with('/') {
        return wanted == info.plural || wanted == "*";
    }
    let (resource, part) = match wanted.split_once('/') {
        Some((resource, part)) => (resource, Some(part)),
        None => (wanted, None),
    };
    let (plural, group) = match resource.split_once('.') {
        Some((plural, group)) => (plural, Some(group)),
        None => (resource, None),
    };
    let part_fits = match part {
        Some("*") => true,
        part => part == info.subresource.as_deref() || (part.is_none() && wanted == "*"),
    };
    (plural == "*" || plural == info.plural) && group.is_none_or(|group| group == info.group) && part_fits
}

fn check(fault: &Fault) -> Result<(), FaultError> {
    match &fault.effect {
        Effect::Error { code, .. } if !(400..600).contains(code) => Err(FaultError::Code(*code)),
        Effect::Delay { seconds } if !(0.0..=LONGEST_DELAY_SECONDS).contains(seconds) => Err(FaultError::Delay),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Verb;

    fn info() -> RequestInfo {
        RequestInfo {
            verb: Some(Verb::Patch),
            plural: "widgets".into(),
            group: "example.com".into(),
            subresource: Some("status".into()),
            namespace: Some("default".into()),
            name: Some("w".into()),
            user_agent: "my-operator/1.0".into(),
        }
    }

    #[test]
    fn requests_are_matched_by_all_that_is_given() {
        let any = Fault::new(Effect::Disconnect);
        for (fault, expected) in [
            (any.clone(), true),
            (any.clone().verb("patch"), true),
            (any.clone().verb("get"), false),
            (any.clone().resource("widgets"), false),
            (any.clone().resource("widgets/status"), true),
            (any.clone().resource("widgets/*"), true),
            (any.clone().resource("*"), true),
            (any.clone().resource("*/status"), true),
            (any.clone().resource("*/scale"), false),
            (any.clone().resource("widgets.example.com/status"), true),
            (any.clone().resource("widgets.example.org/status"), false),
            (any.clone().namespace("default"), true),
            (any.clone().namespace("other"), false),
            (any.clone().name("w"), true),
            (any.clone().name("w").namespace("other"), false),
            (any.clone().user_agent("operator"), true),
            (any.clone().user_agent("kubectl"), false),
        ] {
            assert_eq!(fault.matches.covers(&info()), expected, "{:?}", fault.matches);
        }
        let version = RequestInfo { verb: Some(Verb::Get), plural: "/version".into(), ..RequestInfo::default() };
        assert!(any.clone().resource("/version").matches.covers(&version));
        assert!(!any.clone().resource("/apis").matches.covers(&version));
        assert!(!any.resource("widgets").matches.covers(&version));
    }

    #[test]
    fn delays_add_up_and_the_first_error_counts() {
        let mut rules = FaultRules::default();
        let second = Duration::from_secs(1);
        for fault in [
            Fault::new(Effect::delay(second)),
            Fault::new(Effect::error(429)).times(2),
            Fault::new(Effect::delay(second)).times(1),
            Fault::new(Effect::error(500)),
            Fault::new(Effect::EndWatch),
        ] {
            rules.add(fault).unwrap();
        }
        let mut next = || rules.hit_request(&info());
        assert_eq!(next(), RequestFault { delay: 2 * second, effect: Some(Effect::error(429)) });
        assert_eq!(next(), RequestFault { delay: second, effect: Some(Effect::error(429)) });
        assert_eq!(next(), RequestFault { delay: second, effect: Some(Effect::error(500)) });
        let hits: Vec<u64> = rules.list().iter().map(|rule| rule.hits).collect();
        assert_eq!(hits, [3, 2, 1, 1, 0]);
    }

    #[test]
    fn each_fault_hits_a_watch_once_and_lasts_until_it_is_removed() {
        let mut rules = FaultRules::default();
        let silence = rules.add(Fault::new(Effect::SilenceWatch).times(1)).unwrap();
        rules.add(Fault::new(Effect::DropBookmarks)).unwrap();
        let (mut one, mut other) = (Vec::new(), Vec::new());
        let since = rules.next_id();
        let silent = WatchFault { no_bookmarks: true, disruption: Some(Disruption::Silence) };
        let quiet = WatchFault { no_bookmarks: true, disruption: None };
        assert_eq!(rules.hit_watch(&info(), since, &mut one), silent);
        assert_eq!(rules.hit_watch(&info(), since, &mut one), silent);
        assert_eq!(rules.hit_watch(&info(), since, &mut other), quiet);
        assert_eq!(rules.list()[0].hits, 1);
        assert!(rules.remove(silence));
        assert_eq!(rules.hit_watch(&info(), since, &mut one), quiet);
        // The fault does not close a connection that is newer than itself.
        rules.add(Fault::new(Effect::Disconnect)).unwrap();
        let cut = WatchFault { no_bookmarks: true, disruption: Some(Disruption::Disconnect) };
        assert_eq!(rules.hit_watch(&info(), since, &mut one), cut);
        assert_eq!(rules.hit_watch(&info(), rules.next_id(), &mut Vec::new()), quiet);
    }

    #[test]
    fn nonsense_is_refused() {
        let mut rules = FaultRules::default();
        for (effect, expected) in [
            (Effect::error(200), FaultError::Code(200)),
            (Effect::Delay { seconds: -1.0 }, FaultError::Delay),
            (Effect::Delay { seconds: f64::NAN }, FaultError::Delay),
        ] {
            assert_eq!(rules.add(Fault::new(effect)), Err(expected));
        }
        let many = vec![Fault::new(Effect::EndWatch); LIMIT];
        assert_eq!(rules.replace(many).unwrap().len(), LIMIT);
        assert_eq!(rules.add(Fault::new(Effect::EndWatch)), Err(FaultError::TooMany(LIMIT)));
        assert_eq!(rules.replace(vec![Fault::new(Effect::error(1))]), Err(FaultError::Code(1)));
        assert_eq!(rules.list().len(), LIMIT, "nothing is replaced if something is wrong");
        rules.clear();
        assert!(rules.is_empty() && !rules.remove(1));
    }
}
