//! Which background handlers of an object must run now: what is to be started, what is to be stopped, and why.

use std::sync::Arc;

use super::reasons::StopReasons;
use crate::Handler;

/// What is there of the background handlers of one object.
#[derive(Clone, Debug, Default)]
pub struct BackgroundView {
    /// The tasks that have not ended yet, by the ids of their handlers.
    pub tasks: Vec<(Arc<str>, TaskPhase)>,
    /// The handlers that have ended on their own: they are not started again.
    pub ended: Vec<Arc<str>>,
    /// Why nothing may run, if so: the operator pauses, or exits.
    pub paused: Option<StopReasons>,
    /// The object is tracked to have background handlers: it is looked at again when the operator goes on.
    pub tracked: bool,
}

/// How a run is doing, as far as the object is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskPhase {
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
    /// The object is to be tracked as one with background handlers, even if none of them may run now.
    pub track: bool,
}

impl BackgroundPlan {
    /// For an object that stays: what matches must run, and nothing else.
    pub(crate) fn for_present(matching: &[Arc<Handler>], view: &BackgroundView) -> Self {
        let track = !view.tracked && !matching.is_empty();
        if let Some(reason) = view.paused {
            return Self { start: Vec::new(), stop: view.stops(|_| true, reason), track };
        }
        let mut start: Vec<Arc<Handler>> = Vec::new();
        for handler in matching {
            let is_there = view.tasks.iter().any(|(id, _)| *id == handler.id);
            let is_twice = start.iter().any(|other| other.id == handler.id);
            if !is_there && !is_twice && !view.ended.contains(&handler.id) {
                start.push(Arc::clone(handler));
            }
        }
        let mismatching = |id: &Arc<str>| !matching.iter().any(|handler| handler.id == *id);
        Self { start, stop: view.stops(mismatching, StopReasons::FILTERS_MISMATCH), track }
    }

    /// For an object that is deleted, or is about to be.
    pub(crate) fn for_deleted(view: &BackgroundView) -> Self {
        Self { start: Vec::new(), stop: view.stops(|_| true, StopReasons::RESOURCE_DELETED), track: false }
    }

    pub fn is_empty(&self) -> bool {
        self.start.is_empty() && self.stop.is_empty() && !self.track
    }
}

impl BackgroundView {
    /// How many tasks hold the object: it must not disappear before they have ended.
    pub fn blocking_count(&self) -> usize {
        self.tasks.iter().filter(|(_, phase)| *phase != TaskPhase::Orphaned).count()
    }

    /// Those of the tasks that do not track of the reason yet.
    fn stops(&self, wanted: impl Fn(&Arc<str>) -> bool, reason: StopReasons) -> Vec<(Arc<str>, StopReasons)> {
        let has_reason = |phase: &TaskPhase| match phase {
            TaskPhase::Active => false,
            TaskPhase::Stopping(reasons) => reasons.contains(reason),
            TaskPhase::Orphaned => true,
        };
        let stopping = self.tasks.iter().filter(|(id, phase)| wanted(id) && !has_reason(phase));
        stopping.map(|(id, _)| (Arc::clone(id), reason)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HandlerType;

    fn handlers(ids: &[&str]) -> Vec<Arc<Handler>> {
        ids.iter().enumerate().map(|(index, id)| Arc::new(Handler::new(index, id, HandlerType::Daemon))).collect()
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
            tasks: vec![
                ("kept".into(), TaskPhase::Active),
                ("mismatching".into(), TaskPhase::Active),
                ("stopping".into(), TaskPhase::Stopping(StopReasons::FILTERS_MISMATCH)),
                ("returning".into(), TaskPhase::Stopping(StopReasons::FILTERS_MISMATCH)),
                ("orphaned".into(), TaskPhase::Orphaned),
            ],
            ended: vec!["ended".into()],
            paused: None,
            tracked: true,
        };
        let matching = handlers(&["kept", "returning", "orphaned", "ended", "new", "new"]);
        let plan = BackgroundPlan::for_present(&matching, &view);
        check(&plan, &["new"], &[("mismatching", StopReasons::FILTERS_MISMATCH)]);
        let plan = BackgroundPlan::for_deleted(&view);
        let all = ["kept", "mismatching", "stopping", "returning"].map(|id| (id, deleted));
        check(&plan, &[], &all);
        assert_eq!(view.blocking_count(), 4);

        for reason in [StopReasons::OPERATOR_PAUSING, StopReasons::OPERATOR_EXITING] {
            view.paused = Some(reason);
            let plan = BackgroundPlan::for_present(&matching, &view);
            check(&plan, &[], &all.map(|(id, _)| (id, reason)));
        }
    }
}
