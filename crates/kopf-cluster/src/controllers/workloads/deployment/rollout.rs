//! The arithmetic of a rollout: how many pods each replica set of a deployment may have.
//!
//! All of it works on sizes alone; `deployment.rs` reads them off the objects.

use serde_json::Value;

use crate::controllers::workloads::objects::{number, scaled};

/// How far a rollout may go above and below the wanted number of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub wanted: i64,
    pub max_surge: i64,
    pub max_unavailable: i64,
}

/// A replica set, as far as it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    /// The desired number.
    pub replicas: i64,
    pub available: i64,
}

impl Limits {
    pub(crate) fn of(deployment: &Value) -> Self {
        let wanted = deployment["spec"]["replicas"].as_i64().unwrap_or(1);
        if !is_rolling(deployment) || wanted == 0 {
            let strategy = &deployment["spec"]["strategy"]["rollingUpdate"];
            let max_surge = if is_rolling(deployment) { scaled(&strategy["maxSurge"], wanted, true) } else { 0 };
            return Self { wanted, max_surge, max_unavailable: 0 };
        }
        let strategy = &deployment["spec"]["strategy"]["rollingUpdate"];
        let max_surge = scaled(&strategy["maxSurge"], wanted, true);
        let max_unavailable = scaled(&strategy["maxUnavailable"], wanted, false);
        // Something must be allowed, or nothing could ever move.
        let max_unavailable = if max_surge == 0 && max_unavailable == 0 { 1 } else { max_unavailable };
        Self { wanted, max_surge, max_unavailable: max_unavailable.min(wanted) }
    }

    /// The size of the new replica set, as far as the limits allow.
    pub(crate) fn new_size(&self, rolling: bool, new: i64, total: i64) -> i64 {
        let room = self.wanted + self.max_surge - total;
        match rolling {
            false => self.wanted,
            true if room <= 0 => new,
            true => new + room.min(self.wanted - new),
        }
    }

    /// The sizes of the old replica sets, the oldest first, after giving way to the new one.
    pub(crate) fn old_sizes(&self, old: &[Size], new: Size) -> Vec<i64> {
        let mut sizes: Vec<i64> = old.iter().map(|size| size.replicas).collect();
        let total: i64 = sizes.iter().sum::<i64>() + new.replicas;
        let least = self.wanted - self.max_unavailable;
        let new_unavailable = new.replicas - new.available;
        let mut spare = total - least - new_unavailable;
        if spare <= 0 {
            return sizes;
        }
        // Unhealthy replicas are scaled down first.
        for (size, old) in sizes.iter_mut().zip(old) {
            let broken = (*size - old.available).clamp(0, spare.max(0));
            *size -= broken;
            spare -= broken;
        }
        let available = old.iter().map(|size| size.available).sum::<i64>() + new.available;
        let mut rest = available - least;
        for size in &mut sizes {
            let less = (*size).clamp(0, rest.max(0));
            *size -= less;
            rest -= less;
        }
        sizes
    }

    /// Spreads a change of the wanted number over several replica sets, in proportion to their sizes.
    ///
    /// Takes the sizes, and the maximum of pods of the deployment when each size was set.
    pub(crate) fn proportional(&self, sets: &[(i64, i64)]) -> Vec<i64> {
        let allowed = if self.wanted > 0 { self.wanted + self.max_surge } else { 0 };
        let mut sizes: Vec<i64> = sets.iter().map(|(size, _)| *size).collect();
        let to_add = allowed - sizes.iter().sum::<i64>();
        let mut added = 0;
        for (size, (before, most)) in sizes.iter_mut().zip(sets) {
            let left = to_add - added;
            if *before == 0 || left == 0 {
                continue;
            }
            let fraction = match (self.wanted, *most) {
                (0, _) => -before,
                (_, 0) => 0,
                (_, most) => divide(before * (self.wanted + self.max_surge), most) - before,
            };
            let share = if to_add > 0 { fraction.min(left) } else { fraction.max(left) };
            *size += share;
            added += share;
        }
        // The first set gets the rounding remainder.
        if let Some(first) = sizes.first_mut() {
            *first = (*first + to_add - added).max(0);
        }
        sizes
    }
}

pub(crate) fn is_rolling(deployment: &Value) -> bool {
    deployment["spec"]["strategy"]["type"] != "Recreate"
}

pub(crate) fn size_of(set: &Value) -> Size {
    Size { replicas: number(set, "/spec/replicas"), available: number(set, "/status/availableReplicas") }
}

/// Rounds halves away from zero.
fn divide(value: i64, by: i64) -> i64 {
    (2 * value + by) / (2 * by)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn limits(wanted: i64, max_surge: i64, max_unavailable: i64) -> Limits {
        Limits { wanted, max_surge, max_unavailable }
    }

    #[test]
    fn limits_are_numbers_or_percentages() {
        let check = |replicas: i64, surge: Value, unavailable: Value, expected: Limits| {
            let deployment = json!({"spec": {"replicas": replicas, "strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}});
            assert_eq!(Limits::of(&deployment), expected, "{deployment}");
        };
        check(3, json!("25%"), json!("25%"), limits(3, 1, 0));
        check(5, json!("25%"), json!("25%"), limits(5, 2, 1));
        check(3, json!(0), json!("10%"), limits(3, 0, 1));
        check(2, json!(0), json!(5), limits(2, 0, 2));
        check(0, json!("25%"), json!("25%"), limits(0, 0, 0));
        let recreate = json!({"spec": {"replicas": 2, "strategy": {"type": "Recreate"}}});
        assert_eq!(Limits::of(&recreate), limits(2, 0, 0));
    }

    #[test]
    fn the_new_set_grows_into_the_room() {
        // As observed with five replicas and 25%: 2, then 3, then 5.
        let five = limits(5, 2, 1);
        assert_eq!(five.new_size(true, 0, 5), 2);
        assert_eq!(five.new_size(true, 2, 6), 3);
        assert_eq!(five.new_size(true, 3, 5), 5);
        assert_eq!(five.new_size(true, 3, 7), 3);
        assert_eq!(five.new_size(false, 0, 5), 5);
    }

    #[test]
    fn old_sets_give_way() {
        let size = |replicas, available| Size { replicas, available };
        let check =
            |old: &[Size], new: Size, expected: &[i64]| assert_eq!(limits(5, 2, 1).old_sizes(old, new), expected);
        // As observed: 5 to 4 at once, to 2 with two new ones, and so on.
        check(&[size(5, 5)], size(2, 0), &[4]);
        check(&[size(4, 4)], size(3, 2), &[2]);
        check(&[size(2, 2)], size(5, 3), &[1]);
        check(&[size(1, 1)], size(5, 5), &[0]);
        check(&[size(4, 4)], size(3, 0), &[4]);
        // Broken pods go first, regardless of their age.
        check(&[size(3, 3), size(2, 0)], size(2, 0), &[3, 1]);
        check(&[], size(5, 5), &[]);
    }

    #[test]
    fn scaling_is_proportional() {
        // Ten replicas as 8 and 5 of 13 at most; then fifteen, of 18 at most.
        assert_eq!(limits(15, 3, 2).proportional(&[(8, 13), (5, 13)]), [11, 7]);
        assert_eq!(limits(5, 2, 1).proportional(&[(8, 13), (5, 13)]), [4, 3]);
        assert_eq!(limits(0, 0, 0).proportional(&[(8, 13), (5, 13)]), [0, 0]);
        assert_eq!(limits(10, 3, 2).proportional(&[(8, 13), (5, 13)]), [8, 5]);
    }
}
