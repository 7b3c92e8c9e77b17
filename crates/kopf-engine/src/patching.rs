//! 6. From what a cycle came to, to the object in the cluster: few patches, each answer is the newest body.
//!
//! The record that a change was handled goes last, or together with what goes last: if the operator dies before it is
//! written, the handler runs again instead of losing its result. So the status goes first, where it is a subresource;
//! the user's transformations go by the same JSON patch as the record. Finalizers and transformations test the version.
//! An answer that does not tell whether the patch was applied is resolved by an empty patch, which shows the object as it
//! is. All merge patches name the uid of the object, so that another object under the same name is left alone.
//!
//! What an error means, for the object and for its status alike ([`Policy`]):
//!
//! | answer | policy |
//! |---|---|
//! | 404 | The object is gone: nothing is left to be done. |
//! | 400, 405, 413, 415, 422, other 4xx | The content is rejected: an error in the log; the record is stored without it. |
//! | 409, and 422 by a version test | Retried on the newest state: at once, then by the backoffs; then throttled. |
//! | 5xx, time-outs, lost connections | Retried by the backoffs, each time with a line in the log; then throttled. |
//! | 429 | Retried after the time that the server asks for, by the backoffs; then throttled. |
//! | 401, 403 | Throttled: permissions come and go. |
//!
//! Throttled means: the object rests, and the same patch is sent afterwards. No handler is called again for it.

use std::sync::Arc;

use bytes::Bytes;
use kopf_object::{
    Body, Diff, MergePatch, PatchOperation, combine, finalizers, inconsistencies, json_patch, parse_partial,
    split_status_operations, with_version_test,
};
use kopf_reaction::FinalizerChange;
use serde_json::{Map, Value, json};

use crate::front::{CycleContext, Front, FrontFailure};
use crate::{Api, ApiError, Clock, Log, PatchKind};

const TARGET: &str = "kopf.engine.apply";

/// Tries of one JSON patch on ever newer bodies, before it counts as failed.
const CONFLICTS_AT_MOST: usize = 10;

/// By which means a change is carried out.
#[derive(Clone, Copy)]
pub(crate) struct Means<'a> {
    pub api: &'a Api,
    pub front: &'a Arc<dyn Front>,
    pub clock: &'a Clock,
    pub log: &'a Log,
    /// The pauses between the tries of a patch whose answers are unclear, in seconds.
    pub backoffs: &'a [f64],
}

/// What is to be changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    /// What the user's code wants.
    pub wanted: Option<Value>,
    /// What the framework stores.
    pub stored: MergePatch,
    /// What the framework stores is a part of what the user's code wants, by a storage of the user.
    pub stored_by_user: bool,
    /// There are transformations of the user.
    pub transformations: bool,
    pub finalizer: Option<FinalizerChange>,
    /// Probably, nobody will need the whole object after it.
    pub is_last: bool,
}

impl Change {
    pub fn is_empty(&self) -> bool {
        let has_data = self.wanted.as_ref().and_then(Value::as_object).is_some_and(|wanted| !wanted.is_empty());
        !has_data && self.stored.is_empty() && !self.transformations && self.finalizer.is_none()
    }
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Applied {
    /// There was nothing to do.
    Nothing,
    /// The newest state, what is not as it was wanted, and what the API did not accept.
    Patched { newest: Newest, inconsistencies: Diff, refusals: Vec<ApiError> },
    /// The object is not there any more.
    Gone,
}

/// An object after the last patch. Usually, there is nothing left to do for it, and the most of it is never parsed.
#[derive(Debug)]
pub(crate) struct Newest {
    /// The whole object, or what matters of it after a patch.
    seen: Body,
    /// The text of the object, if only a part of it was looked at.
    unread: Option<Bytes>,
}

impl Newest {
    pub fn read(body: Body) -> Self {
        Self { seen: body, unread: None }
    }

    pub fn resource_version(&self) -> Option<&str> {
        self.seen.resource_version()
    }

    /// Under deletion with nothing that holds it: it will be gone in an instant.
    pub fn is_released(&self) -> bool {
        self.seen.deletion_timestamp().is_some() && self.seen.finalizers().next().is_none()
    }

    /// The JSON text.
    pub fn raw(&self) -> &[u8] {
        self.unread.as_deref().unwrap_or_else(|| self.seen.raw())
    }

    /// The whole of it.
    pub fn into_body(self) -> Result<Body, ApplyError> {
        match self.unread {
            Some(text) => Ok(Body::parse(text.as_ref())?),
            None => Ok(self.seen),
        }
    }
}

/// A change that was not made in full; to be tried again later.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub(crate) struct Incomplete {
    pub error: ApplyError,
    /// The newest body, if a part of the change was made.
    pub newest: Option<Body>,
}

/// Why a change could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("the answer to a patch cannot be read: {0}")]
    Answer(#[from] serde_json::Error),
    #[error("the object changes faster than it can be patched")]
    Conflicts,
    #[error("there is another object under the same name")]
    Replaced,
    #[error("the transformations of the patch have failed: {}", .0.message)]
    Transformation(FrontFailure),
}

impl ApplyError {
    /// The same change may be accepted later on.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Api(error) => matches!(Policy::of(error), Policy::Retry | Policy::Throttle),
            Self::Answer(_) | Self::Conflicts => true,
            Self::Replaced | Self::Transformation(_) => false,
        }
    }
}

/// Carries a change out.
pub(crate) async fn apply(
    means: Means<'_>,
    context: &Arc<CycleContext>,
    body: &Body,
    change: &Change,
) -> Result<Applied, Incomplete> {
    let mut target = Target::of(means, context, body);
    match target.apply(context, body, change).await {
        Ok(applied) => Ok(applied),
        Err(ApplyError::Replaced) => Ok(Applied::Gone),
        Err(ApplyError::Api(error)) if Policy::of(&error) == Policy::Gone => Ok(Applied::Gone),
        Err(error) => Err(Incomplete { error, newest: target.read().ok().flatten() }),
    }
}

/// The object, by its addresses.
struct Target<'a> {
    means: Means<'a>,
    path: String,
    /// None where the status is an ordinary field.
    status_path: Option<String>,
    /// None for the few virtual kinds without it.
    uid: Option<String>,
    finalizer_setting: &'a str,
    /// The object is let go by this change.
    is_released: bool,
    last_answer: Option<Answer>,
}

/// The object after a patch. Where another patch follows, nobody looks at it.
enum Answer {
    Unread(Bytes),
    Read(Body),
}

impl<'a> Target<'a> {
    fn of(means: Means<'a>, context: &'a CycleContext, body: &Body) -> Self {
        let resource = &context.resource;
        let (namespace, name) = (body.namespace(), body.name());
        Self {
            means,
            path: resource.path(namespace, name, None),
            status_path: resource.has_status_subresource().then(|| resource.path(namespace, name, Some("status"))),
            uid: body.uid().map(str::to_owned),
            finalizer_setting: &context.finalizer,
            is_released: false,
            last_answer: None,
        }
    }

    async fn apply(
        &mut self,
        context: &Arc<CycleContext>,
        body: &Body,
        change: &Change,
    ) -> Result<Applied, ApplyError> {
        let Change { wanted, stored, stored_by_user, transformations, finalizer, is_last } = change;
        let (finalizer, is_last) = (*finalizer, *is_last);
        self.is_released = finalizer == Some(FinalizerChange::Remove);
        let mut refusals = Vec::new();
        let mut whole = wanted.clone().unwrap_or_else(|| json!({}));
        if *transformations && !stored_by_user {
            // The record goes along with the transformations.
            self.merge(&whole, Some(&json!({})), &mut refusals).await?;
            if self.transform(context, body, Some(stored), finalizer, &mut refusals).await?.is_none() {
                self.merge(stored.as_value(), None, &mut refusals).await?;
                self.change_finalizer(body, finalizer).await?;
            }
            combine(&mut whole, stored.as_value());
        } else {
            if *transformations {
                // What the user's storage has written cannot be told from what else the user's code wants.
                self.transform(context, body, None, None, &mut refusals).await?;
            }
            combine(&mut whole, stored.as_value());
            let spare = (!stored_by_user).then_some(stored.as_value());
            self.merge(&whole, spare, &mut refusals).await?;
            self.change_finalizer(body, finalizer).await?;
        }
        if !refusals.is_empty() {
            whole = stored.as_value().clone();
        }
        if !is_last {
            self.read()?;
        }
        let newest = match self.last_answer.take() {
            None if refusals.is_empty() => return Ok(Applied::Nothing),
            None => {
                let newest = Newest::read(body.clone());
                return Ok(Applied::Patched { newest, inconsistencies: Diff::default(), refusals });
            }
            Some(Answer::Read(body)) => Newest::read(body),
            Some(Answer::Unread(text)) => {
                let seen = Body::from_value(parse_partial(&text, &whole)?);
                self.check_uid(&seen)?;
                Newest { seen, unread: Some(text) }
            }
        };
        let metadata = whole.get("metadata");
        let has_managed_fields = metadata.is_some_and(|metadata| metadata.get("managedFields").is_some());
        let seen = if has_managed_fields { newest.seen.value() } else { newest.seen.without_managed_fields() };
        let inconsistencies = inconsistencies(&whole, seen);
        Ok(Applied::Patched { newest, inconsistencies, refusals })
    }

    /// Sends the data of a patch: to the status first, if that is a subresource.
    ///
    /// What the API does not accept, it will not accept later either. What the framework has to remember must
    /// not depend on it, or else the handlers would run again and again: that is the spare patch.
    async fn merge(
        &mut self,
        whole: &Value,
        spare: Option<&Value>,
        refusals: &mut Vec<ApiError>,
    ) -> Result<(), ApplyError> {
        let (main, status) = self.parts_of(whole);
        let (spare_main, spare_status) = spare.map(|spare| self.parts_of(spare)).unwrap_or_default();
        if let (Some(path), Some(part)) = (self.status_path.clone(), status) {
            match self.merge_part(&path, part, spare.is_some(), spare_status, refusals).await {
                Err(ApplyError::Api(error @ ApiError::NotFound(_))) => {
                    // Either the object is not there any more, or only its status is not a subresource any more.
                    self.look().await?;
                    refusals.push(error);
                }
                // Nobody will look at the status of an object that is let go: nobody has to wait for it.
                Err(ApplyError::Api(error @ ApiError::Forbidden(_))) if self.is_released => refusals.push(error),
                merged => merged?,
            }
        }
        if let Some(part) = main {
            let path = self.path.clone();
            self.merge_part(&path, part, spare.is_some(), spare_main, refusals).await?;
        }
        Ok(())
    }

    async fn merge_part(
        &mut self,
        path: &str,
        part: Value,
        is_separable: bool,
        spare: Option<Value>,
        refusals: &mut Vec<ApiError>,
    ) -> Result<(), ApplyError> {
        match self.send_merge(path, &part).await {
            Err(ApplyError::Api(error))
                if is_separable && Policy::of(&error) == Policy::Reject && spare.as_ref() != Some(&part) =>
            {
                refusals.push(error);
                match spare {
                    Some(spare) => self.send_merge(path, &spare).await,
                    None => Ok(()),
                }
            }
            sent => sent,
        }
    }

    /// What goes to the object itself, and what goes to the subresource of its status.
    fn parts_of(&self, patch: &Value) -> (Option<Value>, Option<Value>) {
        let patch = MergePatch::from(patch.as_object().cloned().unwrap_or_default());
        match &self.status_path {
            Some(_) => patch.split_status(),
            None if patch.is_empty() => (None, None),
            None => (Some(patch.into_value()), None),
        }
    }

    /// Applies the user's transformations, together with what is to be stored and the finalizer. None if the API has
    /// rejected what they came to: then nothing of it was written.
    async fn transform(
        &mut self,
        context: &Arc<CycleContext>,
        body: &Body,
        stored: Option<&MergePatch>,
        finalizer: Option<FinalizerChange>,
        refusals: &mut Vec<ApiError>,
    ) -> Result<Option<()>, ApplyError> {
        let mut base = self.read()?.unwrap_or_else(|| body.clone());
        let status_is_last = stored.is_some_and(|stored| self.parts_of(stored.as_value()).0.is_none());
        for _ in 0..CONFLICTS_AT_MOST {
            let transforming = self.means.front.transform(Arc::clone(context), base.clone());
            let mut wanted = transforming.await.map_err(ApplyError::Transformation)?;
            if let Some(stored) = stored {
                stored.apply_to(&mut wanted);
            }
            change_finalizer(&mut wanted, finalizer, self.finalizer_setting);
            let replaced = self.replace(&base, &wanted, status_is_last).await;
            match self.newer_than(&base, replaced).await {
                Ok(Some(fresh)) => base = fresh,
                Ok(None) => return Ok(Some(())),
                Err(ApplyError::Api(error)) if Policy::of(&error) == Policy::Reject => {
                    refusals.push(error);
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        Err(ApplyError::Conflicts)
    }

    /// Changes the finalizer alone.
    async fn change_finalizer(&mut self, body: &Body, change: Option<FinalizerChange>) -> Result<(), ApplyError> {
        if change.is_none() {
            return Ok(());
        }
        let mut base = self.read()?.unwrap_or_else(|| body.clone());
        for _ in 0..CONFLICTS_AT_MOST {
            let Some(steps) = finalizer_steps(base.without_managed_fields(), change, self.finalizer_setting) else {
                return Ok(());
            };
            let path = self.path.clone();
            let sent = self.send(&path, PatchKind::Json, &json!(steps)).await;
            match self.newer_than(&base, sent).await? {
                Some(fresh) => base = fresh,
                None => return Ok(()),
            }
        }
        Err(ApplyError::Conflicts)
    }

    /// The newest body, if a patch that tests the version was made for an older one; None if the patch was applied.
    async fn newer_than(&mut self, base: &Body, sent: Result<(), ApplyError>) -> Result<Option<Body>, ApplyError> {
        let error = match sent {
            Ok(()) => return Ok(None),
            Err(ApplyError::Api(error)) => error,
            Err(error) => return Err(error),
        };
        let may_be_the_content = match &error {
            ApiError::Conflict(_) => false,
            ApiError::Unclear { .. } => {
                self.log_failure(1, &error);
                false
            }
            ApiError::Unprocessable(_) => true,
            _ => return Err(error.into()),
        };
        let fresh = self.look().await?;
        if may_be_the_content && fresh.resource_version() == base.resource_version() {
            // Not the version was in the way, but the content: trying again is of no use.
            return Err(error.into());
        }
        Ok(Some(fresh))
    }

    /// Makes the object what is wanted; the record is in what goes last.
    async fn replace(&mut self, base: &Body, wanted: &Value, status_is_last: bool) -> Result<(), ApplyError> {
        let operations = json_patch(base.value(), wanted);
        let (main, status) = match &self.status_path {
            None => (operations, Vec::new()),
            Some(_) => split_status_operations(operations),
        };
        let mut tested = base.clone();
        let mut parts = [(self.status_path.clone(), status), (Some(self.path.clone()), main)];
        if status_is_last {
            parts.reverse();
        }
        for (path, operations) in parts {
            let (Some(path), false) = (path, operations.is_empty()) else { continue };
            let operations = json!(with_version_test(tested.without_managed_fields(), operations));
            self.send(&path, PatchKind::Json, &operations).await?;
            tested = self.read()?.unwrap_or(tested);
        }
        Ok(())
    }

    /// The object as it is, without the permission to get it.
    async fn look(&mut self) -> Result<Body, ApplyError> {
        let path = self.path.clone();
        self.send_merge(&path, &json!({})).await?;
        self.read()?.ok_or(ApplyError::Replaced)
    }

    /// Sends a merge patch; it does no harm if it is applied twice.
    async fn send_merge(&mut self, path: &str, patch: &Value) -> Result<(), ApplyError> {
        let is_bound_to_a_version =
            patch.get("metadata").is_some_and(|metadata| metadata.get("resourceVersion").is_some());
        let patch = self.with_uid(patch);
        for (number, pause) in self.means.backoffs.iter().enumerate() {
            let sent = self.send(path, PatchKind::Merge, &patch).await;
            match &sent {
                // The API retries it on newer versions by itself, but not for ever.
                Err(ApplyError::Api(ApiError::Conflict(_))) if is_bound_to_a_version => return sent,
                Err(ApplyError::Api(error)) if Policy::of(error) == Policy::Retry => {
                    self.log_failure(number + 1, error);
                }
                _ => return sent,
            }
            self.means.clock.sleep(crate::seconds(*pause)).await;
        }
        let sent = self.send(path, PatchKind::Merge, &patch).await;
        if let Err(ApplyError::Api(error @ ApiError::Unclear { .. })) = &sent {
            self.log_failure(self.means.backoffs.len() + 1, error);
        }
        sent
    }

    /// The request layer logs what it retries itself; this is for what it leaves to us.
    fn log_failure(&self, attempt: usize, error: &ApiError) {
        let count = self.means.backoffs.len() + 1;
        let next = if attempt < count { "will retry" } else { "escalating" };
        let error = match error {
            ApiError::Unclear { reason } => reason.clone(),
            error => error.to_string(),
        };
        self.means.log.error(TARGET, format!("Request attempt #{attempt}/{count} failed; {next}: {error}"));
    }

    fn with_uid(&self, patch: &Value) -> Value {
        let mut patch = patch.clone();
        if let (Some(uid), Value::Object(fields)) = (&self.uid, &mut patch)
            && let Value::Object(metadata) = fields.entry("metadata").or_insert_with(|| Map::new().into())
        {
            metadata.insert("uid".to_owned(), Value::from(uid.as_str()));
        }
        patch
    }

    async fn send(&mut self, path: &str, kind: PatchKind, patch: &Value) -> Result<(), ApplyError> {
        let answer = match self.means.api.patch(path, kind, Bytes::from(serde_json::to_vec(patch)?)).await {
            Err(ApiError::Unprocessable(refusal)) if is_about_uid(refusal.details.as_ref()) => {
                return Err(ApplyError::Replaced);
            }
            answer => answer?,
        };
        self.last_answer = Some(Answer::Unread(answer));
        Ok(())
    }

    /// The body in the last answer, if there was any.
    fn read(&mut self) -> Result<Option<Body>, ApplyError> {
        let body = match &self.last_answer {
            None => return Ok(None),
            Some(Answer::Read(body)) => return Ok(Some(body.clone())),
            Some(Answer::Unread(answer)) => Body::parse(answer.as_ref())?,
        };
        self.check_uid(&body)?;
        self.last_answer = Some(Answer::Read(body.clone()));
        Ok(Some(body))
    }

    /// The status of custom resources is patched whatever the uid in the patch is.
    fn check_uid(&self, body: &Body) -> Result<(), ApplyError> {
        match self.uid.is_some() && body.uid() != self.uid.as_deref() {
            true => Err(ApplyError::Replaced),
            false => Ok(()),
        }
    }
}

/// The finalizer alone needs no comparison of whole objects.
fn finalizer_steps(body: &Value, change: Option<FinalizerChange>, finalizer: &str) -> Option<Vec<PatchOperation>> {
    match change {
        Some(FinalizerChange::Add) if !finalizers::is_deletion_ongoing(body) => {
            finalizers::block_deletion(body, finalizer)
        }
        Some(FinalizerChange::Remove) => finalizers::allow_deletion(body, finalizer),
        Some(FinalizerChange::Add) | None => None,
    }
}

/// The finalizer along with other changes of the object.
fn change_finalizer(wanted: &mut Value, change: Option<FinalizerChange>, finalizer: &str) {
    match change {
        Some(FinalizerChange::Add) if !finalizers::is_deletion_ongoing(wanted) => {
            finalizers::add_finalizer(wanted, finalizer);
        }
        Some(FinalizerChange::Remove) => finalizers::remove_finalizer(wanted, finalizer),
        Some(FinalizerChange::Add) | None => {}
    }
}

/// What an error of a patch means; see the table above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    /// The object is not there any more.
    Gone,
    /// The content is at fault, and will be later on, too.
    Reject,
    /// It may help to send it again, at once or soon.
    Retry,
    /// Only time can help.
    Throttle,
}

impl Policy {
    fn of(error: &ApiError) -> Self {
        match error {
            ApiError::NotFound(_) => Self::Gone,
            ApiError::Unprocessable(_) | ApiError::Client(_) => Self::Reject,
            ApiError::Conflict(_) | ApiError::Unclear { .. } => Self::Retry,
            // Those of the server and of the network were retried by the request layer as far as that is safe.
            ApiError::Unauthorized(_)
            | ApiError::Forbidden(_)
            | ApiError::Gone(_)
            | ApiError::TooManyRequests(_)
            | ApiError::Server(_)
            | ApiError::Timeout { .. }
            | ApiError::Connecting { .. }
            | ApiError::Connection { .. }
            | ApiError::Decoding { .. }
            | ApiError::Building { .. } => Self::Throttle,
        }
    }
}

/// The uid is said to be immutable: the one in the patch is not that of the object.
fn is_about_uid(details: Option<&Value>) -> bool {
    let causes = details.and_then(|details| details.get("causes")).and_then(Value::as_array);
    causes.is_some_and(|causes| causes.iter().any(|cause| cause["field"] == "metadata.uid"))
}
