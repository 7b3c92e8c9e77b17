//! Whole lives of an object, played at random: handlers of all kinds, errors, edits, crashes, lost answers.
//!
//! Whatever has happened, once things calm down nothing may be lost: every handler has seen what it was
//! declared for, and nothing of the handling is left on the object. On the way, no success is repeated.

#![allow(clippy::expect_used, clippy::panic, reason = "these are tests")]

mod simulation;

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;
use simulation::life::World;
use simulation::plan::{Action, Edit, Fate, Kind, Life, Only, Plan, lives};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(number_of_lives()))]

    #[test]
    fn no_handler_is_lost(life in lives()) {
        let world = World::play(&life);
        if world.object.exists {
            check_everything_is_seen(&life, &world);
        } else {
            check_deletion_is_handled(&life, &world);
        }
    }

    #[test]
    fn nothing_is_left_behind(life in lives()) {
        let mut world = World::play(&life);
        prop_assert_eq!(world.object.exists, !world.object.is_deletion_ongoing(), "{}", world.story());
        if !world.object.exists {
            world.say_goodbye();
        } else if life.plans.iter().any(|plan| is_interested(plan, &world)) {
            check_rest(&life, &mut world);
        } else {
            prop_assert!(!world.object.is_held(), "{}", world.story());
        }
    }

    #[test]
    fn the_finalizer_is_patched_once(mut life in lives()) {
        life.actions.retain(|action| !is_edit_of_tier(action));
        let world = World::play(&life);
        let (added, removed) = world.object.finalizer_changes;
        prop_assert!(added <= 1 && removed <= added, "{added} and {removed}\n{}", world.story());
    }

    #[test]
    fn objects_of_no_interest_are_left_alone(mut life in lives()) {
        life.gold = false;
        life.actions.retain(|action| !is_edit_of_tier(action));
        for plan in &mut life.plans {
            plan.only = if plan.only == Only::Everything { Only::Gold } else { plan.only };
        }
        let world = World::play(&life);
        prop_assert_eq!(world.patches, 0, "{}", world.story());
        prop_assert_eq!(&world.told, &Vec::<String>::new());
    }
}

/// More of them by `KOPF_LIVES=100000`.
fn number_of_lives() -> u32 {
    std::env::var("KOPF_LIVES").ok().and_then(|number| number.parse().ok()).unwrap_or(250)
}

fn is_edit_of_tier(action: &Action) -> bool {
    matches!(action, Action::Edit(Edit::Tier(_)) | Action::Turn(_, Some(Edit::Tier(_))))
}

/// Whether the handlers of the plan are called for such an object as it is now.
fn is_interested(plan: &Plan, world: &World) -> bool {
    let is_gold = world.object.value()["metadata"]["labels"]["tier"] == "gold";
    let is_present = plan.kind != Kind::Field || world.essence()["spec"].get("x").is_some();
    plan.kind != Kind::Spy && is_present && (plan.only == Only::Everything || is_gold)
}

/// The same, and it was so all the time.
fn was_interested(plan: &Plan, world: &World) -> bool {
    let is_gold = world.object.value()["metadata"]["labels"]["tier"] == "gold";
    plan.only == Only::Everything || (is_gold && !world.ledger.tier_was_edited)
}

fn ids_of(number: usize, plan: &Plan) -> Vec<Arc<str>> {
    let suffixes: &[&str] = match plan.kind {
        Kind::Parent | Kind::ParentOfAll => &["", "/a", "/b", "/b/deep"],
        _ => &[""],
    };
    suffixes.iter().map(|suffix| format!("h{number}{suffix}").into()).collect()
}

/// Every handler has seen the last state of what it is for.
fn check_everything_is_seen(life: &Life, world: &World) {
    let ledger = &world.ledger;
    let essence = world.essence();
    for (number, plan) in life.plans.iter().enumerate().filter(|(_, plan)| was_interested(plan, world)) {
        let ids = ids_of(number, plan);
        let wanted = match plan.kind {
            Kind::Level | Kind::All | Kind::Parent | Kind::ParentOfAll => Some(essence.clone()),
            Kind::Update if ledger.essences_stored > 1 => Some(essence.clone()),
            Kind::Field => essence["spec"].get("x").cloned(),
            Kind::Create => {
                assert!(ledger.seen.contains_key(&ids[0]), "{} was not called\n{}", ids[0], world.story());
                continue;
            }
            Kind::Resume | Kind::ResumeDeleted => {
                let resumed = world.operator.served.contains(&ids[0]) || ledger.inherited.contains(&ids[0]);
                assert!(resumed || !world.operator.was_handled, "{} has not resumed\n{}", ids[0], world.story());
                continue;
            }
            Kind::Update | Kind::Delete | Kind::OptionalDelete | Kind::Spy => continue,
        };
        for id in ids {
            // A handler that has failed before or for its children has not necessarily called all of them.
            let is_excused = ledger.has_failed_above(&id);
            let seen = ledger.seen.get(&id).map(|(seen, _)| seen.clone()).filter(|seen| !seen.is_null());
            assert!(is_excused || seen == wanted, "{id} has seen {seen:?}, not {wanted:?}\n{}", world.story());
        }
    }
}

fn check_deletion_is_handled(life: &Life, world: &World) {
    let ledger = &world.ledger;
    if !ledger.was_held_at_deletion {
        return;
    }
    for (number, plan) in life.plans.iter().enumerate().filter(|(_, plan)| was_interested(plan, world)) {
        if matches!(plan.kind, Kind::Delete | Kind::All | Kind::ParentOfAll) {
            for id in ids_of(number, plan) {
                let handled = ledger.finished_deletions.contains(&id) || ledger.has_failed_above(&id);
                assert!(handled, "{id} was not called for the deletion\n{}", world.story());
            }
        }
    }
}

/// Everything is handled: nothing but what was handled last is on the object, and nothing happens any more.
fn check_rest(life: &Life, world: &mut World) {
    let story = world.story();
    assert_eq!(world.stored_essence(), Some(world.essence()), "{story}");
    assert_eq!(world.progress_left(), Vec::<String>::new(), "{story}");
    let deleting = [Kind::Delete, Kind::All, Kind::ParentOfAll];
    let must_be_held = life.plans.iter().any(|plan| deleting.contains(&plan.kind) && is_interested(plan, world));
    assert_eq!(world.object.is_held(), must_be_held, "{story}");

    let before: Value = world.object.value().clone();
    let patches = world.patches;
    world.act(&Action::Turn(Fate::Fine, None));
    assert_eq!((world.object.value(), world.patches), (&before, patches), "{story}");
}
