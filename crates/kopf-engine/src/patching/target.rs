//! One object that is being patched: which requests are sent, in which order.

use std::sync::Arc;

use bytes::Bytes;
use kopf_object::{
    Body, Diff, MergePatch, PatchOperation, combine, finalizers, inconsistencies, json_patch, parse_partial,
    split_status_operations, with_version_test,
};
use kopf_reaction::FinalizerChange;
use serde_json::{Map, Value, json};

use super::policy::ErrorPolicy;
use super::{Applied, Latest, ObjectPatch, PatchError};
use crate::front::{CycleContext, Front};
use crate::{Api, ApiError, Clock, Log, PatchKind, Settings};

const TARGET: &str = "kopf.engine.apply";

/// Attempts of one JSON patch on ever newer bodies, before it counts as failed.
const CONFLICTS_AT_MOST: usize = 10;

/// What patches are sent with.
pub(crate) struct PatchDeps {
    pub api: Api,
    pub front: Arc<dyn Front>,
    pub clock: Clock,
    pub log: Log,
    pub settings: Arc<Settings>,
}

impl PatchDeps {
    /// The pauses between the attempts of a patch whose answers are unclear, in seconds.
    fn backoffs(&self) -> &[f64] {
        &self.settings.networking.error_backoffs
    }
}

/// The object, by its addresses.
pub(super) struct PatchTarget<'a> {
    deps: &'a PatchDeps,
    path: String,
    /// None where the status is an ordinary field.
    status_path: Option<String>,
    /// None for the few virtual kinds without it.
    uid: Option<String>,
    finalizer_setting: &'a str,
    /// The object is let go by this change.
    is_released: bool,
    last_answer: Option<PatchAnswer>,
}

/// The object after a patch. Where another patch follows, nobody looks at it.
enum PatchAnswer {
    Unread(Bytes),
    Read(Body),
}

impl<'a> PatchTarget<'a> {
    pub(super) fn of(deps: &'a PatchDeps, context: &'a CycleContext, body: &Body) -> Self {
        let resource = &context.resource;
        let (namespace, name) = (body.namespace(), body.name());
        Self {
            deps,
            path: resource.path(namespace, name, None),
            status_path: resource.has_status_subresource().then(|| resource.path(namespace, name, Some("status"))),
            uid: body.uid().map(str::to_owned),
            finalizer_setting: &context.finalizer,
            is_released: false,
            last_answer: None,
        }
    }

    pub(super) async fn apply(
        &mut self,
        context: &Arc<CycleContext>,
        body: &Body,
        change: &ObjectPatch,
    ) -> Result<Applied, PatchError> {
        let ObjectPatch { wanted, stored, stored_by_user, transformations, finalizer, is_last } = change;
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
                // What the user's storage has written cannot be distinguished from what else the user's code wants.
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
        let latest = match self.last_answer.take() {
            None if refusals.is_empty() => return Ok(Applied::Nothing),
            None => {
                let latest = Latest::read(body.clone());
                return Ok(Applied::Patched { latest, inconsistencies: Diff::default(), refusals });
            }
            Some(PatchAnswer::Read(body)) => Latest::read(body),
            Some(PatchAnswer::Unread(text)) => {
                let seen = Body::from_value(parse_partial(&text, &whole)?);
                self.check_uid(&seen)?;
                Latest { seen, unread: Some(text) }
            }
        };
        let metadata = whole.get("metadata");
        let has_managed_fields = metadata.is_some_and(|metadata| metadata.get("managedFields").is_some());
        let seen = if has_managed_fields { latest.seen.value() } else { latest.seen.without_managed_fields() };
        let inconsistencies = inconsistencies(&whole, seen);
        Ok(Applied::Patched { latest, inconsistencies, refusals })
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
    ) -> Result<(), PatchError> {
        let (main, status) = self.parts_of(whole);
        let (spare_main, spare_status) = spare.map(|spare| self.parts_of(spare)).unwrap_or_default();
        if let (Some(path), Some(part)) = (self.status_path.clone(), status) {
            match self.merge_part(&path, part, spare.is_some(), spare_status, refusals).await {
                Err(PatchError::Api(error @ ApiError::NotFound(_))) => {
                    // Either the object is not there any more, or only its status is not a subresource any more.
                    self.look().await?;
                    refusals.push(error);
                }
                // Nobody will look at the status of an object that is let go: nobody has to wait for it.
                Err(PatchError::Api(error @ ApiError::Forbidden(_))) if self.is_released => refusals.push(error),
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
    ) -> Result<(), PatchError> {
        match self.send_merge(path, &part).await {
            Err(PatchError::Api(error))
                if is_separable && ErrorPolicy::of(&error) == ErrorPolicy::Reject && spare.as_ref() != Some(&part) =>
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
    ) -> Result<Option<()>, PatchError> {
        let mut base = self.read()?.unwrap_or_else(|| body.clone());
        let status_is_last = stored.is_some_and(|stored| self.parts_of(stored.as_value()).0.is_none());
        for _ in 0..CONFLICTS_AT_MOST {
            let transforming = self.deps.front.transform(Arc::clone(context), base.clone());
            let mut wanted = transforming.await.map_err(PatchError::Transformation)?;
            if let Some(stored) = stored {
                stored.apply_to(&mut wanted);
            }
            change_finalizer(&mut wanted, finalizer, self.finalizer_setting);
            let replaced = self.replace(&base, &wanted, status_is_last).await;
            match self.newer_than(&base, replaced).await {
                Ok(Some(fresh)) => base = fresh,
                Ok(None) => return Ok(Some(())),
                Err(PatchError::Api(error)) if ErrorPolicy::of(&error) == ErrorPolicy::Reject => {
                    refusals.push(error);
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        Err(PatchError::Conflicts)
    }

    /// Changes the finalizer alone.
    async fn change_finalizer(&mut self, body: &Body, change: Option<FinalizerChange>) -> Result<(), PatchError> {
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
        Err(PatchError::Conflicts)
    }

    /// The latest body, if a patch that tests the version was made for an older one; None if the patch was applied.
    async fn newer_than(&mut self, base: &Body, sent: Result<(), PatchError>) -> Result<Option<Body>, PatchError> {
        let error = match sent {
            Ok(()) => return Ok(None),
            Err(PatchError::Api(error)) => error,
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
    async fn replace(&mut self, base: &Body, wanted: &Value, status_is_last: bool) -> Result<(), PatchError> {
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

    /// The current object, also without the permission to get it: the answer to an empty patch.
    async fn look(&mut self) -> Result<Body, PatchError> {
        let path = self.path.clone();
        self.send_merge(&path, &json!({})).await?;
        self.read()?.ok_or(PatchError::Replaced)
    }

    /// Sends a merge patch; it does no harm if it is applied twice.
    async fn send_merge(&mut self, path: &str, patch: &Value) -> Result<(), PatchError> {
        let is_bound_to_a_version =
            patch.get("metadata").is_some_and(|metadata| metadata.get("resourceVersion").is_some());
        let patch = self.with_uid(patch);
        for (number, pause) in self.deps.backoffs().iter().enumerate() {
            let sent = self.send(path, PatchKind::Merge, &patch).await;
            match &sent {
                // The API retries it on newer versions by itself, but not for ever.
                Err(PatchError::Api(ApiError::Conflict(_))) if is_bound_to_a_version => return sent,
                Err(PatchError::Api(error)) if ErrorPolicy::of(error) == ErrorPolicy::Retry => {
                    self.log_failure(number + 1, error);
                }
                _ => return sent,
            }
            self.deps.clock.sleep(crate::seconds(*pause)).await;
        }
        let sent = self.send(path, PatchKind::Merge, &patch).await;
        if let Err(PatchError::Api(error @ ApiError::Unclear { .. })) = &sent {
            self.log_failure(self.deps.backoffs().len() + 1, error);
        }
        sent
    }

    /// The request layer logs what it retries itself; this is for what it leaves to us.
    fn log_failure(&self, attempt: usize, error: &ApiError) {
        let count = self.deps.backoffs().len() + 1;
        let next = if attempt < count { "will retry" } else { "escalating" };
        let error = match error {
            ApiError::Unclear { reason } => reason.clone(),
            error => error.to_string(),
        };
        self.deps.log.error(TARGET, format!("Request attempt #{attempt}/{count} failed; {next}: {error}"));
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

    async fn send(&mut self, path: &str, kind: PatchKind, patch: &Value) -> Result<(), PatchError> {
        let answer = match self.deps.api.patch(path, kind, Bytes::from(serde_json::to_vec(patch)?)).await {
            Err(ApiError::Unprocessable(refusal)) if is_about_uid(refusal.details.as_ref()) => {
                return Err(PatchError::Replaced);
            }
            answer => answer?,
        };
        self.last_answer = Some(PatchAnswer::Unread(answer));
        Ok(())
    }

    /// The body in the last answer, if there was any.
    pub(super) fn read(&mut self) -> Result<Option<Body>, PatchError> {
        let body = match &self.last_answer {
            None => return Ok(None),
            Some(PatchAnswer::Read(body)) => return Ok(Some(body.clone())),
            Some(PatchAnswer::Unread(answer)) => Body::parse(answer.as_ref())?,
        };
        self.check_uid(&body)?;
        self.last_answer = Some(PatchAnswer::Read(body.clone()));
        Ok(Some(body))
    }

    /// The status of custom resources is patched whatever the uid in the patch is.
    fn check_uid(&self, body: &Body) -> Result<(), PatchError> {
        match self.uid.is_some() && body.uid() != self.uid.as_deref() {
            true => Err(PatchError::Replaced),
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

/// The uid is said to be immutable: the one in the patch is not that of the object.
fn is_about_uid(details: Option<&Value>) -> bool {
    let causes = details.and_then(|details| details.get("causes")).and_then(Value::as_array);
    causes.is_some_and(|causes| causes.iter().any(|cause| cause["field"] == "metadata.uid"))
}
