//! Daemons and timers: started and stopped by the cycles of their objects, called by the schedule.
//!
//! What waits is an entry in the [`Schedule`] and a small machine in the [`Companion`] of its object: no task,
//! nothing on the side of the front. Only what is being called has a task. When a run ends, its object gets a turn,
//! in which the cycle decides anew: whether to start it again, whether to release the object.

mod bodies;
mod object_tasks;
mod call;
mod schedule;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use kopf_object::Body;
use kopf_reaction::{
    BackgroundPlan, BackgroundView, Cause, Handler, HandlerSet, HandlerType, Moment, StopReasons, TaskSettings,
};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use crate::front::CycleContext;
use crate::queue::{Queue, WeakQueue};
use crate::support::Lane;
use crate::worker::{OBJECTS, Reactor};
use crate::{Clock, Level, Log, Settings};
use object_tasks::{Calling, Companion, Companions, Effects, KindInBackground, Means, declared_delay};
use schedule::{Entry, Schedule};

const TARGET: &str = "kopf.engine.background";

/// Calls of timers that are begun at the same time; others that are due wait for them. In a burst, most calls
/// are short, and more of them at once would only take more memory.
const TIMERS_AT_ONCE: usize = 256;

/// After this time, a call is a long one, and makes room for the next one; unless so many others have ended
/// meanwhile: then it is not the functions that take long, but there are many of them.
const LONG_CALL: Duration = Duration::from_millis(250);
const ENDED_MEANWHILE: u64 = TIMERS_AT_ONCE as u64 / 4;

/// Long calls at the same time.
const LONG_CALLS_AT_ONCE: usize = 4096;

/// The daemons and timers of one operator. Clones share them.
#[derive(Clone)]
pub(crate) struct Background {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Clock,
    log: Log,
    /// The beginning of the time of the schedule.
    origin: Instant,
    settings: TaskSettings,
    /// What carries calls out, and whom to tell; set once when everything is there. Both hold this.
    surroundings: OnceLock<(Weak<Reactor>, WeakQueue)>,
    schedule: Mutex<Schedule>,
    /// The first entry of the schedule has changed.
    rescheduled: Notify,
    companions: Mutex<Companions>,
    kinds: Mutex<HashMap<u64, Weak<KindInBackground>>>,
    /// One per timer that is called, unless the call takes long.
    seats: Arc<Semaphore>,
    /// One per timer whose call takes long.
    long_calls: Arc<Semaphore>,
    /// There are too many long calls, and it was told.
    crowded: AtomicBool,
    /// Timers that are due, but have no seat.
    backlog: Mutex<Lane<Entry>>,
    /// How many calls were made.
    calls: AtomicU64,
    /// How many calls on seats have ended.
    seated_calls_ended: AtomicU64,
    paused: AtomicBool,
    /// The operator stops: nothing is started any more.
    closing: AtomicBool,
    /// A run has ended, or was given up.
    ended: Notify,
    /// Whether the calls must be dropped at once, wherever they are.
    killed: watch::Sender<bool>,
}

/// The daemons and timers of one object, as its memory holds them. When it is dropped, they are stopped.
pub(crate) struct BackgroundOfObject {
    background: Background,
    companion: Arc<Companion>,
}

impl Background {
    pub fn new(settings: &Settings, clock: Clock, log: Log) -> Self {
        let settings = TaskSettings {
            default_backoff: settings.execution.default_backoff,
            cancellation_polling: settings.background.cancellation_polling.clone(),
            instant_exit: settings.background.instant_exit(),
            verbose: log.enabled(Level::Debug, OBJECTS),
        };
        let (killed, _) = watch::channel(false);
        let inner = Inner {
            origin: clock.instant(),
            clock,
            log,
            settings,
            surroundings: OnceLock::new(),
            schedule: Mutex::default(),
            rescheduled: Notify::new(),
            companions: Mutex::default(),
            kinds: Mutex::default(),
            seats: Arc::new(Semaphore::new(TIMERS_AT_ONCE)),
            long_calls: Arc::new(Semaphore::new(LONG_CALLS_AT_ONCE)),
            crowded: AtomicBool::new(false),
            backlog: Mutex::default(),
            calls: AtomicU64::new(0),
            seated_calls_ended: AtomicU64::new(0),
            paused: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            ended: Notify::new(),
            killed,
        };
        Self { inner: Arc::new(inner) }
    }

    /// What carries the calls out, and who decides when they are over.
    pub fn attach(&self, reactor: &Arc<Reactor>, queue: &Queue) {
        // Attached once per operator; a second time changes nothing.
        let _ = self.inner.surroundings.set((Arc::downgrade(reactor), queue.downgrade()));
    }

    /// Keeps the time, for as long as the operator runs.
    pub async fn run(self) {
        let inner = &self.inner;
        loop {
            let next = lock(&inner.schedule).next();
            tokio::select! {
                biased;
                () = inner.rescheduled.notified() => continue,
                () = self.sleep_until(next) => {}
            }
            self.fire_due();
            self.clean_up();
        }
    }

    async fn sleep_until(&self, tick: Option<Duration>) {
        match tick {
            Some(tick) => self.inner.clock.sleep_until(self.inner.origin + tick).await,
            None => std::future::pending().await,
        }
    }

    fn fire_due(&self) {
        let now = self.now().tick;
        loop {
            let Some(entry) = lock(&self.inner.schedule).pop_due(now) else { break };
            let Some(companion) = entry.companion.upgrade() else { continue };
            match companion.is_for_timer(entry.run) {
                None => lock(&self.inner.schedule).dropped_void(),
                Some(false) => self.fire(&companion, entry.run, None),
                Some(true) => match self.free_seat() {
                    Some(seat) => self.fire(&companion, entry.run, Some(seat)),
                    None => self.put_off(entry),
                },
            }
        }
    }

    fn free_seat(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.inner.seats).try_acquire_owned().ok()
    }

    fn put_off(&self, entry: Entry) {
        lock(&self.inner.backlog).push_back(entry);
        // The last seat may have become free just before that.
        self.pass_on(self.free_seat());
    }

    /// A seat is free: whoever waits for it, gets it.
    fn pass_on(&self, seat: Option<OwnedSemaphorePermit>) {
        let Some(mut seat) = seat else { return };
        loop {
            let Some(entry) = lock(&self.inner.backlog).pop_front() else {
                self.inner.crowded.store(false, Ordering::Relaxed);
                drop(seat);
                // Whoever has come in between has seen no free seat.
                if lock(&self.inner.backlog).is_empty() {
                    return;
                }
                match self.free_seat() {
                    Some(free) => seat = free,
                    None => return,
                }
                continue;
            };
            let Some(companion) = entry.companion.upgrade() else { continue };
            match self.fire_with(&companion, entry.run, Some(seat)) {
                Some(unused) => seat = unused,
                None => return,
            }
        }
    }

    fn fire(&self, companion: &Arc<Companion>, run: u32, seat: Option<OwnedSemaphorePermit>) {
        // A seat that was not used is free again as soon as it is dropped.
        drop(self.fire_with(companion, run, seat));
    }

    /// Gives the seat back if nothing is called.
    fn fire_with(
        &self,
        companion: &Arc<Companion>,
        run: u32,
        seat: Option<OwnedSemaphorePermit>,
    ) -> Option<OwnedSemaphorePermit> {
        let mut effects = self.with_means(|means| companion.fire(run, means));
        let Some(calling) = effects.call.take() else {
            self.carry_out_effects(companion, effects);
            return seat;
        };
        self.carry_out_effects(companion, effects);
        self.spawn(companion, calling, seat);
        None
    }

    fn spawn(&self, companion: &Arc<Companion>, calling: Calling, seat: Option<OwnedSemaphorePermit>) {
        let Some((reactor, _)) = self.inner.surroundings.get() else { return };
        let Some(reactor) = reactor.upgrade() else { return };
        let (background, companion) = (self.clone(), Arc::clone(companion));
        let mut killed = self.inner.killed.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = killed.wait_for(|killed| *killed) => {}
                () = background.seated(seat, background.round(&reactor, &companion, calling)) => {}
            }
            reactor.rest.worked();
        });
    }

    /// Makes the call on a seat, if it has one; a long call gives it away.
    async fn seated(&self, seat: Option<OwnedSemaphorePermit>, round: impl Future<Output = ()>) {
        let Some(seat) = seat else { return round.await };
        tokio::pin!(round);
        let ended = || self.inner.seated_calls_ended.load(Ordering::Relaxed);
        loop {
            let ended_before = ended();
            tokio::select! {
                biased;
                () = &mut round => break,
                () = self.inner.clock.sleep(LONG_CALL) => {}
            }
            if ended().wrapping_sub(ended_before) >= ENDED_MEANWHILE {
                continue;
            }
            if let Ok(_place) = Arc::clone(&self.inner.long_calls).try_acquire_owned() {
                self.pass_on(Some(seat));
                return round.await;
            }
            self.tell_of_the_crowd();
        }
        self.inner.seated_calls_ended.fetch_add(1, Ordering::Relaxed);
        self.pass_on(Some(seat));
    }

    fn tell_of_the_crowd(&self) {
        if !lock(&self.inner.backlog).is_empty() && !self.inner.crowded.swap(true, Ordering::Relaxed) {
            let count = TIMERS_AT_ONCE + LONG_CALLS_AT_ONCE;
            let text = format!("{count} timers are running already; others that are due wait for them.");
            self.inner.log.emit(Level::Warning, TARGET, text);
        }
    }

    /// Drops void entries, if there are too many of them.
    fn clean_up(&self) {
        let Some(mut entries) = lock(&self.inner.schedule).take_littered() else { return };
        entries.retain(|entry| {
            entry.companion.upgrade().is_some_and(|companion| companion.is_for_timer(entry.run).is_some())
        });
        lock(&self.inner.schedule).refill(entries);
    }

    /// Does what a change in a companion asks for. Nothing is locked meanwhile.
    fn carry_out_effects(&self, companion: &Arc<Companion>, effects: Effects) {
        let Effects { schedule: planned, voided, call, nudge, ended, notes } = effects;
        debug_assert!(call.is_none(), "calls are made by the schedule");
        if !planned.is_empty() || voided > 0 {
            let mut schedule = lock(&self.inner.schedule);
            (0..voided).for_each(|_| schedule.void());
            let mut is_first = false;
            for (at, run) in planned {
                is_first |= schedule.add(Entry { at: at.into(), companion: Arc::downgrade(companion), run });
            }
            drop(schedule);
            if is_first {
                self.inner.rescheduled.notify_one();
            }
        }
        if !notes.is_empty()
            && let Some(reactor) = self.inner.surroundings.get().and_then(|(reactor, _)| reactor.upgrade())
            && let Ok(body) = Body::parse(companion.raw())
        {
            reactor.write_notes(&Arc::new(body.reference()), notes, None);
        }
        if ended {
            self.inner.ended.notify_waiters();
        }
        if nudge && let Some(queue) = self.queue() {
            queue.nudge(companion.kind.key, &companion.uid);
        }
    }

    fn queue(&self) -> Option<Queue> {
        self.inner.surroundings.get().and_then(|(_, queue)| queue.upgrade())
    }

    fn next_call(&self) -> u64 {
        self.inner.calls.fetch_add(1, Ordering::Relaxed)
    }

    fn now(&self) -> Moment {
        let tick = self.inner.clock.instant().saturating_duration_since(self.inner.origin);
        Moment { wall: self.inner.clock.now(), tick }
    }

    fn with_means<T>(&self, work: impl FnOnce(Means<'_>) -> T) -> T {
        let random = || self.inner.clock.jitter(1.0);
        work(Means { now: self.now(), settings: &self.inner.settings, random: &random })
    }

    /// What is there of the daemons and timers of an object.
    pub fn view(&self, of_object: Option<&BackgroundOfObject>) -> BackgroundView {
        let paused = self.is_paused().then(|| self.why_paused());
        match of_object {
            Some(of_object) => of_object.companion.view(paused),
            None => BackgroundView { paused, ..BackgroundView::default() },
        }
    }

    /// Starts and stops what a cycle has decided on; gives how many runs hold the object now.
    pub async fn carry_out(
        &self,
        reactor: &Reactor,
        key: u64,
        context: &Arc<CycleContext>,
        of_object: &mut Option<BackgroundOfObject>,
        plan: BackgroundPlan,
    ) -> usize {
        if (plan.track || !plan.start.is_empty()) && of_object.is_none() {
            let essence = context.cause.get().map_or(0, |cause| fingerprint(cause));
            *of_object = Some(self.accompany(key, context, essence));
        }
        let Some(BackgroundOfObject { companion, .. }) = of_object.as_ref() else { return 0 };
        let mut deleted = false;
        for (id, reason) in plan.stop {
            deleted |= reason == StopReasons::RESOURCE_DELETED;
            let effects = self.with_means(|means| companion.stop(Some(&id), reason, means));
            // The cycle itself gets to know what has ended.
            self.carry_out_effects(companion, Effects { nudge: false, ..effects });
        }
        for handler in plan.start {
            let delay = match declared_delay(&handler) {
                Some(delay) => delay,
                None => self.ask_delay(reactor, context, &handler).await,
            };
            if self.is_paused() {
                break;
            }
            let effects = self.with_means(|means| companion.start(&handler, delay, means));
            self.carry_out_effects(companion, effects);
        }
        if self.is_paused() {
            // The pause has come in between, and may have missed what was just started.
            let effects = self.with_means(|means| companion.stop(None, self.why_paused(), means));
            self.carry_out_effects(companion, Effects { nudge: false, ..effects });
        }
        if deleted { self.wait_an_instant(companion).await } else { companion.holding() }
    }

    /// Most daemons exit in an instant: then the object can be released by the same cycle.
    async fn wait_an_instant(&self, companion: &Arc<Companion>) -> usize {
        companion.attend(true);
        let ending = async {
            loop {
                let ended = self.inner.ended.notified();
                tokio::pin!(ended);
                // Before looking, so that nothing that ends meanwhile is missed.
                ended.as_mut().enable();
                if companion.holding() == 0 {
                    return;
                }
                ended.await;
            }
        };
        tokio::select! {
            biased;
            () = ending => {}
            () = self.inner.clock.sleep(self.inner.settings.instant_exit) => {}
        }
        companion.attend(false)
    }

    async fn ask_delay(&self, reactor: &Reactor, context: &Arc<CycleContext>, handler: &Arc<Handler>) -> f64 {
        match reactor.front.initial_delay(Arc::clone(context), Arc::clone(handler)).await {
            Ok(delay) => delay,
            Err(failure) => {
                let delay = self.inner.settings.default_backoff;
                let reference = Arc::new(context.body.reference());
                let title = handler.title();
                let message = &failure.message;
                let text = format!("The initial delay of {title} cannot be told, it is {delay} seconds: {message}");
                reactor.fail(&reference, text, failure.error);
                delay
            }
        }
    }

    fn accompany(&self, key: u64, context: &Arc<CycleContext>, essence: u64) -> BackgroundOfObject {
        let kind = self.kind(key, context);
        let (uid, memory) = (Arc::clone(&context.uid), Arc::clone(&context.memory));
        let now = self.now();
        let make = |place| Companion::new(kind, uid, memory, place, &context.body, essence, now);
        let companion = lock(&self.inner.companions).add(make);
        BackgroundOfObject { background: self.clone(), companion }
    }

    fn kind(&self, key: u64, context: &CycleContext) -> Arc<KindInBackground> {
        let mut kinds = lock(&self.inner.kinds);
        let known = kinds.get(&key).and_then(Weak::upgrade);
        if let Some(kind) = known.filter(|kind| Arc::ptr_eq(&kind.resource, &context.resource)) {
            return kind;
        }
        let resource = Arc::clone(&context.resource);
        let kind = Arc::new(KindInBackground { key, resource, dictionaries: Default::default() });
        kinds.retain(|_, kind| kind.strong_count() > 0);
        kinds.insert(key, Arc::downgrade(&kind));
        kind
    }

    fn is_paused(&self) -> bool {
        self.inner.paused.load(Ordering::Acquire) || self.inner.closing.load(Ordering::Acquire)
    }

    fn why_paused(&self) -> StopReasons {
        let exiting = self.inner.closing.load(Ordering::Acquire);
        if exiting { StopReasons::OPERATOR_EXITING } else { StopReasons::OPERATOR_PAUSING }
    }

    /// Stops everything while the operator pauses, and starts it again afterwards.
    pub async fn follow(self, mut paused: watch::Receiver<bool>) {
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
        let companions = lock(&self.inner.companions).all();
        for companion in companions {
            if paused {
                let effects = self.with_means(|means| companion.stop(None, StopReasons::OPERATOR_PAUSING, means));
                self.carry_out_effects(&companion, effects);
            } else if let Some(queue) = self.queue() {
                queue.nudge(companion.kind.key, &companion.uid);
            }
        }
    }

    /// Stops everything, and waits until it has ended or was given up.
    pub async fn exit(&self) {
        self.inner.closing.store(true, Ordering::Release);
        let companions = lock(&self.inner.companions).all();
        for companion in &companions {
            let effects = self.with_means(|means| companion.stop(None, StopReasons::OPERATOR_EXITING, means));
            self.carry_out_effects(companion, effects);
        }
        loop {
            let ended = self.inner.ended.notified();
            tokio::pin!(ended);
            // Before looking, so that nothing that ends meanwhile is missed.
            ended.as_mut().enable();
            if companions.iter().all(|companion| companion.holding() == 0) {
                break;
            }
            ended.await;
        }
    }

    /// Drops all calls, wherever they are.
    pub fn kill(&self) {
        self.inner.closing.store(true, Ordering::Release);
        self.inner.killed.send_replace(true);
    }
}

impl BackgroundOfObject {
    /// The newest body is at least this one.
    pub fn see(&self, body: &Body) {
        self.companion.see(body);
    }

    /// Notices whether something has changed that matters to timers which wait for idling.
    pub fn notice(&self, handlers: &HandlerSet, cause: &Cause) {
        let waits_for_idling =
            |handler: &Arc<Handler>| handler.handler_type == HandlerType::Timer && handler.background.idle.is_some();
        if handlers.background_handlers.iter().any(waits_for_idling) {
            let essence = fingerprint(cause);
            let effects = self.background.with_means(|means| self.companion.notice(essence, means));
            self.background.carry_out_effects(&self.companion, effects);
        }
    }

    /// The newest body, to decide anew.
    pub fn newest(&self) -> Option<Body> {
        Body::parse(self.companion.raw()).ok()
    }
}

impl Drop for BackgroundOfObject {
    fn drop(&mut self) {
        lock(&self.background.inner.companions).remove(self.companion.place);
        let exiting = self.background.inner.closing.load(Ordering::Acquire);
        let reason = if exiting { StopReasons::OPERATOR_EXITING } else { StopReasons::RESOURCE_DELETED };
        let forget = |means: Means<'_>| self.companion.forget(reason, means);
        let effects = self.background.with_means(forget);
        self.background.carry_out_effects(&self.companion, effects);
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
