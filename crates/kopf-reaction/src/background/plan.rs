//! Which background tasks of an object to start and to stop. The cycle decides it; the engine does it.

use std::sync::Arc;

use super::reasons::StopReasons;
use crate::Handler;

/// The background tasks of one object.
#[derive(Clone, Debug, Default)]
pub struct BackgroundView {
    /// The tasks that have not ended yet, by the ids of their handlers.
    pub tasks: Vec<(Arc<str>, TaskPhase)>,
    /// The handlers whose tasks have ended on their own: they are not started again.
    pub ended: Vec<Arc<str>>,
    /// Why no task may run: the operator pauses or exits. `None` if tasks may run.
    pub paused: Option<StopReasons>,
    /// The engine tracks the object, to start its tasks when the operator resumes.
    pub tracked: bool,
}

/// The state of a task, as the cycle of its object sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskPhase {
    /// It waits for its time, or its function is being called.
    Active,
    /// It is stopping for these reasons.
    Stopping(StopReasons),
    /// The engine does not wait for it any more: it does not block the deletion of the object. It must end before the
    /// next task of the same handler starts.
    Orphaned,
}

/// Which tasks to start and to stop.
#[derive(Clone, Debug, Default)]
pub struct BackgroundPlan {
    /// The handlers whose tasks start.
    pub start: Vec<Arc<Handler>>,
    /// The tasks to stop, by the ids of their handlers, and why.
    pub stop: Vec<(Arc<str>, StopReasons)>,
    /// The engine has to track the object, even if no task may run now.
    pub track: bool,
}

impl BackgroundPlan {
    /// For an object that stays: the tasks of the matching handlers run, and no others.
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

    /// For an object that is deleted, or whose deletion is requested: no task runs.
    pub(crate) fn for_deleted(view: &BackgroundView) -> Self {
        Self { start: Vec::new(), stop: view.stops(|_| true, StopReasons::RESOURCE_DELETED), track: false }
    }

    /// Whether the plan changes nothing.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty() && self.stop.is_empty() && !self.track
    }
}

impl BackgroundView {
    /// How many tasks block the deletion of the object.
    pub fn blocking_count(&self) -> usize {
        self.tasks.iter().filter(|(_, phase)| *phase != TaskPhase::Orphaned).count()
    }

    /// The wanted tasks that do not have this reason yet.
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
    fn only_tasks_of_matching_handlers_run() {
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
