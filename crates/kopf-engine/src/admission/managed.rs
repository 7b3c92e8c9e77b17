//! The configurations of webhooks in the cluster, kept up to date: with the address of the server, with the
//! resources that come and go, with the conversions of CRDs. Emptied at the end, but for what is persistent.
//!
//! The engine overwrites what an earlier run has left behind, even if no webhook is left to be configured. It leaves
//! alone what another operator has taken over meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kopf_reaction::{Handler, Resource, WebhookPlan, WebhookType, conversion_patch, webhook_url, webhooks};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::TARGET;
use crate::support::crashes::Crashes;
use crate::{Api, ApiError, Clock, Insight, Log, PatchKind};

/// How soon something is tried again that the cluster has refused, and how late at most.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The configurations of one operator.
pub(crate) struct Managed {
    pub api: Api,
    pub clock: Clock,
    pub log: Log,
    /// The name of the configurations.
    pub name: String,
    pub handlers: Vec<Arc<Handler>>,
    pub insights: watch::Receiver<Arc<Insight>>,
    pub client_configs: watch::Receiver<Option<Value>>,
    /// What is known of the objects in the cluster.
    pub state: State,
}

#[derive(Default)]
pub(crate) struct State {
    validating: Known,
    mutating: Known,
    /// The CRDs whose conversion is ours.
    definitions: BTreeSet<String>,
}

/// One configuration.
#[derive(Default)]
struct Known {
    /// It was created, or is known to be there.
    exists: bool,
    /// It was written to, whatever came of it.
    touched: bool,
    /// What was written last.
    written: Option<Vec<Value>>,
    /// The version that came of it.
    version: Option<String>,
}

/// The running management.
pub(crate) struct Managing {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Managing {
    pub(crate) fn start(mut managed: Managed, crashes: Crashes) -> Self {
        let (stop, stopped) = oneshot::channel();
        let title = format!("The configuration of the admission webhook {}", managed.name);
        let managing = async move {
            tokio::select! {
                () = managed.run() => {}
                _ = stopped => managed.clean().await,
            }
        };
        Self { stop, task: tokio::spawn(crashes.guard(title, managing)) }
    }

    /// Empties the configurations, and takes no longer for it than the limit.
    pub(crate) async fn finish(mut self, clock: &Clock, limit: Duration) {
        drop(self.stop);
        if clock.timeout(limit, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

impl Managed {
    /// Reconfigures on every change, for ever.
    async fn run(&mut self) {
        let mut pause = SHORTEST_PAUSE;
        loop {
            let config = self.client_configs.borrow_and_update().clone();
            let insight = Arc::clone(&self.insights.borrow_and_update());
            let done = !insight.ready || self.configure(config.as_ref(), &insight).await;
            let again = self.clock.sleep(if done { Duration::MAX } else { pause });
            pause = if done { SHORTEST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
            tokio::select! {
                Ok(()) = self.client_configs.changed() => {}
                Ok(()) = self.insights.changed() => {}
                () = again => {}
            }
        }
    }

    /// Whether all is as it should be now.
    async fn configure(&mut self, config: Option<&Value>, insight: &Insight) -> bool {
        let mut done = true;
        for webhook_type in [WebhookType::Validating, WebhookType::Mutating] {
            done &= self.configure_one(webhook_type, config, insight).await;
        }
        let Some(config) = config else { return done };
        for (definition, _) in self.definitions(insight) {
            done &= self.convert(&definition, Some(config)).await;
        }
        done
    }

    async fn configure_one(&mut self, webhook_type: WebhookType, config: Option<&Value>, insight: &Insight) -> bool {
        let needed = self.has_handlers(webhook_type);
        let webhooks = match config {
            Some(config) => self.webhooks(webhook_type, config, insight, false),
            // There is a server to come; until then, what is there may be what has to stay.
            None if needed => return true,
            None => Vec::new(),
        };
        if self.known(webhook_type).written.as_ref() == Some(&webhooks) {
            return true;
        }
        if needed && !self.known(webhook_type).exists && !self.create(webhook_type).await {
            return false;
        }
        if needed {
            let text = format!("Reconfiguring the {} webhook {}.", webhook_type.as_str(), self.name);
            self.log.info(TARGET, text);
        }
        match self.write(webhook_type, &webhooks, None).await {
            Ok(()) => true,
            // The configuration does not exist, or it is not ours to clean up.
            Err(ApiError::NotFound(_) | ApiError::Forbidden(_)) if !needed => {
                self.known(webhook_type).written = Some(webhooks);
                true
            }
            Err(error) => {
                self.known(webhook_type).exists = false;
                let text = format!("Cannot configure the {} webhook {}: {error}", webhook_type.as_str(), self.name);
                self.log.error(TARGET, text);
                false
            }
        }
    }

    async fn create(&mut self, webhook_type: WebhookType) -> bool {
        let body = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": if webhook_type == WebhookType::Validating {
                "ValidatingWebhookConfiguration"
            } else {
                "MutatingWebhookConfiguration"
            },
            "metadata": {"name": self.name},
        });
        let path = configurations(webhook_type).path(None, None, None);
        match self.api.post(&path, Bytes::from(body.to_string()), None).await {
            Ok(_) | Err(ApiError::Conflict(_)) => {
                self.known(webhook_type).exists = true;
                true
            }
            Err(error) => {
                let text = format!("Cannot create the {} webhook {}: {error}", webhook_type.as_str(), self.name);
                self.log.error(TARGET, text);
                false
            }
        }
    }

    /// Writes the webhooks; only over a certain version if it is given.
    async fn write(
        &mut self,
        webhook_type: WebhookType,
        webhooks: &[Value],
        version: Option<&str>,
    ) -> Result<(), ApiError> {
        let mut patch = json!({"webhooks": webhooks});
        if let Some(version) = version {
            patch["metadata"] = json!({"resourceVersion": version});
        }
        // The wait may be given up at the end of the operator: then it is not known what is there.
        *self.known(webhook_type) = Known { exists: true, touched: true, written: None, version: None };
        let answer = self.patch(webhook_type, &patch).await?;
        let known = self.known(webhook_type);
        known.written = Some(webhooks.to_vec());
        known.version = answer.pointer("/metadata/resourceVersion").and_then(Value::as_str).map(str::to_owned);
        Ok(())
    }

    async fn patch(&self, webhook_type: WebhookType, patch: &Value) -> Result<Value, ApiError> {
        let path = configurations(webhook_type).path(None, Some(&self.name), None);
        let body = self.api.patch(&path, PatchKind::Merge, Bytes::from(patch.to_string())).await?;
        let what = format!("PATCH {path}");
        serde_json::from_slice(&body).map_err(|source| ApiError::Decoding { what, source })
    }

    /// Empties what we have written, but for what is persistent.
    async fn clean(mut self) {
        let Some(config) = self.client_configs.borrow().clone() else { return };
        let insight = Arc::clone(&self.insights.borrow());
        for webhook_type in [WebhookType::Validating, WebhookType::Mutating] {
            if !self.known(webhook_type).touched || !self.has_handlers(webhook_type) {
                continue;
            }
            self.log.info(TARGET, format!("Cleaning up the admission webhook {}.", self.name));
            let webhooks = self.webhooks(webhook_type, &config, &insight, true);
            let version = self.known(webhook_type).version.clone();
            let mut cleaned = self.write(webhook_type, &webhooks, version.as_deref()).await;
            if matches!(cleaned, Err(ApiError::Conflict(_))) && self.is_ours(webhook_type, &config).await {
                cleaned = self.write(webhook_type, &webhooks, None).await;
            }
            match cleaned {
                Ok(()) | Err(ApiError::NotFound(_)) => {}
                Err(ApiError::Conflict(_)) => {
                    let text = format!("The admission webhook {} is managed by another one now.", self.name);
                    self.log.info(TARGET, text);
                }
                Err(error) => {
                    let text = format!("Cannot clean up the admission webhook {}: {error}", self.name);
                    self.log.error(TARGET, text);
                }
            }
        }
        for (definition, persistent) in self.definitions(&insight) {
            if !persistent && self.state.definitions.contains(&definition) {
                self.log.info(TARGET, format!("Cleaning up the conversion of {definition}."));
                self.convert(&definition, None).await;
            }
        }
    }

    /// Somebody has changed the configuration: whether it still leads to us.
    async fn is_ours(&self, webhook_type: WebhookType, config: &Value) -> bool {
        let Ok(current) = self.patch(webhook_type, &json!({})).await else { return false };
        let webhooks = current.get("webhooks").and_then(Value::as_array).cloned().unwrap_or_default();
        let address = |config: &Value| (config.get("url").cloned(), config.pointer("/service/path").cloned());
        let ours: Vec<_> = self.handlers.iter().map(|handler| address(&webhook_url(config, &handler.id))).collect();
        webhooks.iter().filter_map(|webhook| webhook.get("clientConfig")).any(|config| ours.contains(&address(config)))
    }

    /// Sets the conversion of a CRD, or takes it away. Whether that was possible.
    async fn convert(&mut self, definition: &str, config: Option<&Value>) -> bool {
        let path = definitions().path(None, Some(definition), None);
        let patch = conversion_patch(config, definition);
        match self.api.patch(&path, PatchKind::Merge, Bytes::from(patch.to_string())).await {
            Ok(_) => {
                if config.is_some() && self.state.definitions.insert(definition.to_owned()) {
                    self.log.info(TARGET, format!("Configured the conversion of {definition}."));
                }
                true
            }
            Err(ApiError::NotFound(_)) => true,
            Err(error) => {
                self.log.error(TARGET, format!("Cannot configure the conversion of {definition}: {error}"));
                false
            }
        }
    }

    /// The CRDs with conversions, and whether these are to stay.
    fn definitions(&self, insight: &Insight) -> Vec<(String, bool)> {
        let mut found: Vec<(String, bool)> = Vec::new();
        for (resource, indexes) in &insight.passive {
            let options = indexes.iter().filter_map(|index| self.handlers.get(*index)?.webhook.as_ref());
            let converting = options.filter(|options| options.webhook_type == WebhookType::Converting);
            let persistent: Vec<bool> = converting.map(|options| options.persistent).collect();
            let name = format!("{}.{}", resource.plural, resource.group);
            if !persistent.is_empty() && !found.iter().any(|(known, _)| *known == name) {
                found.push((name, persistent.contains(&true)));
            }
        }
        found
    }

    fn webhooks(
        &self,
        webhook_type: WebhookType,
        client_config: &Value,
        insight: &Insight,
        persistent_only: bool,
    ) -> Vec<Value> {
        // The insight counts selectors; the plan counts handlers by their own numbers.
        let numbers =
            |indexes: &[usize]| indexes.iter().filter_map(|index| Some(self.handlers.get(*index)?.index)).collect();
        let resources: Vec<(Arc<Resource>, Vec<usize>)> =
            insight.passive.iter().map(|(resource, indexes)| (Arc::clone(resource), numbers(indexes))).collect();
        let (handlers, name) = (self.handlers.as_slice(), self.name.as_str());
        webhooks(&WebhookPlan { webhook_type, handlers, resources: &resources, name, client_config }, persistent_only)
    }

    fn has_handlers(&self, webhook_type: WebhookType) -> bool {
        let options = self.handlers.iter().filter_map(|handler| handler.webhook.as_ref());
        options.into_iter().any(|options| options.webhook_type == webhook_type)
    }

    fn known(&mut self, webhook_type: WebhookType) -> &mut Known {
        match webhook_type {
            WebhookType::Validating => &mut self.state.validating,
            WebhookType::Mutating | WebhookType::Converting => &mut self.state.mutating,
        }
    }
}

fn configurations(webhook_type: WebhookType) -> Resource {
    Resource {
        group: "admissionregistration.k8s.io".into(),
        version: "v1".into(),
        plural: format!("{}webhookconfigurations", webhook_type.as_str()),
        ..Resource::default()
    }
}

fn definitions() -> Resource {
    Resource {
        group: "apiextensions.k8s.io".into(),
        version: "v1".into(),
        plural: "customresourcedefinitions".into(),
        ..Resource::default()
    }
}
