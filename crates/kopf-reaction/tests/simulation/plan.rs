//! The lives that are generated: which handlers there are, what users do, what goes wrong.

use std::collections::HashMap;
use std::sync::Arc;

use kopf_object::FieldPath;
use kopf_reaction::{DiffBaseStorage, Handler, Lifecycle, ProgressStorage, ReactionSettings};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::declare;

/// The ways in which the functions of an operator are declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Create,
    Update,
    /// One function for the creation and for updates.
    Level,
    /// One function for everything.
    All,
    Delete,
    OptionalDelete,
    Resume,
    ResumeDeleted,
    /// On `spec.x`.
    Field,
    /// As `Level`, with two children, and a child of a child.
    Parent,
    /// As `All`, with children.
    ParentOfAll,
    Event,
}

/// On which objects a handler is to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Only {
    Everything,
    /// By the label `tier`.
    Gold,
    /// The same, but asked from a callback.
    GoldAsked,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub kind: Kind,
    pub only: Only,
    pub errors: Option<&'static str>,
    pub retries: Option<u32>,
    pub timeout: Option<u32>,
}

/// What comes of a call.
#[derive(Clone, Debug)]
pub(crate) enum Fortune {
    Success,
    Result,
    Temporary(Option<f64>),
    Permanent,
    Arbitrary,
    TimedOut,
}

/// What users do to the object.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    SpecX(Option<u8>),
    SpecY(Option<u8>),
    Label(u8),
    Annotation(u8),
    Tier(bool),
    Delete,
}

/// The fate of one cycle of the operator.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    /// All goes well.
    Fine,
    /// Killed after this many steps of the cycle.
    KilledAfter(u8),
    /// Killed when all was decided, before it was written.
    KilledBeforePatch,
    /// Killed after the merge-patch, before the finalizer was changed.
    KilledBetweenPatches,
    /// The patch is refused; the operator lives on.
    Refused,
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// One cycle; while it calls the handlers, the user may edit the object.
    Cycle(Fate, Option<Edit>),
    Edit(Edit),
    Later(u16),
    Restart,
    /// An outdated body comes by the watch.
    Stale(u8),
}

#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub plans: Vec<Plan>,
    pub lifecycle: Lifecycle,
    pub storage: u8,
    /// The operator was there before the object.
    pub operator_first: bool,
    /// Another operator has its finalizer there until the end.
    pub is_held_by_others: bool,
    pub gold: bool,
    pub actions: Vec<Action>,
    pub fortunes: Vec<Fortune>,
    pub seed: u64,
}

pub(crate) fn plans(kinds: &'static [Kind]) -> impl Strategy<Value = Plan> {
    (
        prop::sample::select(kinds),
        prop_oneof![4 => Just(Only::Everything), 1 => Just(Only::Gold), 1 => Just(Only::GoldAsked)],
        prop::sample::select(&[None, Some("ignored"), Some("temporary"), Some("permanent")][..]),
        prop::sample::select(&[None, None, Some(1), Some(3)][..]),
        prop::sample::select(&[None, None, Some(50), Some(500)][..]),
    )
        .prop_map(|(kind, only, errors, retries, timeout)| Plan { kind, only, errors, retries, timeout })
}

pub(crate) fn fortunes() -> impl Strategy<Value = Fortune> {
    prop_oneof![
        4 => Just(Fortune::Success),
        1 => Just(Fortune::Result),
        2 => prop::sample::select(&[None, Some(0.0), Some(5.0), Some(60.0)][..]).prop_map(Fortune::Temporary),
        1 => Just(Fortune::Permanent),
        2 => Just(Fortune::Arbitrary),
        1 => Just(Fortune::TimedOut),
    ]
}

pub(crate) fn edits() -> impl Strategy<Value = Edit> {
    prop_oneof![
        4 => prop::option::weighted(0.8, 0..3u8).prop_map(Edit::SpecX),
        3 => prop::option::weighted(0.8, 0..3u8).prop_map(Edit::SpecY),
        1 => (0..3u8).prop_map(Edit::Label),
        1 => (0..3u8).prop_map(Edit::Annotation),
        1 => any::<bool>().prop_map(Edit::Tier),
        1 => Just(Edit::Delete),
    ]
}

pub(crate) fn actions() -> impl Strategy<Value = Action> {
    let fates = prop_oneof![
        8 => Just(Fate::Fine),
        1 => (0..8u8).prop_map(Fate::KilledAfter),
        1 => Just(Fate::KilledBeforePatch),
        1 => Just(Fate::KilledBetweenPatches),
        1 => Just(Fate::Refused),
    ];
    prop_oneof![
        10 => (fates, prop::option::weighted(0.2, edits())).prop_map(|(fate, edit)| Action::Cycle(fate, edit)),
        4 => edits().prop_map(Action::Edit),
        2 => (0..600u16).prop_map(Action::Later),
        1 => Just(Action::Restart),
        1 => any::<u8>().prop_map(Action::Stale),
    ]
}

pub(crate) const FOREIGN_FINALIZER: &str = "example.com/other";

pub(crate) const ALL_KINDS: &[Kind] = &[
    Kind::Create,
    Kind::Update,
    Kind::Level,
    Kind::All,
    Kind::Delete,
    Kind::OptionalDelete,
    Kind::Resume,
    Kind::ResumeDeleted,
    Kind::Field,
    Kind::Parent,
    Kind::ParentOfAll,
    Kind::Event,
];

pub(crate) const LIFECYCLES: &[Lifecycle] = &[
    Lifecycle::Asap,
    Lifecycle::AllAtOnce,
    Lifecycle::OneByOne,
    Lifecycle::Randomized,
    Lifecycle::Shuffled,
    Lifecycle::Front,
];

prop_compose! {
    pub fn lives()(
        plans in prop::collection::vec(plans(ALL_KINDS), 1..5),
        lifecycle in prop::sample::select(LIFECYCLES),
        storage in 0..5u8,
        operator_first: bool,
        is_held_by_others: bool,
        gold: bool,
        actions in prop::collection::vec(actions(), 0..40),
        fortunes in prop::collection::vec(fortunes(), 1..40),
        seed: u64,
    ) -> Life {
        Life { plans, lifecycle, storage, operator_first, is_held_by_others, gold, actions, fortunes, seed }
    }
}

pub(crate) fn declare_all(
    number: usize,
    plan: &Plan,
    handlers: &mut Vec<Arc<Handler>>,
    children: &mut HashMap<Arc<str>, Vec<Arc<Handler>>>,
) {
    let id = format!("h{number}");
    let mut common = json!({"fn": number, "errors": plan.errors, "retries": plan.retries, "timeout": plan.timeout});
    match plan.only {
        Only::Everything => {}
        Only::Gold => common["labels"] = json!({"tier": {"equals": "gold"}}),
        Only::GoldAsked => common["when"] = true.into(),
    }
    let on = |reason: &str| json!({"reason": reason});
    let (create, update, resume) = (on("create"), on("update"), json!({"initial": true}));
    let delete = json!({"reason": "delete", "requires_finalizer": true});
    let everything = vec![create.clone(), update.clone(), resume.clone(), delete.clone()];
    let declarations = match plan.kind {
        Kind::Create => vec![create],
        Kind::Update => vec![update],
        Kind::Level | Kind::Parent => vec![create, update],
        Kind::All | Kind::ParentOfAll => everything,
        Kind::Delete => vec![delete],
        Kind::OptionalDelete => vec![on("delete")],
        Kind::Resume => vec![resume],
        Kind::ResumeDeleted => vec![json!({"initial": true, "deleted": true})],
        Kind::Field => vec![json!({"field": ["spec", "x"], "field_needs_change": true})],
        Kind::Event => vec![json!({"kind": "watching"})],
    };
    for (position, declaration) in declarations.into_iter().enumerate() {
        let mut full = common.clone();
        kopf_object::merge(&mut full, &declaration);
        handlers.push(declare(number * 10 + position, &id, full));
    }
    if matches!(plan.kind, Kind::Parent | Kind::ParentOfAll) {
        let child =
            |position: usize, id: String| declare(1000 + number * 10 + position, &id, Value::Object(Map::new()));
        let both = vec![child(0, format!("{id}/a")), child(1, format!("{id}/b"))];
        children.insert(id.as_str().into(), both);
        children.insert(format!("{id}/b").into(), vec![child(2, format!("{id}/b/deep"))]);
    }
}

pub(crate) fn settings(life: &Life) -> ReactionSettings {
    let annotations = |prefix: &str, verbose| ProgressStorage::Annotations {
        prefix: prefix.into(),
        verbose,
        touch_key: "touch-dummy".into(),
        v1: true,
    };
    let status = ProgressStorage::Status {
        field: FieldPath::parse("status.mine.progress"),
        touch_field: FieldPath::parse("status.mine.dummy"),
        write: true,
    };
    let (progress, diffbase) = match life.storage {
        0 => (ProgressStorage::default(), DiffBaseStorage::default()),
        1 => (annotations("my.example.com", true), DiffBaseStorage::default()),
        2 => (status, DiffBaseStorage::Status { field: FieldPath::parse("status.mine.last"), ignored_fields: vec![] }),
        3 => (
            ProgressStorage::Multi { storages: vec![annotations("my.example.com", false), status] },
            DiffBaseStorage::default(),
        ),
        _ => (ProgressStorage::Front, DiffBaseStorage::Front),
    };
    ReactionSettings { progress, diffbase, lifecycle: life.lifecycle, default_backoff: 10.0, ..Default::default() }
}
