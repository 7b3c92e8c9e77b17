//! A front without any functions: it records the calls of the engine, and answers as the test says.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use futures::future::BoxFuture;
use kopf_engine::{
    ActivityCall, BackgroundCall, CallReply, Children, Configuration, CycleContext, Front, FrontFailure, HandlerCall,
    Record, Services, Settings, Severity, Sink, StorageContent, StorageQuestion,
};
use kopf_object::Body;
use kopf_reaction::{CallError, FilterQuestion, Handler, HandlerState, Resource, StopReasons, StorageOperation};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};

/// One call of a handler, as it came.
#[derive(Clone)]
pub(crate) struct Call {
    pub id: String,
    pub name: String,
    pub reason: Option<&'static str>,
    pub event: Option<&'static str>,
    pub retry: u32,
    pub body: Body,
    pub old: Option<Value>,
    pub new: Option<Value>,
    pub children: Children,
    /// What only daemons and timers have.
    pub background: Option<BackgroundCall>,
}

impl Call {
    /// Such as `create_fn(a)`, and `create_fn(a)#1` for the second try.
    pub(crate) fn text(&self) -> String {
        let retry = if self.retry == 0 { String::new() } else { format!("#{}", self.retry) };
        format!("{}({}){retry}", self.id, self.name)
    }
}

/// What a handler comes to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reply {
    pub result: Option<Value>,
    pub error: Option<CallError>,
    pub patch: Option<Value>,
    pub transformations: bool,
}

pub(crate) fn done() -> Reply {
    Reply::default()
}

pub(crate) fn result(result: Value) -> Reply {
    Reply { result: Some(result), ..Reply::default() }
}

pub(crate) fn patch(patch: Value) -> Reply {
    Reply { patch: Some(patch), ..Reply::default() }
}

pub(crate) fn fail(error: CallError) -> Reply {
    Reply { error: Some(error), ..Reply::default() }
}

pub(crate) fn temporary(delay: f64) -> Reply {
    fail(CallError::Temporary { message: "later".into(), display: "later".into(), delay: Some(delay) })
}

pub(crate) fn permanent(message: &str) -> Reply {
    fail(CallError::Permanent { message: message.into(), display: message.into() })
}

type Behaviour = Arc<dyn Fn(Call) -> BoxFuture<'static, Reply> + Send + Sync>;

/// A callback of the test, for what the engine asks besides calls.
type Answering<Q, A> = Box<dyn Fn(Q) -> A + Send + Sync>;

/// The front, to be filled by a test before it is run.
pub(crate) struct Script {
    pub settings: Settings,
    /// Those of objects; those of activities go into the options of the operator.
    pub handlers: Vec<Arc<Handler>>,
    behaviours: HashMap<String, Behaviour>,
    pub select: Answering<String, bool>,
    pub filter: Answering<FilterQuestion, bool>,
    pub choose: Answering<Vec<Arc<Handler>>, Vec<usize>>,
    pub read_storage: Answering<Body, StorageContent>,
    pub write_storage: Answering<Vec<StorageOperation>, Option<Value>>,
    pub transform: Answering<Value, Value>,
    pub initial_delay: Answering<Body, Result<f64, FrontFailure>>,
    bell: Arc<Notify>,
    seen: Arc<Mutex<Seen>>,
}

/// What was recorded.
#[derive(Default)]
pub(crate) struct Seen {
    pub calls: Vec<Call>,
    pub activities: Vec<String>,
    /// Other questions, by their names.
    pub asks: Vec<String>,
    pub logs: Vec<(Severity, String)>,
    pub ready: bool,
    /// The calls under way, now and at most, by the ids of handlers.
    pub under_way: BTreeMap<String, (usize, usize)>,
}

impl Script {
    /// With these handlers of objects; what a declaration does not say is about changes of the things.
    pub(crate) fn new(declarations: &[Value]) -> Self {
        Self {
            settings: Settings::default(),
            handlers: declarations.iter().enumerate().map(|(index, one)| handler(index, one)).collect(),
            behaviours: HashMap::new(),
            select: Box::new(|_| false),
            filter: Box::new(|_| false),
            choose: Box::new(|_| Vec::new()),
            read_storage: Box::new(|_| StorageContent::default()),
            write_storage: Box::new(|_| None),
            transform: Box::new(|body| body),
            initial_delay: Box::new(|_| Ok(0.0)),
            bell: Arc::new(Notify::new()),
            seen: Arc::default(),
        }
    }

    /// The handler comes to this, depending on the call.
    pub(crate) fn on(self, id: &str, behave: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> Self {
        self.on_async(id, move |call| {
            let reply = behave(&call);
            Box::pin(async move { reply })
        })
    }

    pub(crate) fn on_async(
        mut self,
        id: &str,
        behave: impl Fn(Call) -> BoxFuture<'static, Reply> + Send + Sync + 'static,
    ) -> Self {
        self.behaviours.insert(id.to_owned(), Arc::new(behave));
        self
    }

    /// The handler waits until the test lets it go on, and is done then.
    pub(crate) fn held(self, id: &str, hold: &Hold) -> Self {
        let hold = hold.clone();
        self.on_async(id, move |_| {
            let hold = hold.clone();
            Box::pin(async move {
                hold.wait().await;
                done()
            })
        })
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Rung whenever something was recorded.
    pub(crate) fn bell(&self) -> Arc<Notify> {
        Arc::clone(&self.bell)
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.seen().calls.iter().map(Call::text).collect()
    }

    /// The messages of this level and above.
    pub(crate) fn logged(&self, level: Severity) -> Vec<String> {
        let seen = self.seen();
        seen.logs.iter().filter(|(logged, _)| *logged >= level).map(|(_, text)| text.clone()).collect()
    }

    fn record(&self, record: impl FnOnce(&mut Seen)) {
        record(&mut self.seen());
        self.bell.notify_waiters();
    }

    fn ask<A: Send + 'static>(&self, what: &str, answer: A) -> BoxFuture<'static, Result<A, FrontFailure>> {
        self.record(|seen| seen.asks.push(what.to_owned()));
        Box::pin(async move { Ok(answer) })
    }
}

/// A declaration of a handler.
pub(crate) fn handler(index: usize, declaration: &Value) -> Arc<Handler> {
    let mut whole = json!({
        "index": index, "fn": index, "kind": "changing",
        "selector": {"group": "g.io", "any_name": "things"},
    });
    whole.as_object_mut().unwrap().extend(declaration.as_object().unwrap().clone());
    Arc::new(serde_json::from_value(whole).unwrap())
}

/// Where calls wait for the test.
#[derive(Clone)]
pub(crate) struct Hold(Arc<Semaphore>);

impl Hold {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    /// Waits to be let go on.
    pub(crate) async fn wait(&self) {
        self.0.acquire().await.unwrap().forget();
    }

    /// Lets this number of calls go on, current or future ones.
    pub(crate) fn release(&self, count: usize) {
        self.0.add_permits(count);
    }
}

impl Sink for Script {
    fn enabled(&self, _: Severity, _: &'static str) -> bool {
        true
    }

    fn emit(&self, record: Record) {
        let name = record.reference.as_ref().and_then(|reference| reference.name.clone());
        let prefix = name.map(|name| format!("[{name}] ")).unwrap_or_default();
        self.record(|seen| seen.logs.push((record.severity, format!("{prefix}{}", record.message))));
    }
}

impl Front for Script {
    fn configure(&self) -> BoxFuture<'static, Result<Configuration, FrontFailure>> {
        let configuration = Configuration { settings: self.settings.clone(), handlers: self.handlers.clone() };
        self.ask("configure", configuration)
    }

    fn call_activity(&self, call: ActivityCall) -> BoxFuture<'static, CallReply> {
        let id = call.handler.id.to_string();
        self.record(|seen| seen.activities.push(id.clone()));
        let body = Body::from_value(json!({}));
        let (children, _) = Children::channel();
        let (retry, name) = (call.retry, String::new());
        let (reason, event, old, new) = (None, None, None, None);
        let call = Call { id: id.clone(), name, reason, event, retry, body, old, new, children, background: None };
        let behaviour = self.behaviours.get(&id).cloned();
        Box::pin(async move {
            match behaviour {
                Some(behave) => to_reply(behave(call).await),
                None => to_reply(done()),
            }
        })
    }

    fn call(&self, call: HandlerCall) -> BoxFuture<'static, CallReply> {
        let HandlerCall { handler, context, retry, change, children, background, .. } = call;
        let (old, new) = change.map(|(old, new, _)| (old, new)).unwrap_or_default();
        let id = handler.id.to_string();
        let call = Call {
            id: id.clone(),
            name: context.body.name().unwrap_or_default().to_owned(),
            reason: context.cause.get().filter(|_| new.is_some()).map(|cause| cause.reason.as_str()),
            event: context.event.and_then(|event| event.as_str()),
            retry,
            body: context.body.clone(),
            old,
            new,
            children,
            background: background.clone(),
        };
        let under_way = UnderWay::new(&self.seen, &self.bell, &id);
        self.record(|seen| seen.calls.push(call.clone()));
        let behaviour = self.behaviours.get(&id).cloned();
        Box::pin(async move {
            let _under_way = under_way;
            tokio::select! {
                biased;
                () = cancelled(background) => to_reply(fail(CallError::Abandoned)),
                reply = async {
                    match behaviour {
                        Some(behave) => behave(call).await,
                        None => done(),
                    }
                } => to_reply(reply),
            }
        })
    }

    fn initial_delay(
        &self,
        context: Arc<CycleContext>,
        handler: Arc<Handler>,
    ) -> BoxFuture<'static, Result<f64, FrontFailure>> {
        let answer = (self.initial_delay)(context.body.clone());
        self.record(|seen| seen.asks.push(format!("delay {}", handler.id)));
        Box::pin(async move { answer })
    }

    fn filter(
        &self,
        _: Arc<CycleContext>,
        questions: Vec<FilterQuestion>,
    ) -> BoxFuture<'static, Result<Vec<bool>, FrontFailure>> {
        let answers = questions.into_iter().map(|question| (self.filter)(question)).collect();
        self.ask("filter", answers)
    }

    fn select(&self, handler: usize, resource: Arc<Resource>) -> BoxFuture<'static, Result<bool, FrontFailure>> {
        let answer = (self.select)(resource.to_string());
        self.ask(&format!("select {handler} {resource}"), answer)
    }

    fn choose(
        &self,
        _: Arc<CycleContext>,
        candidates: Vec<Arc<Handler>>,
        states: Vec<(Arc<str>, HandlerState)>,
    ) -> BoxFuture<'static, Result<Vec<usize>, FrontFailure>> {
        let ids: Vec<&str> = candidates.iter().map(|handler| &*handler.id).collect();
        let states: Vec<String> = states.iter().map(|(id, state)| format!("{id}:{}", state.success)).collect();
        let text = format!("choose from {} knowing {}", ids.join(","), states.join(","));
        let answer = (self.choose)(candidates.clone());
        self.ask(&text, answer)
    }

    fn read_storage(
        &self,
        context: Arc<CycleContext>,
        question: StorageQuestion,
    ) -> BoxFuture<'static, Result<StorageContent, FrontFailure>> {
        let answer = (self.read_storage)(context.body.clone());
        self.ask(&format!("read {}", question.ids.join(",")), answer)
    }

    fn write_storage(
        &self,
        _: Arc<CycleContext>,
        operations: Vec<StorageOperation>,
    ) -> BoxFuture<'static, Result<Option<Value>, FrontFailure>> {
        let kinds: Vec<String> =
            operations.iter().map(|one| json!(one)["op"].as_str().unwrap_or_default().to_owned()).collect();
        let answer = (self.write_storage)(operations);
        self.ask(&format!("write {}", kinds.join(",")), answer)
    }

    fn transform(&self, _: Arc<CycleContext>, body: Body) -> BoxFuture<'static, Result<Value, FrontFailure>> {
        let answer = (self.transform)(body.value().clone());
        self.ask("transform", answer)
    }

    fn unindex(&self, uid: &Arc<str>, ids: &[Arc<str>]) {
        self.record(|seen| seen.asks.push(format!("unindex {uid} {}", ids.join(","))));
    }

    fn connected(&self, _: Services) {
        self.record(|seen| seen.asks.push("connected".to_owned()));
    }

    fn ready(&self) {
        self.record(|seen| seen.ready = true);
    }
}

/// What is said to a daemon that does not exit by itself.
async fn cancelled(background: Option<BackgroundCall>) {
    let Some(mut background) = background else { return std::future::pending().await };
    let is_cancelled = |reasons: &StopReasons| reasons.contains(StopReasons::DAEMON_CANCELLED);
    if background.stops.wait_for(is_cancelled).await.is_err() {
        std::future::pending().await
    }
}

fn to_reply(reply: Reply) -> CallReply {
    let result = match reply.error {
        Some(error) => Err(error),
        None => Ok(reply.result),
    };
    CallReply { result, error: None, patch: reply.patch, transformations: reply.transformations }
}

/// Counts a call while it is under way, however it ends.
struct UnderWay {
    seen: Arc<Mutex<Seen>>,
    bell: Arc<Notify>,
    id: String,
}

impl UnderWay {
    fn new(seen: &Arc<Mutex<Seen>>, bell: &Arc<Notify>, id: &str) -> Self {
        let mut recorded = seen.lock().unwrap();
        let (now, most) = recorded.under_way.entry(id.to_owned()).or_default();
        *now += 1;
        *most = (*most).max(*now);
        drop(recorded);
        Self { seen: Arc::clone(seen), bell: Arc::clone(bell), id: id.to_owned() }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some((now, _)) = self.seen.lock().unwrap().under_way.get_mut(&self.id) {
            *now -= 1;
        }
        self.bell.notify_waiters();
    }
}
