//! Several operators on one peering object: whatever their priorities and times, at most one of them works.

// Helpers outside of test functions may panic as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use jiff::{SignedDuration, Timestamp};
use kopf_reaction::{OwnPeer, Peer, decide_peering, keepalive_pause};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn start() -> Timestamp {
    "2030-01-01T00:00:00Z".parse().unwrap()
}

fn after(seconds: i64) -> Timestamp {
    start() + SignedDuration::from_secs(seconds)
}

fn own_peer(identity: &str, priority: i64) -> OwnPeer {
    OwnPeer { identity: identity.to_owned(), priority, sharded: false }
}

fn peers() -> impl Strategy<Value = Vec<Peer>> {
    let peer = (0_i64..4, 1_i64..100, 0_i64..120);
    prop::collection::vec(peer, 1..6).prop_map(|peers| {
        let peers = peers.into_iter().enumerate();
        peers
            .map(|(number, (priority, lifetime, age))| Peer {
                identity: format!("peer-{number}"),
                priority,
                lifetime,
                lastseen: after(-age),
            })
            .collect()
    })
}

fn status(peers: &[Peer]) -> Value {
    let items: Map<String, Value> = peers.iter().map(|peer| (peer.identity.clone(), peer.to_value())).collect();
    Value::Object(items)
}

proptest! {
    /// All that are alive look at the same object: never do two of them go on. One goes on if it is the only one
    /// of the highest priority.
    #[test]
    fn at_most_one_works(peers in peers()) {
        let status = status(&peers);
        let alive: Vec<&Peer> = peers.iter().filter(|peer| !peer.is_dead(start())).collect();
        let works = |peer: &&&Peer| {
            !decide_peering(Some(&status), &own_peer(&peer.identity, peer.priority), start()).must_pause()
        };
        let working: Vec<&&Peer> = alive.iter().filter(works).collect();
        prop_assert!(working.len() <= 1);
        let highest = alive.iter().map(|peer| peer.priority).max();
        let leaders = alive.iter().filter(|peer| Some(peer.priority) == highest).count();
        prop_assert_eq!(working.len() == 1, leaders == 1);
        prop_assert!(working.iter().all(|peer| Some(peer.priority) == highest));
    }

    /// A paused operator resumes as soon as the records of the others expire, if it decides again in time.
    #[test]
    fn every_pause_has_an_end(peers in peers(), priority in 0_i64..4) {
        let (status, me) = (status(&peers), own_peer("me", priority));
        let mut now = start();
        for _ in 0..=peers.len() {
            let decision = decide_peering(Some(&status), &me, now);
            prop_assert_eq!(decision.must_pause(), decision.until.is_some());
            prop_assert!(decision.dead.iter().all(|dead| !decision.conflicts.iter().any(|peer| peer.identity == *dead)));
            match decision.until {
                Some(until) => {
                    prop_assert!(until > now);
                    now = until;
                }
                None => return Ok(()),
            }
        }
        prop_assert!(false, "it still waits");
    }

    /// Whatever is written there by whomever, it is read without harm.
    #[test]
    fn any_status_is_survived(keys in prop::collection::vec(".{0,6}", 0..4), number in any::<f64>(), text in ".{0,20}") {
        let values = [json!(number), json!(text), json!({"priority": number, "lifetime": number, "lastseen": text}),
                      json!({"lifetime": i64::MAX}), json!([text])];
        let items: Map<String, Value> = keys.into_iter().zip(values).collect();
        let decision = decide_peering(Some(&Value::Object(items)), &own_peer("me", 0), start());
        prop_assert!(decision.until.is_none_or(|until| until > start()));
    }

    /// The others hear of us before they take us for dead, and we do not flood the API.
    #[test]
    fn keepalives_are_neither_late_nor_too_many(lifetime in 2.0_f64..1e6, random in 0.0_f64..1.0) {
        let pause = keepalive_pause(lifetime, random);
        prop_assert!((1.0..lifetime).contains(&pause));
    }
}
