//! Whole lives of an object at random: handlers of all kinds, errors, edits, crashes, lost answers.
//!
//! Whatever has happened, once things calm down nothing may be lost: every handler has seen what it was
//! declared for, and nothing of the handling is left on the object. On the way, no success is repeated.

#![allow(clippy::expect_used, clippy::panic, reason = "these are tests")]

mod simulation;

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;
use simulation::life::Simulation;
use simulation::plan::{Action, Edit, Fate, Kind, Life, Only, Plan, lives};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(number_of_lives()))]

    #[test]
    fn no_handler_is_lost(life in lives()) {
        let simulation = Simulation::run_life(&life);
        if simulation.object.exists {
            check_everything_is_seen(&life, &simulation);
        } else {
            check_deletion_is_handled(&life, &simulation);
        }
    }

    #[test]
    fn nothing_is_left_behind(life in lives()) {
        let mut simulation = Simulation::run_life(&life);
        prop_assert_eq!(simulation.object.exists, !simulation.object.is_deletion_ongoing(), "{}", simulation.story());
        if !simulation.object.exists {
            simulation.check_last_event();
        } else if life.plans.iter().any(|plan| is_interested(plan, &simulation)) {
            check_idle_object(&life, &mut simulation);
        } else {
            prop_assert!(!simulation.object.is_held(), "{}", simulation.story());
        }
    }

    #[test]
    fn the_finalizer_is_patched_once(mut life in lives()) {
        life.actions.retain(|action| !is_edit_of_tier(action));
        let simulation = Simulation::run_life(&life);
        let (added, removed) = simulation.object.finalizer_changes;
        prop_assert!(added <= 1 && removed <= added, "{added} and {removed}\n{}", simulation.story());
    }

    #[test]
    fn objects_of_no_interest_are_left_alone(mut life in lives()) {
        life.gold = false;
        life.actions.retain(|action| !is_edit_of_tier(action));
        for plan in &mut life.plans {
            plan.only = if plan.only == Only::Everything { Only::Gold } else { plan.only };
        }
        let simulation = Simulation::run_life(&life);
        prop_assert_eq!(simulation.patches, 0, "{}", simulation.story());
        prop_assert_eq!(&simulation.logged, &Vec::<String>::new());
    }
}

/// More of them by `KOPF_LIVES=100000`.
fn number_of_lives() -> u32 {
    std::env::var("KOPF_LIVES").ok().and_then(|number| number.parse().ok()).unwrap_or(250)
}

fn is_edit_of_tier(action: &Action) -> bool {
    matches!(action, Action::Edit(Edit::Tier(_)) | Action::Cycle(_, Some(Edit::Tier(_))))
}

/// Whether the handlers of the plan are called for the current object.
fn is_interested(plan: &Plan, simulation: &Simulation) -> bool {
    let is_gold = simulation.object.value()["metadata"]["labels"]["tier"] == "gold";
    let is_present = plan.kind != Kind::Field || simulation.essence()["spec"].get("x").is_some();
    plan.kind != Kind::Event && is_present && (plan.only == Only::Everything || is_gold)
}

/// The same, and it was so all the time.
fn was_interested(plan: &Plan, simulation: &Simulation) -> bool {
    let is_gold = simulation.object.value()["metadata"]["labels"]["tier"] == "gold";
    plan.only == Only::Everything || (is_gold && !simulation.history.tier_was_edited)
}

fn ids_of(number: usize, plan: &Plan) -> Vec<Arc<str>> {
    let suffixes: &[&str] = match plan.kind {
        Kind::Parent | Kind::ParentOfAll => &["", "/a", "/b", "/b/deep"],
        _ => &[""],
    };
    suffixes.iter().map(|suffix| format!("h{number}{suffix}").into()).collect()
}

/// Every handler has seen the last state of what it is for.
fn check_everything_is_seen(life: &Life, simulation: &Simulation) {
    let history = &simulation.history;
    let essence = simulation.essence();
    for (number, plan) in life.plans.iter().enumerate().filter(|(_, plan)| was_interested(plan, simulation)) {
        let ids = ids_of(number, plan);
        let wanted = match plan.kind {
            Kind::Level | Kind::All | Kind::Parent | Kind::ParentOfAll => Some(essence.clone()),
            Kind::Update if history.essences_stored > 1 => Some(essence.clone()),
            Kind::Field => essence["spec"].get("x").cloned(),
            Kind::Create => {
                assert!(history.seen.contains_key(&ids[0]), "{} was not called\n{}", ids[0], simulation.story());
                continue;
            }
            Kind::Resume | Kind::ResumeDeleted => {
                let resumed = simulation.operator.served.contains(&ids[0]) || history.inherited.contains(&ids[0]);
                assert!(
                    resumed || !simulation.operator.was_handled,
                    "{} has not resumed\n{}",
                    ids[0],
                    simulation.story()
                );
                continue;
            }
            Kind::Update | Kind::Delete | Kind::OptionalDelete | Kind::Event => continue,
        };
        for id in ids {
            // A handler that has failed before or for its children has not necessarily called all of them.
            let is_excused = history.has_failed_above(&id);
            let seen = history.seen.get(&id).map(|(seen, _)| seen.clone()).filter(|seen| !seen.is_null());
            assert!(is_excused || seen == wanted, "{id} has seen {seen:?}, not {wanted:?}\n{}", simulation.story());
        }
    }
}

fn check_deletion_is_handled(life: &Life, simulation: &Simulation) {
    let history = &simulation.history;
    if !history.was_held_at_deletion {
        return;
    }
    for (number, plan) in life.plans.iter().enumerate().filter(|(_, plan)| was_interested(plan, simulation)) {
        if matches!(plan.kind, Kind::Delete | Kind::All | Kind::ParentOfAll) {
            for id in ids_of(number, plan) {
                let handled = history.finished_deletions.contains(&id) || history.has_failed_above(&id);
                assert!(handled, "{id} was not called for the deletion\n{}", simulation.story());
            }
        }
    }
}

/// Everything is handled: nothing but what was handled last is on the object, and nothing happens any more.
fn check_idle_object(life: &Life, simulation: &mut Simulation) {
    let story = simulation.story();
    assert_eq!(simulation.stored_essence(), Some(simulation.essence()), "{story}");
    assert_eq!(simulation.progress_left(), Vec::<String>::new(), "{story}");
    let deleting = [Kind::Delete, Kind::All, Kind::ParentOfAll];
    let must_be_held = life.plans.iter().any(|plan| deleting.contains(&plan.kind) && is_interested(plan, simulation));
    assert_eq!(simulation.object.is_held(), must_be_held, "{story}");

    let before: Value = simulation.object.value().clone();
    let patches = simulation.patches;
    simulation.act(&Action::Cycle(Fate::Fine, None));
    assert_eq!((simulation.object.value(), simulation.patches), (&before, patches), "{story}");
}
