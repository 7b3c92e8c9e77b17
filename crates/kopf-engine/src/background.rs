//! Daemons and timers: started and stopped by the cycles of their objects, called by the schedule.
//!
//! A task that waits is an entry in the [`Schedule`] and a small machine in the [`ObjectTasks`] of its object: no tokio
//! task, nothing on the side of the front. Only a call has a tokio task. When a background task ends, its object is
//! requeued: the cycle decides whether to start the task again, and whether to release the object.

mod ticking;
mod schedule;
mod tick;
mod object_tasks;
mod bodies;
mod call;
mod requeue;
mod handle;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use kopf_object::Body;
use kopf_reaction::{BackgroundPlan, BackgroundView, Cause, Handler, Moment, Severity, StopReasons, TaskSettings};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;

use self::object_tasks::{AllObjectTasks, FollowUp, ObjectTasks, TaskContext, TasksOfResource, declared_delay};
use self::schedule::{DueTask, Schedule};
use self::ticking::{LONG_CALLS_AT_ONCE, TIMERS_AT_ONCE};
use crate::Settings;
use crate::calls::Caller;
use crate::front::CycleContext;
use crate::patching::Patcher;
use crate::support::idle::IdleDetector;
use crate::support::log::OBJECTS;
use crate::support::{Fifo, ResourceKey};

pub(crate) use handle::TasksHandle;
pub(crate) use requeue::Requeue;

/// The daemons and timers of one operator. Clones share them.
#[derive(Clone)]
pub(crate) struct Background {
    inner: Arc<Inner>,
}

struct Inner {
    caller: Arc<Caller>,
    patcher: Arc<Patcher>,
    requeue: Box<dyn Requeue>,
    idle: IdleDetector,
    /// Our finalizer, by the settings.
    finalizer: Arc<str>,
    /// The pauses between the attempts to patch an object, in seconds.
    error_delays: Vec<f64>,
    /// The beginning of the time of the schedule.
    origin: Instant,
    settings: TaskSettings,
    schedule: Mutex<Schedule>,
    /// The first entry of the schedule has changed.
    rescheduled: Notify,
    all_tasks: Mutex<AllObjectTasks>,
    resources: Mutex<HashMap<ResourceKey, Weak<TasksOfResource>>>,
    /// One per timer that is called, unless the call takes long.
    timer_permits: Arc<Semaphore>,
    /// One per timer whose call takes long.
    long_calls: Arc<Semaphore>,
    /// There are too many long calls, and the log has said so.
    is_saturated: AtomicBool,
    /// Timers that are due, but have no permit.
    backlog: Mutex<Fifo<DueTask>>,
    /// How many calls were made.
    calls: AtomicU64,
    /// How many calls with timer permits have ended.
    timer_calls_ended: AtomicU64,
    paused: AtomicBool,
    /// The operator stops: nothing is started any more.
    closing: AtomicBool,
    /// A task has ended, or was given up.
    ended: Notify,
    /// Whether the calls must be dropped at once, wherever they are.
    killed: watch::Sender<bool>,
}

/// What the background works with.
pub(crate) struct BackgroundDeps {
    pub caller: Arc<Caller>,
    pub patcher: Arc<Patcher>,
    pub requeue: Box<dyn Requeue>,
    pub idle: IdleDetector,
}

impl Background {
    pub(crate) fn new(settings: &Settings, deps: BackgroundDeps) -> Self {
        let BackgroundDeps { caller, patcher, requeue, idle } = deps;
        let task_settings = TaskSettings {
            default_backoff: settings.execution.default_backoff,
            cancellation_polling: settings.background.cancellation_polling.clone(),
            instant_exit: settings.background.instant_exit(),
            verbose: caller.log.enabled(Severity::Debug, OBJECTS),
        };
        let (killed, _) = watch::channel(false);
        let inner = Inner {
            origin: caller.clock.instant(),
            caller,
            patcher,
            requeue,
            idle,
            finalizer: settings.persistence.finalizer.as_str().into(),
            error_delays: settings.queueing.error_delays.clone(),
            settings: task_settings,
            schedule: Mutex::default(),
            rescheduled: Notify::new(),
            all_tasks: Mutex::default(),
            resources: Mutex::default(),
            timer_permits: Arc::new(Semaphore::new(TIMERS_AT_ONCE)),
            long_calls: Arc::new(Semaphore::new(LONG_CALLS_AT_ONCE)),
            is_saturated: AtomicBool::new(false),
            backlog: Mutex::default(),
            calls: AtomicU64::new(0),
            timer_calls_ended: AtomicU64::new(0),
            paused: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            ended: Notify::new(),
            killed,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Does what follows from a change in the tasks of an object. Nothing is locked meanwhile.
    fn follow_up(&self, tasks: &Arc<ObjectTasks>, follow_up: FollowUp) {
        let FollowUp { schedule: planned, stale, call, requeue, ended, notes } = follow_up;
        debug_assert!(call.is_none(), "calls are made by the schedule");
        if !planned.is_empty() || stale > 0 {
            let mut schedule = lock(&self.inner.schedule);
            (0..stale).for_each(|_| schedule.mark_stale());
            let mut is_first = false;
            for (at, number) in planned {
                is_first |= schedule.add(DueTask { at: at.into(), tasks: Arc::downgrade(tasks), number });
            }
            drop(schedule);
            if is_first {
                self.inner.rescheduled.notify_one();
            }
        }
        if !notes.is_empty()
            && let Ok(body) = Body::parse(tasks.raw())
        {
            self.inner.caller.log.notes_about(&Arc::new(body.reference()), notes, None);
        }
        if ended {
            self.inner.ended.notify_waiters();
        }
        if requeue {
            self.inner.requeue.requeue(&tasks.key());
        }
    }

    fn next_call(&self) -> u64 {
        self.inner.calls.fetch_add(1, Ordering::Relaxed)
    }

    fn now(&self) -> Moment {
        let tick = self.inner.caller.clock.instant().saturating_duration_since(self.inner.origin);
        Moment { wall: self.inner.caller.clock.now(), tick }
    }

    fn with_context<T>(&self, work: impl FnOnce(TaskContext<'_>) -> T) -> T {
        let random = || self.inner.caller.clock.jitter(1.0);
        work(TaskContext { now: self.now(), settings: &self.inner.settings, random: &random })
    }

    /// What is there of the daemons and timers of an object.
    pub(crate) fn view(&self, of_object: Option<&TasksHandle>) -> BackgroundView {
        let paused = self.is_paused().then(|| self.why_paused());
        match of_object {
            Some(of_object) => of_object.tasks.view(paused),
            None => BackgroundView { paused, ..BackgroundView::default() },
        }
    }

    /// Starts and stops the tasks that a cycle has decided on; returns how many of them hold the object now.
    pub(crate) async fn apply_plan(
        &self,
        resource: ResourceKey,
        context: &Arc<CycleContext>,
        of_object: &mut Option<TasksHandle>,
        plan: BackgroundPlan,
    ) -> usize {
        if (plan.track || !plan.start.is_empty()) && of_object.is_none() {
            let essence = context.cause.get().map_or(0, |cause| fingerprint(cause));
            *of_object = Some(self.tasks_of(resource, context, essence));
        }
        let Some(TasksHandle { tasks, .. }) = of_object.as_ref() else { return 0 };
        let mut deleted = false;
        for (id, reason) in plan.stop {
            deleted |= reason == StopReasons::RESOURCE_DELETED;
            let follow_up = self.with_context(|context| tasks.stop(Some(&id), reason, context));
            // The cycle itself gets to know what has ended.
            self.follow_up(tasks, FollowUp { requeue: false, ..follow_up });
        }
        for handler in plan.start {
            let delay = match declared_delay(&handler) {
                Some(delay) => delay,
                None => self.ask_delay(context, &handler).await,
            };
            if self.is_paused() {
                break;
            }
            let follow_up = self.with_context(|context| tasks.start(&handler, delay, context));
            self.follow_up(tasks, follow_up);
        }
        if self.is_paused() {
            // The pause has come in between, and may have missed what was just started.
            let follow_up = self.with_context(|context| tasks.stop(None, self.why_paused(), context));
            self.follow_up(tasks, FollowUp { requeue: false, ..follow_up });
        }
        if deleted { self.wait_an_instant(tasks).await } else { tasks.holding() }
    }

    /// Most daemons exit in an instant: then the object can be released by the same cycle.
    async fn wait_an_instant(&self, tasks: &Arc<ObjectTasks>) -> usize {
        tasks.attend(true);
        let ending = async {
            loop {
                let ended = self.inner.ended.notified();
                tokio::pin!(ended);
                // Before looking, so that nothing that ends meanwhile is missed.
                ended.as_mut().enable();
                if tasks.holding() == 0 {
                    return;
                }
                ended.await;
            }
        };
        tokio::select! {
            biased;
            () = ending => {}
            () = self.inner.caller.clock.sleep(self.inner.settings.instant_exit) => {}
        }
        tasks.attend(false)
    }

    async fn ask_delay(&self, context: &Arc<CycleContext>, handler: &Arc<Handler>) -> f64 {
        match self.inner.caller.front.initial_delay(Arc::clone(context), Arc::clone(handler)).await {
            Ok(delay) => delay,
            Err(failure) => {
                let delay = self.inner.settings.default_backoff;
                let reference = Arc::new(context.body.reference());
                let title = handler.title();
                let message = &failure.message;
                let text = format!(
                    "The function for the initial delay of {title} has failed; the delay is {delay} seconds: {message}"
                );
                self.inner.caller.log.error_about(&reference, text, failure.error);
                delay
            }
        }
    }

    fn tasks_of(&self, resource: ResourceKey, context: &Arc<CycleContext>, essence: u64) -> TasksHandle {
        let (resource, now) = (self.resource(resource, context), self.now());
        let make = |place| ObjectTasks::new(context, resource, place, essence, now);
        let tasks = lock(&self.inner.all_tasks).add(make);
        TasksHandle::new(self.clone(), tasks)
    }

    fn resource(&self, key: ResourceKey, context: &CycleContext) -> Arc<TasksOfResource> {
        let mut resources = lock(&self.inner.resources);
        let known = resources.get(&key).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| Arc::ptr_eq(&known.resource, &context.resource)) {
            return known;
        }
        let resource = Arc::clone(&context.resource);
        let fresh = Arc::new(TasksOfResource { key, resource, dictionaries: Default::default() });
        resources.retain(|_, known| known.strong_count() > 0);
        resources.insert(key, Arc::downgrade(&fresh));
        fresh
    }

    fn is_paused(&self) -> bool {
        self.inner.paused.load(Ordering::Acquire) || self.inner.closing.load(Ordering::Acquire)
    }

    fn why_paused(&self) -> StopReasons {
        let exiting = self.inner.closing.load(Ordering::Acquire);
        if exiting { StopReasons::OPERATOR_EXITING } else { StopReasons::OPERATOR_PAUSING }
    }

    /// Stops everything while the operator pauses, and starts it again afterwards.
    pub(crate) async fn follow(self, mut paused: watch::Receiver<bool>) {
        loop {
            let must_pause = *paused.borrow_and_update();
            self.set_paused(must_pause);
            if paused.changed().await.is_err() {
                return;
            }
        }
    }

    fn set_paused(&self, paused: bool) {
        if self.inner.paused.swap(paused, Ordering::AcqRel) == paused {
            return;
        }
        let all_tasks = lock(&self.inner.all_tasks).all();
        for tasks in all_tasks {
            if paused {
                let follow_up = self.with_context(|context| tasks.stop(None, StopReasons::OPERATOR_PAUSING, context));
                self.follow_up(&tasks, follow_up);
            } else {
                self.inner.requeue.requeue(&tasks.key());
            }
        }
    }

    /// Stops everything, and waits until it has ended or was given up.
    pub(crate) async fn exit(&self) {
        self.inner.closing.store(true, Ordering::Release);
        let all_tasks = lock(&self.inner.all_tasks).all();
        for tasks in &all_tasks {
            let follow_up = self.with_context(|context| tasks.stop(None, StopReasons::OPERATOR_EXITING, context));
            self.follow_up(tasks, follow_up);
        }
        loop {
            let ended = self.inner.ended.notified();
            tokio::pin!(ended);
            // Before looking, so that nothing that ends meanwhile is missed.
            ended.as_mut().enable();
            if all_tasks.iter().all(|tasks| tasks.holding() == 0) {
                break;
            }
            ended.await;
        }
    }

    /// Drops all calls, wherever they are.
    pub(crate) fn kill(&self) {
        self.inner.closing.store(true, Ordering::Release);
        self.inner.killed.send_replace(true);
    }
}

/// A number that differs if the essence does.
fn fingerprint(cause: &Cause) -> u64 {
    let mut hasher = DefaultHasher::new();
    cause.new.as_ref().map(ToString::to_string).hash(&mut hasher);
    hasher.finish()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while holding a lock; and if it did, the content is still what it was.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
