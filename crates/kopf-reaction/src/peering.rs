//! Peering: which operators work and which ones pause, by their records on a shared peering object.
//!
//! Every operator regularly writes a record into the status of the object, with its priority and lifetime. An operator
//! pauses while it sees a live peer with a higher priority; with the same priority, both pause.

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use serde_json::{Map, Value, json};

use crate::time::parse_time;

/// The lifetime of a record that does not state it, in seconds.
const LIFETIME: i64 = 60;

/// The longest accepted lifetime, in seconds.
const LONGEST_LIFETIME: i64 = 100 * 366 * 24 * 3600;

/// The record of one operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The unique name of the operator.
    pub identity: String,
    /// The operator with the highest priority works.
    pub priority: i64,
    /// Seconds for which the record counts.
    pub lifetime: i64,
    /// When the operator has written the record.
    pub lastseen: Timestamp,
}

impl Peer {
    /// Reads a record from the status.
    pub fn read(identity: &str, record: &Value, now: Timestamp) -> Result<Self, String> {
        let Value::Object(record) = record else { return Err(format!("{identity}: not a mapping")) };
        let number = |field: &str, default: i64| match record.get(field) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => {
                let text = value.as_str().and_then(|text| text.trim().parse().ok());
                let number = value.as_i64().or_else(|| value.as_f64().map(|number| number as i64)).or(text);
                number.ok_or_else(|| format!("{identity}: {field} is {value}"))
            }
        };
        let lastseen = match record.get("lastseen") {
            None | Some(Value::Null) => now,
            Some(value) => {
                let time = value.as_str().and_then(parse_time);
                time.ok_or_else(|| format!("{identity}: lastseen is {value}"))?
            }
        };
        let lifetime = number("lifetime", LIFETIME)?.clamp(0, LONGEST_LIFETIME);
        Ok(Self { identity: identity.to_owned(), priority: number("priority", 0)?, lifetime, lastseen })
    }

    /// The record for the status.
    pub fn to_value(&self) -> Value {
        json!({"priority": self.priority, "lifetime": self.lifetime, "lastseen": iso_time(self.lastseen)})
    }

    /// When the record expires, unless the operator renews it.
    pub fn deadline(&self) -> Timestamp {
        self.lastseen.checked_add(SignedDuration::from_secs(self.lifetime)).unwrap_or(Timestamp::MAX)
    }

    /// Whether the record has expired.
    pub fn is_dead(&self, now: Timestamp) -> bool {
        self.deadline() <= now
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (identity, lastseen) = (&self.identity, iso_time(self.lastseen));
        write!(
            formatter,
            "<Peer {identity}: priority={}, lifetime={}, lastseen='{lastseen}'>",
            self.priority, self.lifetime
        )
    }
}

/// This operator among its peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPeer {
    /// The unique name of this operator.
    pub identity: String,
    /// The priority of this operator.
    pub priority: i64,
    /// The operators have different shards of the objects: the same priority is no conflict.
    pub sharded: bool,
}

/// Whether to pause, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeeringDecision {
    /// The peers to pause for: those of a higher priority, or else those of the same one.
    pub conflicts: Vec<Peer>,
    /// The conflict is one of the same priority: a mistake of the users.
    pub same_priority: bool,
    /// All peers, for the log.
    pub peers: Vec<Peer>,
    /// The peers to remove from the object, because their records have expired.
    pub dead: Vec<String>,
    /// When to decide again at the latest: the first of the conflicting records expires then.
    pub until: Option<Timestamp>,
    /// Unreadable records, which count as absent.
    pub unreadable: Vec<String>,
}

impl PeeringDecision {
    /// Whether the operator has to pause.
    pub fn must_pause(&self) -> bool {
        !self.conflicts.is_empty()
    }
}

/// Decides whether this operator pauses, and until when.
pub fn decide_peering(status: Option<&Value>, own_peer: &OwnPeer, now: Timestamp) -> PeeringDecision {
    let empty = Map::new();
    let items = status.and_then(Value::as_object).unwrap_or(&empty);
    let mut decision = PeeringDecision::default();
    for (identity, record) in items.iter().filter(|(_, record)| !record.is_null()) {
        match Peer::read(identity, record, now) {
            Ok(peer) => decision.peers.push(peer),
            Err(problem) => decision.unreadable.push(problem),
        }
    }
    let (dead, alive): (Vec<&Peer>, Vec<&Peer>) = decision.peers.iter().partition(|peer| peer.is_dead(now));
    decision.dead = dead.into_iter().map(|peer| peer.identity.clone()).collect();
    let others: Vec<&Peer> = alive.into_iter().filter(|peer| peer.identity != own_peer.identity).collect();
    let of = |is_so: &dyn Fn(&Peer) -> bool| -> Vec<Peer> {
        others.iter().filter(|peer| is_so(peer)).map(|peer| (*peer).clone()).collect()
    };
    let higher = of(&|peer| peer.priority > own_peer.priority);
    let same = of(&|peer| peer.priority == own_peer.priority);
    (decision.conflicts, decision.same_priority) = match (higher.is_empty(), own_peer.sharded) {
        (false, _) => (higher, false),
        (true, false) => (same, true),
        (true, true) => (Vec::new(), false),
    };
    decision.same_priority &= decision.must_pause();
    decision.until = decision.conflicts.iter().map(Peer::deadline).min();
    decision
}

/// Seconds until the operator renews its record: some time before it expires. `random` in 0..1 spreads the operators
/// out.
pub fn keepalive_pause(lifetime: f64, random: f64) -> f64 {
    let early = 5.0 + 5.0 * random.clamp(0.0, 1.0);
    (lifetime - early).max(1.0).min(lifetime.max(1.0))
}

/// Formats a moment as Python does with an aware UTC time: with microseconds only if there are any.
fn iso_time(moment: Timestamp) -> String {
    let civil = moment.to_zoned(TimeZone::UTC).datetime();
    let seconds = civil.strftime("%Y-%m-%dT%H:%M:%S").to_string();
    match civil.subsec_nanosecond() / 1000 {
        0 => format!("{seconds}+00:00"),
        micros => format!("{seconds}.{micros:06}+00:00"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2030-01-01T00:00:00Z".parse().unwrap()
    }

    fn me(priority: i64) -> OwnPeer {
        OwnPeer { identity: "me".into(), priority, sharded: false }
    }

    fn alive(priority: i64) -> Value {
        json!({"priority": priority, "lifetime": 60, "lastseen": "2029-12-31T23:59:30+00:00"})
    }

    fn dead(priority: i64) -> Value {
        json!({"priority": priority, "lifetime": 60, "lastseen": "2029-12-31T23:58:30.123456+00:00"})
    }

    #[test]
    fn operators_pause_for_peers_of_higher_or_equal_priority() {
        // own priority, the status -> peers to pause for, whether of the same priority, peers to remove
        let table = [
            (0, json!(null), vec![], false, vec![]),
            (0, json!({}), vec![], false, vec![]),
            (0, json!({"me": alive(0)}), vec![], false, vec![]),
            (0, json!({"me": dead(0)}), vec![], false, vec!["me"]),
            (0, json!({"low": alive(-1)}), vec![], false, vec![]),
            (0, json!({"same": alive(0)}), vec!["same"], true, vec![]),
            (0, json!({"high": alive(1)}), vec!["high"], false, vec![]),
            (0, json!({"high": alive(1), "same": alive(0)}), vec!["high"], false, vec![]),
            (5, json!({"high": alive(1), "same": alive(0)}), vec![], false, vec![]),
            (0, json!({"high": dead(1), "same": dead(0)}), vec![], false, vec!["high", "same"]),
            (0, json!({"high": null, "text": "text", "number": {"priority": "x"}}), vec![], false, vec![]),
            (0, json!({"default": {}}), vec!["default"], true, vec![]),
        ];
        for (priority, status, conflicts, same, removed) in table {
            let decision = decide_peering(Some(&status), &me(priority), now());
            let names: Vec<&str> = decision.conflicts.iter().map(|peer| &*peer.identity).collect();
            assert_eq!(
                (names, decision.same_priority, &decision.dead),
                (conflicts, same, &removed.iter().map(|one| one.to_string()).collect()),
                "{status}"
            );
            assert_eq!(decision.until.is_some(), decision.must_pause());
        }
    }

    #[test]
    fn the_pause_lasts_until_the_first_record_expires() {
        let status =
            json!({"a": {"priority": 1, "lifetime": 30, "lastseen": "2030-01-01T00:00:00+00:00"}, "b": alive(2)});
        let decision = decide_peering(Some(&status), &me(0), now());
        assert_eq!(decision.until, Some("2030-01-01T00:00:30Z".parse().unwrap()));
        assert_eq!(decision.conflicts.len(), 2);
    }

    #[test]
    fn sharded_operators_share_a_priority() {
        let sharded = OwnPeer { sharded: true, ..me(0) };
        assert!(!decide_peering(Some(&json!({"same": alive(0)})), &sharded, now()).must_pause());
        assert!(decide_peering(Some(&json!({"high": alive(1)})), &sharded, now()).must_pause());
    }

    #[test]
    fn records_read_back_unchanged() {
        let peer = Peer::read("me", &dead(3), now()).unwrap();
        assert_eq!(Peer::read("me", &peer.to_value(), now()).unwrap(), peer);
        let text = "<Peer me: priority=3, lifetime=60, lastseen='2029-12-31T23:58:30.123456+00:00'>";
        assert_eq!(peer.to_string(), text);
        assert_eq!(iso_time(now()), "2030-01-01T00:00:00+00:00");
    }

    #[test]
    fn records_are_renewed_before_they_expire() {
        for (lifetime, random, pause) in
            [(60.0, 0.0, 55.0), (60.0, 1.0, 50.0), (8.0, 0.0, 3.0), (5.0, 0.5, 1.0), (0.0, 0.5, 1.0)]
        {
            assert_eq!(keepalive_pause(lifetime, random), pause, "{lifetime}");
        }
    }
}
