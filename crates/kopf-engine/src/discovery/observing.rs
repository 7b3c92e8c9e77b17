//! The streams of CRDs and namespaces, and what discovery learns from them.
//!
//! A changed CRD schedules a scan of its group. Without the permissions, discovery goes on with what it knows.

use std::sync::Arc;

use kopf_reaction::{EventType, Resource};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::definitions::agrees;
use super::namespaces::NamespaceObject;
use super::schema::{Definition, DefinitionStage, decode_definition};
use super::{Discovery, TARGET};
use crate::stream::{OnForbidden, StreamHealth, StreamItem, WatchStream};

/// Events of CRDs and namespaces that wait for discovery.
const QUEUE_SIZE: usize = 100;

const NO_DEFINITIONS: &str = "Not enough permissions to watch for resources: \
    changes (creation/deletion/updates) will not be noticed; \
    the resources are only refreshed on operator restarts.";

const NO_NAMESPACES: &str = "Not enough permissions to watch for namespaces: \
    changes (deletion/creation) will not be noticed; \
    the namespaces are only refreshed on operator restarts.";

impl Discovery {
    pub(super) fn observe_definitions(&mut self, streams: &mut JoinSet<()>) -> Option<mpsc::Receiver<StreamItem>> {
        if !self.observing || self.wanted.is_empty() {
            self.view.definitions_visibility.set_known();
            return None;
        }
        let resource = Resource {
            group: "apiextensions.k8s.io".into(),
            version: "v1".into(),
            plural: "customresourcedefinitions".into(),
            kind: "CustomResourceDefinition".into(),
            preferred: true,
            ..Resource::default()
        };
        Some(self.observe(streams, resource, Arc::clone(&self.healths[0])))
    }

    pub(super) fn observe_namespaces(&mut self, streams: &mut JoinSet<()>) -> Option<mpsc::Receiver<StreamItem>> {
        if self.wanted.clusterwide || !self.observing {
            self.view.namespaces.assume(self.exact_namespaces());
            self.view.namespaces_visibility.set_known();
            return None;
        }
        let resource = Resource {
            version: "v1".into(),
            plural: "namespaces".into(),
            kind: "Namespace".into(),
            preferred: true,
            ..Resource::default()
        };
        Some(self.observe(streams, resource, Arc::clone(&self.healths[1])))
    }

    fn observe(
        &self,
        streams: &mut JoinSet<()>,
        resource: Resource,
        health: Arc<StreamHealth>,
    ) -> mpsc::Receiver<StreamItem> {
        let (sender, receiver) = mpsc::channel(QUEUE_SIZE);
        let stream = WatchStream {
            api: self.api.clone(),
            settings: Arc::clone(&self.watching),
            clock: self.clock.clone(),
            log: self.log.clone(),
            resource: Arc::new(resource),
            namespace: None,
            health,
            on_forbidden: OnForbidden::Notify,
            selector_callbacks: Arc::clone(&self.selector_callbacks),
        };
        streams.spawn(stream.run(sender));
        receiver
    }

    /// Handles an item of the stream of CRDs, and all that have come meanwhile.
    pub(super) fn handle_definitions(&mut self, item: StreamItem, receiver: &mut Option<mpsc::Receiver<StreamItem>>) {
        let mut next = Some(item);
        while let Some(item) = next {
            match item {
                StreamItem::ListStarted => self.view.definitions.listing_started(),
                StreamItem::Rewound => {}
                StreamItem::ListDone => {
                    for name in self.view.definitions.listing_done() {
                        self.forget_definition(&name);
                    }
                    self.view.definitions_visibility.set_known();
                }
                StreamItem::Forbidden { .. } => {
                    if self.view.definitions_visibility.set_forbidden() {
                        self.log.warn(TARGET, NO_DEFINITIONS.to_owned());
                    }
                }
                StreamItem::Event { event, raw } => match decode_definition(&raw) {
                    Ok(definition) if event == EventType::Deleted => self.forget_definition(&definition.name),
                    Ok(definition) => self.learn_definition(event, definition),
                    Err(error) => self.log.warn(TARGET, format!("Ignoring a CRD that cannot be read: {error}")),
                },
            }
            next = receiver.as_mut().and_then(|receiver| receiver.try_recv().ok());
        }
    }

    fn learn_definition(&mut self, event: EventType, definition: Definition) {
        if event == EventType::Listed {
            self.view.definitions.list(&definition.name);
        }
        if !self.wanted_groups().is_none_or(|groups| groups.contains(&definition.group)) {
            return;
        }
        self.schemas.learn(&definition);
        // The first scan has covered the listed CRDs, too; only a difference is worth another scan.
        let dying = definition.stage == DefinitionStage::Terminating;
        if event != EventType::Listed || dying || !agrees(&definition, &self.view.scanned) {
            self.schedule(&definition.group);
        }
        self.view.definitions.learn(definition);
    }

    fn forget_definition(&mut self, name: &str) {
        let Some(definition) = self.view.definitions.forget(name) else { return };
        self.schemas.forget(&definition.group, &definition.plural);
        self.schedule(&definition.group);
    }

    fn schedule(&mut self, group: &str) {
        self.view.rescans.insert(group.to_owned(), (0, self.clock.instant()));
    }

    /// Handles an item of the stream of namespaces, and all that have come meanwhile.
    pub(super) async fn handle_namespaces(
        &mut self,
        item: StreamItem,
        receiver: &mut Option<mpsc::Receiver<StreamItem>>,
    ) {
        let mut next = Some(item);
        while let Some(item) = next {
            match item {
                StreamItem::ListStarted => self.view.namespaces.listing_started(),
                StreamItem::Rewound => {}
                StreamItem::ListDone => {
                    self.view.namespaces.listing_done();
                    self.view.namespaces_visibility.set_known();
                }
                StreamItem::Forbidden { listing } => self.assume_namespaces(listing),
                StreamItem::Event { event, raw } => match serde_json::from_slice::<NamespaceObject>(&raw) {
                    Ok(object) => {
                        let matching = self.is_wanted_namespace(object.name()).await;
                        self.view.namespaces.handle(event, &object, matching);
                    }
                    Err(error) => self.log.warn(TARGET, format!("Ignoring a namespace that cannot be read: {error}")),
                },
            }
            next = receiver.as_mut().and_then(|receiver| receiver.try_recv().ok());
        }
    }

    /// Goes on with the names in the patterns that are no globs, and logs it once.
    fn assume_namespaces(&mut self, listing: bool) {
        let names: Vec<Arc<str>> = self.exact_namespaces();
        if listing {
            self.view.namespaces.assume(names.iter().cloned());
        }
        if !self.view.namespaces_visibility.set_forbidden() {
            return;
        }
        if listing {
            let names: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
            let names = names.join(", ");
            let text = format!(
                "Not enough permissions to list namespaces. \
                 Falling back to a list of namespaces which are assumed to exist: {{{names}}}"
            );
            self.log.warn(TARGET, text);
        } else {
            self.log.warn(TARGET, NO_NAMESPACES.to_owned());
        }
    }
}
