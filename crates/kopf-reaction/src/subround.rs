//! A round of sub-handlers within the call of their parent.
//!
//! It reads and writes progress as the cycle does, under the ids `parent/child`, and tells the parent
//! whether all children are finished. What it leaves behind goes into the patch of the cycle.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::cycle::encode_seen;
use crate::handler::deduplicated;
use crate::storage::Corruption;
use crate::{
    Answers, Ask, FilterDepth, FilterQuestion, Handler, Lifecycle, Note, ReactionSettings, Reason, Reply, Round,
    RoundStep, Scene, StorageOperation, select,
};

/// The machine; it is stepped like a cycle.
#[derive(Debug)]
pub struct SubRound {
    scene: Arc<Scene>,
    settings: Arc<ReactionSettings>,
    handlers: Vec<Arc<Handler>>,
    lifecycle: Lifecycle,
    /// Whose stored progress counts as absent: it is of a superseded reason.
    superseded: Vec<Arc<str>>,
    verbose: bool,
    answers: Answers,
    asked: Vec<FilterQuestion>,
    matching: Option<Vec<Arc<Handler>>>,
    round: Option<Round>,
    notes: Vec<Note>,
}

/// What comes next.
#[derive(Clone, Debug)]
pub enum SubStep {
    Ask(Ask),
    Done(Box<SubConclusion>),
}

/// What a round of sub-handlers came to.
#[derive(Clone, Debug, Default)]
pub struct SubConclusion {
    pub operations: Vec<StorageOperation>,
    pub results: Vec<(Arc<str>, Value)>,
    /// The sub-handlers that were looked at: references for all parents above.
    pub ids: Vec<Arc<str>>,
    /// All of them are finished.
    pub done: bool,
    /// Seconds until the next one is due.
    pub delay: Option<f64>,
}

impl SubRound {
    pub(crate) fn new(
        scene: Arc<Scene>,
        settings: Arc<ReactionSettings>,
        handlers: Vec<Arc<Handler>>,
        lifecycle: Lifecycle,
        superseded: Vec<Arc<str>>,
        verbose: bool,
    ) -> Self {
        Self {
            scene,
            settings,
            handlers,
            lifecycle,
            superseded,
            verbose,
            answers: Answers::default(),
            asked: Vec::new(),
            matching: None,
            round: None,
            notes: Vec::new(),
        }
    }

    /// Goes on as far as possible; `reply` answers what was asked last.
    pub fn step(&mut self, reply: Option<Reply>, now: Timestamp, random: &mut dyn FnMut() -> f64) -> SubStep {
        let mut records = None;
        match reply {
            None => {}
            Some(Reply::Storage { records: read, .. }) => records = Some(read),
            Some(Reply::Filters(answers)) => {
                for (question, answer) in std::mem::take(&mut self.asked).iter().zip(answers) {
                    self.answers.insert(question, answer);
                }
            }
            Some(Reply::Chosen(indexes)) => {
                if let Some(round) = &mut self.round {
                    round.chosen(&indexes);
                }
            }
            Some(Reply::Called(outcome)) => {
                if let Some(round) = &mut self.round {
                    round.called(outcome, now, random);
                }
            }
            // Only whole cycles have daemons and timers.
            Some(Reply::Background { .. }) => {}
        }
        if self.matching.is_none() {
            let declared = self.scene.declared_for(&self.handlers);
            match select(&declared, self.scene.as_change(), FilterDepth::Full, &self.answers) {
                Ok(matching) => self.matching = Some(matching),
                Err(questions) => {
                    self.asked.clone_from(&questions);
                    return SubStep::Ask(Ask::Filters(questions));
                }
            }
        }
        if self.round.is_none() {
            let owned = deduplicated(self.handlers.clone());
            let mut records = match records {
                Some(records) => records,
                None if self.settings.progress.is_front() => {
                    let ids = owned.iter().map(|handler| Arc::clone(&handler.id)).collect();
                    return SubStep::Ask(Ask::Storage {
                        ids,
                        extra_fields: Vec::new(),
                        progress: true,
                        diffbase: false,
                    });
                }
                None => self.read(&owned),
            };
            records.retain(|(id, _)| !self.superseded.contains(id));
            let round = Round::stored(
                self.scene.reason().as_str(),
                records,
                self.matching.clone().unwrap_or_default(),
                self.lifecycle,
                self.settings.default_backoff,
                now,
            );
            self.round = Some(round.quiet(!self.verbose));
        }
        let Some(round) = &mut self.round else { return SubStep::Done(Box::default()) };
        match round.step(now, random) {
            RoundStep::Choose(candidates) => SubStep::Ask(Ask::Choose(candidates)),
            RoundStep::Call(request) => SubStep::Ask(Ask::Call(request)),
            RoundStep::Finished => {
                if matches!(self.scene.reason(), Reason::Create | Reason::Update)
                    && let Some(new) = &self.scene.new
                {
                    round.finished_with(&encode_seen(new), |_| true);
                }
                SubStep::Done(Box::new(SubConclusion {
                    operations: round.store(),
                    results: round.take_results(),
                    ids: round.ids().cloned().collect(),
                    done: round.done(),
                    delay: round.delay(now),
                }))
            }
        }
    }

    pub fn round(&self) -> Option<&Round> {
        self.round.as_ref()
    }

    pub fn take_notes(&mut self) -> Vec<Note> {
        let mut notes = std::mem::take(&mut self.notes);
        notes.extend(self.round.as_mut().map(Round::take_notes).unwrap_or_default());
        notes
    }

    fn read(&mut self, owned: &[Arc<Handler>]) -> Vec<(Arc<str>, Value)> {
        let mut corruptions = Vec::new();
        let mut fetch = |handler: &Arc<Handler>| {
            let record = self.settings.progress.fetch(&handler.id, self.scene.body.lean(), &mut corruptions)?;
            Some((Arc::clone(&handler.id), record))
        };
        let records = owned.iter().filter_map(&mut fetch).collect();
        self.notes.extend(corruptions.into_iter().map(Corruption::into_note));
        records
    }
}
