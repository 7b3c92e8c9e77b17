//! The stages of a cycle before the change handlers: which event handlers, daemons and timers match the object, and
//! whether the object needs the finalizer.

use jiff::Timestamp;
use kopf_object::finalizers;

use super::{Cycle, CycleInput, CycleStage, Effect, FinalizerChange};
use crate::{BackgroundPlan, Batch, Cause, ErrorsMode, FilterDepth, Note, Reason, select_handlers};

impl Cycle {
    pub(super) fn match_event_handlers(&mut self, cause: &Cause, now: Timestamp) -> Option<Effect> {
        let event_handlers = &self.input.handlers.event_handlers;
        if event_handlers.is_empty() || self.input.event.is_none() {
            self.stage = CycleStage::MatchingBackground;
            return None;
        }
        match select_handlers(event_handlers, cause.as_event(), FilterDepth::Full, &self.answers) {
            Err(questions) => Some(self.ask_filters(questions)),
            Ok(matching) => {
                let backoff = self.input.settings.default_backoff;
                let batch = Batch::transient(matching, ErrorsMode::Ignored, true, backoff, now);
                self.batch = Some(batch.quiet(!self.input.verbose));
                self.stage = CycleStage::CallingEventHandlers;
                None
            }
        }
    }

    /// Daemons and timers start before the change handlers, and are stopped before them.
    pub(super) fn match_background(&mut self, cause: &Cause) -> Option<Effect> {
        let gone = cause.reason == Reason::Gone;
        let CycleInput { handlers, background: view, consistent, .. } = &self.input;
        if (handlers.background_handlers.is_empty() && view.tasks.is_empty()) || (!consistent && !gone) {
            self.stage = CycleStage::MatchingRelevance;
            return None;
        }
        let unfinished = handlers.background_handlers.iter().filter(|handler| !view.ended.contains(&handler.id));
        let unfinished: Vec<_> = unfinished.cloned().collect();
        let matching = match select_handlers(&unfinished, cause.as_event(), FilterDepth::Full, &self.answers) {
            Err(_) if gone => Vec::new(),
            Err(questions) => return Some(self.ask_filters(questions)),
            Ok(matching) => matching,
        };
        self.stage = CycleStage::MatchingRelevance;
        self.background_needs_finalizer = matching.iter().any(|handler| handler.requires_finalizer);
        let plan = if gone || cause.deletion_ongoing {
            BackgroundPlan::for_deleted(view)
        } else {
            BackgroundPlan::for_present(&matching, view)
        };
        (!plan.is_empty()).then_some(Effect::Background(plan))
    }

    /// Decides about the finalizer. The cycle leaves objects alone that match no handler.
    pub(super) fn match_relevance(&mut self, cause: &Cause) -> Option<Effect> {
        let changing = &self.input.handlers.change_handlers;
        let (matching, questions) =
            match select_handlers(changing, cause.as_change(), FilterDepth::Interest, &self.answers) {
                Err(questions) => (Vec::new(), questions),
                Ok(matching) => (matching, Vec::new()),
            };
        if !questions.is_empty() {
            return Some(self.ask_filters(questions));
        }
        self.is_relevant = !matching.is_empty();
        let settings = &self.input.settings;
        // Not among the matching ones, which have each function only once, however often it is declared.
        let holding: Vec<_> = changing.iter().filter(|handler| handler.requires_finalizer).cloned().collect();
        let must_be_held = self.background_needs_finalizer
            || self.blocking_tasks > 0
            || select_handlers(&holding, cause.as_change(), FilterDepth::Interest, &self.answers)
                .is_ok_and(|holding| !holding.is_empty());
        let held = finalizers::is_deletion_blocked(cause.body.without_managed_fields(), &settings.finalizer);
        let gone = cause.reason == Reason::Gone;

        self.stage = CycleStage::Concluding;
        if !self.input.consistent && !gone {
            // An outdated body decides neither about the finalizer nor about the handlers.
            self.conclusion.awaits_newer = true;
        } else if must_be_held && !held && !cause.deletion_ongoing && !gone {
            self.debug(|| Note::debug("Adding the finalizer, thus preventing the actual deletion.").local());
            self.conclusion.finalizer = Some(FinalizerChange::Add);
        } else if !must_be_held && held && !gone {
            self.debug(|| Note::debug("Removing the finalizer, as there are no handlers requiring it.").local());
            self.conclusion.finalizer = Some(FinalizerChange::Remove);
        } else if self.is_relevant {
            self.stage = CycleStage::MatchingChanges;
        }
        None
    }
}
