//! Which background handlers of an object must run now: what is to be started, what is to be stopped, and why.

use std::sync::Arc;

use super::StopReasons;
use crate::Handler;

/// What is there of the background handlers of one object.
#[derive(Clone, Debug, Default)]
pub struct BackgroundView {
    /// The runs that have not ended yet, by the ids of their handlers.
    pub runs: Vec<(Arc<str>, RunPhase)>,
    /// The handlers that have ended on their own: they are not started again.
    pub ended: Vec<Arc<str>>,
    /// Why nothing may run, if so: the operator pauses, or exits.
    pub paused: Option<StopReasons>,
    /// The object is known to have background handlers: it is looked at again when the operator goes on.
    pub known: bool,
}

/// How a run is doing, as far as the object is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunPhase {
    /// It waits or is called.
    Active,
    /// It was asked to stop, for these reasons.
    Stopping(StopReasons),
    /// It was given up; it does not hold the object, but must end before the next run of the same handler.
    Orphaned,
}

/// What is to be done.
#[derive(Clone, Debug, Default)]
pub struct BackgroundPlan {
    pub start: Vec<Arc<Handler>>,
    /// By the ids of the handlers.
    pub stop: Vec<(Arc<str>, StopReasons)>,
    /// The object is to be known as one with background handlers, even if none of them may run now.
    pub know: bool,
}

impl BackgroundPlan {
    /// For an object that stays: what matches must run, and nothing else.
    pub(crate) fn for_present(matching: &[Arc<Handler>], view: &BackgroundView) -> Self {
        let know = !view.known && !matching.is_empty();
        if let Some(reason) = view.paused {
            return Self { start: Vec::new(), stop: view.stops(|_| true, reason), know };
        }
        let mut start: Vec<Arc<Handler>> = Vec::new();
        for handler in matching {
            let is_there = view.runs.iter().any(|(id, _)| *id == handler.id);
            let is_twice = start.iter().any(|other| other.id == handler.id);
            if !is_there && !is_twice && !view.ended.contains(&handler.id) {
                start.push(Arc::clone(handler));
            }
        }
        let mismatching = |id: &Arc<str>| !matching.iter().any(|handler| handler.id == *id);
        Self { start, stop: view.stops(mismatching, StopReasons::FILTERS_MISMATCH), know }
    }

    /// For an object that is deleted, or is about to be.
    pub(crate) fn for_deleted(view: &BackgroundView) -> Self {
        Self { start: Vec::new(), stop: view.stops(|_| true, StopReasons::RESOURCE_DELETED), know: false }
    }

    pub fn is_empty(&self) -> bool {
        self.start.is_empty() && self.stop.is_empty() && !self.know
    }
}

impl BackgroundView {
    /// How many runs hold the object: it must not disappear before they have ended.
    pub fn holding(&self) -> usize {
        self.runs.iter().filter(|(_, phase)| *phase != RunPhase::Orphaned).count()
    }

    /// Those of the runs that do not know of the reason yet.
    fn stops(&self, wanted: impl Fn(&Arc<str>) -> bool, reason: StopReasons) -> Vec<(Arc<str>, StopReasons)> {
        let knows = |phase: &RunPhase| match phase {
            RunPhase::Active => false,
            RunPhase::Stopping(reasons) => reasons.contains(reason),
            RunPhase::Orphaned => true,
        };
        let stopping = self.runs.iter().filter(|(id, phase)| wanted(id) && !knows(phase));
        stopping.map(|(id, _)| (Arc::clone(id), reason)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HandlerKind;

    fn handlers(ids: &[&str]) -> Vec<Arc<Handler>> {
        ids.iter().enumerate().map(|(index, id)| Arc::new(Handler::new(index, id, HandlerKind::Daemon))).collect()
    }

    fn check(plan: &BackgroundPlan, start: &[&str], stop: &[(&str, StopReasons)]) {
        let started: Vec<&str> = plan.start.iter().map(|handler| &*handler.id).collect();
        let stopped: Vec<(&str, StopReasons)> = plan.stop.iter().map(|(id, reason)| (&**id, *reason)).collect();
        assert_eq!((started.as_slice(), stopped.as_slice()), (start, stop));
    }

    #[test]
    fn what_matches_runs_and_nothing_else() {
        let deleted = StopReasons::RESOURCE_DELETED;
        let mut view = BackgroundView {
            runs: vec![
                ("kept".into(), RunPhase::Active),
                ("mismatching".into(), RunPhase::Active),
                ("stopping".into(), RunPhase::Stopping(StopReasons::FILTERS_MISMATCH)),
                ("returning".into(), RunPhase::Stopping(StopReasons::FILTERS_MISMATCH)),
                ("orphaned".into(), RunPhase::Orphaned),
            ],
            ended: vec!["ended".into()],
            paused: None,
            known: true,
        };
        let matching = handlers(&["kept", "returning", "orphaned", "ended", "new", "new"]);
        let plan = BackgroundPlan::for_present(&matching, &view);
        check(&plan, &["new"], &[("mismatching", StopReasons::FILTERS_MISMATCH)]);
        let plan = BackgroundPlan::for_deleted(&view);
        let all = ["kept", "mismatching", "stopping", "returning"].map(|id| (id, deleted));
        check(&plan, &[], &all);
        assert_eq!(view.holding(), 4);

        for reason in [StopReasons::OPERATOR_PAUSING, StopReasons::OPERATOR_EXITING] {
            view.paused = Some(reason);
            let plan = BackgroundPlan::for_present(&matching, &view);
            check(&plan, &[], &all.map(|(id, _)| (id, reason)));
        }
    }
}
