//! 6. From what a cycle came to, to the object in the cluster: few patches, each answer is the newest body.
//!
//! The status goes first, where it is a subresource: if the operator dies before the record that the change
//! was handled is written, the handler runs again instead of losing its result. Finalizers and the
//! user's transformations go by JSON patches which test the version. An answer that does not tell whether
//! the patch was applied is resolved by an empty patch, which shows the object as it is.

use std::sync::Arc;

use bytes::Bytes;
use kopf_object::{
    Body, Diff, MergePatch, combine, finalizers, inconsistencies, json_patch, split_status_operations,
    with_version_test,
};
use kopf_reaction::FinalizerChange;
use serde_json::{Value, json};

use crate::invoke::{CycleContext, Front, FrontFailure};
use crate::{Api, ApiError, PatchKind};

/// Tries of one JSON patch on ever newer bodies, before it counts as failed.
const CONFLICTS_AT_MOST: usize = 10;

/// What is to be changed.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// What the user's code wants.
    pub wanted: Option<Value>,
    /// What the framework stores.
    pub stored: MergePatch,
    /// There are transformations of the user.
    pub transformations: bool,
    pub finalizer: Option<FinalizerChange>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Applied {
    /// There was nothing to do.
    Nothing,
    /// The newest body, and what is not as it was wanted.
    Patched { body: Body, inconsistencies: Diff, refusals: Vec<ApiError> },
    /// The object is not there any more.
    Gone,
}

/// Why a change could not be made; to be tried again later.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("the answer to a patch cannot be read: {0}")]
    Answer(#[from] serde_json::Error),
    #[error("the object changes faster than it can be patched")]
    Conflicts,
    #[error("the transformations of the patch have failed: {}", .0.message)]
    Transformation(FrontFailure),
}

/// Carries a change out.
pub(crate) async fn apply(
    api: &Api,
    front: &Arc<dyn Front>,
    context: &Arc<CycleContext>,
    body: &Body,
    change: Change,
) -> Result<Applied, ApplyError> {
    let target = Target::of(api, context, body);
    match target.apply(front, context, body, change).await {
        Err(ApplyError::Api(ApiError::NotFound(_))) => Ok(Applied::Gone),
        applied => applied,
    }
}

/// The object, by its addresses.
struct Target<'a> {
    api: &'a Api,
    path: String,
    /// None where the status is an ordinary field.
    status_path: Option<String>,
    finalizer_setting: &'a str,
}

impl<'a> Target<'a> {
    fn of(api: &'a Api, context: &'a CycleContext, body: &Body) -> Self {
        let resource = &context.resource;
        let (namespace, name) = (body.namespace(), body.name());
        Self {
            api,
            path: resource.path(namespace, name, None),
            status_path: resource.has_status_subresource().then(|| resource.path(namespace, name, Some("status"))),
            finalizer_setting: &context.finalizer,
        }
    }

    async fn apply(
        &self,
        front: &Arc<dyn Front>,
        context: &Arc<CycleContext>,
        body: &Body,
        change: Change,
    ) -> Result<Applied, ApplyError> {
        let Change { wanted, stored, transformations, finalizer } = change;
        let mut refusals = Vec::new();
        let mut whole = wanted.unwrap_or_else(|| json!({}));
        let has_wishes = whole.as_object().is_some_and(|fields| !fields.is_empty());
        combine(&mut whole, stored.as_value());

        let mut newest: Option<Body> = None;
        match self.merge(&whole).await {
            Ok(merged) => newest = merged,
            // What the API does not accept, it will not accept later either. What the framework has to
            // remember must not depend on it, or else the handlers would run again and again.
            Err(ApplyError::Api(error)) if has_wishes && is_refusal(&error) => {
                refusals.push(error);
                newest = self.merge(stored.as_value()).await?.or(newest);
                whole = stored.into_value();
            }
            Err(error) => return Err(error),
        }
        let base = newest.clone().unwrap_or_else(|| body.clone());
        if transformations || finalizer.is_some() {
            newest = self.transform(front, context, base, transformations, finalizer).await?.or(newest);
        }
        Ok(match newest {
            None if refusals.is_empty() => Applied::Nothing,
            None => Applied::Patched { body: body.clone(), inconsistencies: Diff::default(), refusals },
            Some(body) => {
                let inconsistencies = inconsistencies(&whole, body.value());
                Applied::Patched { body, inconsistencies, refusals }
            }
        })
    }

    /// Sends the data of a patch: to the status first, if that is a subresource.
    async fn merge(&self, patch: &Value) -> Result<Option<Body>, ApplyError> {
        let mut newest = None;
        let (main, status) = match &self.status_path {
            None => (Some(patch.clone()), None),
            Some(_) => MergePatch::from(patch.as_object().cloned().unwrap_or_default()).split_status(),
        };
        if let (Some(path), Some(status)) = (&self.status_path, status) {
            newest = Some(self.send(path, PatchKind::Merge, &status).await?);
        }
        if let Some(main) = main.filter(|main| main.as_object().is_some_and(|fields| !fields.is_empty())) {
            newest = Some(self.send(&self.path, PatchKind::Merge, &main).await?);
        }
        Ok(newest)
    }

    /// Transforms the object as it is, again and again if it changes meanwhile.
    async fn transform(
        &self,
        front: &Arc<dyn Front>,
        context: &Arc<CycleContext>,
        mut base: Body,
        transformations: bool,
        finalizer: Option<FinalizerChange>,
    ) -> Result<Option<Body>, ApplyError> {
        for _ in 0..CONFLICTS_AT_MOST {
            let mut wanted = if transformations {
                front.transform(Arc::clone(context), base.clone()).await.map_err(ApplyError::Transformation)?
            } else {
                base.value().clone()
            };
            match finalizer {
                Some(FinalizerChange::Add) if !finalizers::is_deletion_ongoing(&wanted) => {
                    finalizers::add_finalizer(&mut wanted, self.finalizer_setting);
                }
                Some(FinalizerChange::Remove) => {
                    finalizers::remove_finalizer(&mut wanted, self.finalizer_setting);
                }
                Some(FinalizerChange::Add) | None => {}
            }
            match self.replace(&base, &wanted).await {
                Ok(newest) => return Ok(newest),
                Err(ApplyError::Api(ApiError::Conflict(_) | ApiError::Unprocessable(_) | ApiError::Unclear { .. })) => {
                    let fresh = self.look().await?;
                    if fresh.resource_version() == base.resource_version() {
                        // Not the version was in the way, but the content: trying again is of no use.
                        return self.replace(&fresh, &wanted).await;
                    }
                    base = fresh;
                }
                Err(error) => return Err(error),
            }
        }
        Err(ApplyError::Conflicts)
    }

    async fn replace(&self, base: &Body, wanted: &Value) -> Result<Option<Body>, ApplyError> {
        let operations = json_patch(base.value(), wanted);
        let (main, status) = match &self.status_path {
            None => (operations, Vec::new()),
            Some(_) => split_status_operations(operations),
        };
        let mut newest: Option<Body> = None;
        let parts = [(Some(&self.path), main), (self.status_path.as_ref(), status)];
        for (path, operations) in parts {
            let (Some(path), false) = (path, operations.is_empty()) else { continue };
            let tested = newest.as_ref().unwrap_or(base);
            let operations = json!(with_version_test(tested.value(), operations));
            newest = Some(self.send_once(path, PatchKind::Json, &operations).await?);
        }
        Ok(newest)
    }

    /// The object as it is, without the permission to get it.
    async fn look(&self) -> Result<Body, ApplyError> {
        self.send(&self.path, PatchKind::Merge, &json!({})).await
    }

    /// Sends a patch that does no harm if it is applied twice.
    async fn send(&self, path: &str, kind: PatchKind, patch: &Value) -> Result<Body, ApplyError> {
        match self.send_once(path, kind, patch).await {
            Err(ApplyError::Api(ApiError::Unclear { .. })) => self.send_once(path, kind, patch).await,
            sent => sent,
        }
    }

    async fn send_once(&self, path: &str, kind: PatchKind, patch: &Value) -> Result<Body, ApplyError> {
        let answer = self.api.patch(path, kind, Bytes::from(serde_json::to_vec(patch)?)).await?;
        Ok(Body::parse(answer.as_ref())?)
    }
}

/// The content of the patch is at fault, not the time or the connection.
fn is_refusal(error: &ApiError) -> bool {
    matches!(error, ApiError::Unprocessable(_) | ApiError::Client(_) | ApiError::Forbidden(_))
}
