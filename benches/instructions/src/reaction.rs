//! One cycle of one object: from its body to the patch to store.

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;

use jiff::Timestamp;
use kopf_object::Body;
use kopf_reaction::{
    BackgroundView, CallOutcome, Cycle, CycleConclusion, CycleInput, CycleStep, Effect, EffectResult, EventType,
    Handler, HandlerSet, HandlerType, ReactionSettings, Reason, UpToDateCheck,
};
use serde_json::json;

use crate::{Outcome, object};

/// A new object, for which one handler is due.
pub(crate) fn create(count: usize) -> Outcome {
    let setup = Setup::new();
    let body = Body::parse(object::fresh().to_string().into_bytes())?;
    for _ in 0..count {
        let (conclusion, calls) = setup.play(&body)?;
        if calls != 1 || conclusion.patch.is_empty() {
            return Err("the handler was not called".into());
        }
    }
    Ok(())
}

/// An object that is up to date, in a whole cycle.
pub(crate) fn unchanged(count: usize) -> Outcome {
    let setup = Setup::new();
    let body = Body::parse(setup.handled()?)?;
    for _ in 0..count {
        let (conclusion, calls) = setup.play(&body)?;
        if calls != 0 || !conclusion.patch.is_empty() {
            return Err("the object is not up to date".into());
        }
    }
    Ok(())
}

/// An object that is up to date, recognized from raw JSON: at a restart, and after the last patch.
pub(crate) fn up_to_date(count: usize) -> Outcome {
    let setup = Setup::new();
    let check =
        UpToDateCheck::of(&setup.handlers, &setup.settings).ok_or("these handlers need more than the raw JSON")?;
    let text = setup.handled()?;
    for _ in 0..count {
        if !check.is_up_to_date(black_box(&text)) {
            return Err("the object is not up to date".into());
        }
    }
    Ok(())
}

/// An operator with the usual three handlers.
struct Setup {
    handlers: Arc<HandlerSet>,
    settings: Arc<ReactionSettings>,
}

impl Setup {
    fn new() -> Self {
        let declared =
            [("create", Reason::Create, false), ("update", Reason::Update, false), ("delete", Reason::Delete, true)];
        let handlers = declared.into_iter().enumerate().map(|(index, (id, reason, requires_finalizer))| {
            let handler = Handler::new(index, id, HandlerType::Change);
            Arc::new(Handler { reason: Some(reason), requires_finalizer, ..handler })
        });
        let settings = ReactionSettings { finalizer: "bench.dev/kopf".to_owned(), ..ReactionSettings::default() };
        Self { handlers: Arc::new(HandlerSet::from_handlers(handlers)), settings: Arc::new(settings) }
    }

    /// The JSON of an object after it was handled.
    fn handled(&self) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        let mut handled = object::fresh();
        let fresh = Body::parse(handled.to_string().into_bytes())?;
        self.play(&fresh)?.0.patch.apply_to(&mut handled);
        Ok(handled.to_string().into_bytes())
    }

    /// Returns the conclusion, and the number of handlers called on the way to it.
    fn play(&self, body: &Body) -> Result<(CycleConclusion, usize), &'static str> {
        let mut cycle = Cycle::new(CycleInput {
            body: body.clone(),
            event: Some(EventType::Added),
            handlers: Arc::clone(&self.handlers),
            settings: Arc::clone(&self.settings),
            initial: false,
            consistent: true,
            background: BackgroundView::default(),
            verbose: false,
        });
        let (mut result, mut calls) = (None, 0);
        loop {
            match cycle.step(result.take(), Timestamp::UNIX_EPOCH, &mut || 0.5) {
                CycleStep::Done(conclusion) => return Ok((*conclusion, calls)),
                CycleStep::Effect(Effect::Call(_)) => {
                    calls += 1;
                    let outcome =
                        CallOutcome { result: Ok(Some(json!({"message": "done"}))), subrefs: Default::default() };
                    result = Some(EffectResult::Called(outcome));
                }
                CycleStep::Effect(_) => return Err("the cycle asks for an unexpected effect"),
            }
        }
    }
}
