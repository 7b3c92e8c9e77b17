//! Which resources and namespaces there are to serve, kept up to date while the operator runs.
//!
//! The operator runs one [`Discovery`] and starts and stops its streams by the [`Insight`]s that
//! come out. The API is scanned once at the start; CRDs and namespaces are observed from then on,
//! as far as the permissions go, and a change of a CRD scans its group again.

mod insight;
mod scan;
mod definitions;
mod namespaces;
pub(crate) mod schema;
mod warnings;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kopf_reaction::{EventType, Resource, passively_matched, resolve_selectors};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::{Api, ApiError};
use crate::front::SelectorCallbacks;
use crate::settings::{Settings, WatchingSettings};
use crate::stream::{OnForbidden, StreamHealth, StreamItem, WatchStream};
use crate::support::clock::Clock;
use crate::support::log::Log;
use definitions::{DefinitionTracker, Scanned, agrees};
pub use insight::{Insight, Wanted};
pub use namespaces::NamespacePattern;
pub(crate) use namespaces::matches_globs;
use namespaces::{NamespaceObject, NamespaceTracker};
use scan::{Scan, scan_group, scan_groups};
use schema::{Definition, DefinitionStage, SchemaBook, decode_definition};
use warnings::LoggedWarnings;

const TARGET: &str = "kopf.engine.discovery";

/// Events of CRDs and namespaces that wait for us.
const QUEUE_SIZE: usize = 100;

/// The first insight waits so long for the schemas of CRDs, which may be slow or forbidden.
const PATIENCE_FOR_DEFINITIONS: Duration = Duration::from_secs(5);

/// How soon, and how often, a group is scanned again whose CRDs are not served as they say.
const SHORTEST_RESCAN_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_RESCAN_PAUSE: Duration = Duration::from_secs(2);
const RESCANS: u32 = 20;

/// How soon a broken part of the API is tried again.
const BROKEN_RESCAN_PAUSE: Duration = Duration::from_secs(60);

/// The observer, ready to [`run`](Self::run).
pub struct Discovery {
    api: Api,
    clock: Clock,
    log: Log,
    watching: Arc<WatchingSettings>,
    wanted: Wanted,
    selector_callbacks: Arc<dyn SelectorCallbacks>,
    schemas: SchemaBook,
    publisher: watch::Sender<Arc<Insight>>,
    /// Whether CRDs and namespaces are observed at all.
    observing: bool,
    /// The health of the streams of CRDs and of namespaces.
    healths: [Arc<StreamHealth>; 2],
    view: View,
}

/// Everything known about the cluster.
#[derive(Default)]
struct View {
    scanned: Scanned,
    namespaces_visibility: Visibility,
    definitions_visibility: Visibility,
    namespaces: NamespaceTracker,
    definitions: DefinitionTracker,
    /// Groups to be scanned again: how often it was done in vain, and when to do it.
    rescans: BTreeMap<String, (u32, Instant)>,
    /// Broken parts that were warned about.
    broken: BTreeSet<(String, String)>,
    warnings: LoggedWarnings,
}

/// How much is known of what there is to observe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Visibility {
    /// Nothing is known yet.
    #[default]
    Unknown,
    /// Known from a listing, or assumed without one.
    Known,
    /// Assumed, or known from an old listing: the permission is missing, and the log has said so.
    Forbidden,
}

impl Visibility {
    fn set_known(&mut self) {
        if *self == Self::Unknown {
            *self = Self::Known;
        }
    }

    /// Notes the missing permission. Returns whether it was not known before.
    fn set_forbidden(&mut self) -> bool {
        std::mem::replace(self, Self::Forbidden) != Self::Forbidden
    }
}

impl Discovery {
    /// The receiver gets an insight now (not ready), and one on every change.
    pub fn new(
        api: Api,
        settings: &Settings,
        clock: Clock,
        log: Log,
        wanted: Wanted,
        selector_callbacks: Arc<dyn SelectorCallbacks>,
    ) -> (Self, watch::Receiver<Arc<Insight>>) {
        let (publisher, receiver) = watch::channel(Arc::new(Insight::default()));
        let discovery = Self {
            api,
            clock,
            log,
            // The user's server-side filters for resources hold for ours as well.
            watching: Arc::new(settings.watching.clone()),
            wanted,
            selector_callbacks,
            schemas: SchemaBook::default(),
            publisher,
            observing: !settings.scanning.disabled,
            healths: Default::default(),
            view: View::default(),
        };
        (discovery, receiver)
    }

    /// The schemas of the observed CRDs, filled while the discovery runs.
    pub fn schemas(&self) -> SchemaBook {
        self.schemas.clone()
    }

    /// The health of the streams of CRDs and of namespaces.
    pub fn healths(&self) -> [Arc<StreamHealth>; 2] {
        self.healths.clone()
    }

    /// Looks at the resources once, without observing anything.
    pub async fn scan(&mut self) -> Result<(), ApiError> {
        let groups = self.wanted_groups();
        let scan = scan_groups(&self.api, groups.as_ref()).await?;
        self.absorb(scan);
        Ok(())
    }

    /// Discovers for ever; drop the future to end it.
    pub async fn run(mut self) {
        let mut streams = JoinSet::new();
        let mut definitions = self.observe_definitions(&mut streams);
        let mut namespaces = self.observe_namespaces(&mut streams);
        self.scan_until_done().await;
        let patience = self.clock.instant() + PATIENCE_FOR_DEFINITIONS;
        loop {
            self.publish().await;
            let waiting = self.view.definitions_visibility == Visibility::Unknown;
            let rescan = self.view.rescans.values().map(|(_, when)| *when).min();
            tokio::select! {
                item = receive(&mut definitions) => self.handle_definitions(item, &mut definitions),
                item = receive(&mut namespaces) => self.handle_namespaces(item, &mut namespaces).await,
                Some(Err(error)) = streams.join_next() => if let Ok(panic) = error.try_into_panic() {
                    // Discovery cannot go on without its streams.
                    std::panic::resume_unwind(panic);
                },
                () = sleep_until(&self.clock, rescan) => {}
                () = self.clock.sleep_until(patience), if waiting => self.view.definitions_visibility.set_known(),
            }
            self.rescan_due_groups().await;
        }
    }

    fn observe_definitions(&mut self, streams: &mut JoinSet<()>) -> Option<mpsc::Receiver<StreamItem>> {
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

    fn observe_namespaces(&mut self, streams: &mut JoinSet<()>) -> Option<mpsc::Receiver<StreamItem>> {
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

    async fn scan_until_done(&mut self) {
        let mut pause = SHORTEST_RESCAN_PAUSE;
        while !self.wanted.is_empty() {
            let Err(error) = self.scan().await else { break };
            self.log.error(TARGET, format!("Cannot scan the resources of the cluster, will try again: {error}"));
            self.clock.sleep(pause).await;
            pause = (pause * 2).min(BROKEN_RESCAN_PAUSE);
        }
    }

    /// Takes in an item about CRDs, and all others that have come meanwhile.
    fn handle_definitions(&mut self, item: StreamItem, receiver: &mut Option<mpsc::Receiver<StreamItem>>) {
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
        // What is listed at the start was scanned as well; only a difference is worth a scan.
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

    /// Takes in an item about namespaces, and all others that have come meanwhile.
    async fn handle_namespaces(&mut self, item: StreamItem, receiver: &mut Option<mpsc::Receiver<StreamItem>>) {
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

    /// Goes on with what the patterns say by themselves, and says so once.
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

    async fn is_wanted_namespace(&self, name: &str) -> bool {
        for (index, pattern) in self.wanted.namespaces.iter().enumerate() {
            let matching = match pattern {
                NamespacePattern::Globs(globs) => matches_globs(name, globs),
                NamespacePattern::Callback => self.selector_callbacks.namespace(index, name.to_owned()).await,
            };
            if matching {
                return true;
            }
        }
        false
    }

    fn exact_namespaces(&self) -> Vec<Arc<str>> {
        self.wanted.namespaces.iter().filter_map(NamespacePattern::exact_name).map(Arc::from).collect()
    }

    /// The groups to be looked into; None if a selector names no group, so that it could be any.
    fn wanted_groups(&self) -> Option<BTreeSet<String>> {
        let named = self.wanted.all_selectors().map(|selector| selector.group.clone());
        named.chain(self.wanted.groups.iter().cloned().map(Some)).collect()
    }

    async fn rescan_due_groups(&mut self) {
        let now = self.clock.instant();
        let due = self.view.rescans.iter().filter(|(_, (_, when))| *when <= now);
        let due: Vec<(String, u32)> = due.map(|(group, (attempts, _))| (group.clone(), *attempts)).collect();
        for (group, attempts) in due {
            self.view.rescans.remove(&group);
            match scan_group(&self.api, &group).await {
                Ok(scan) => self.absorb(scan),
                Err(error) => {
                    self.log.warn(TARGET, format!("Cannot scan the resources of {group}, will try again: {error}"));
                    self.view.rescans.insert(group, (attempts, self.clock.instant() + BROKEN_RESCAN_PAUSE));
                    continue;
                }
            }
            // CRDs are announced a moment before, or after, the API follows them.
            if attempts < RESCANS && !self.view.definitions.agrees_about(&group, &self.view.scanned) {
                let pause = SHORTEST_RESCAN_PAUSE * 2_u32.saturating_pow(attempts);
                let when = self.clock.instant() + pause.min(LONGEST_RESCAN_PAUSE);
                self.view.rescans.insert(group, (attempts + 1, when));
            }
        }
    }

    /// Takes over a scan. What is broken keeps the resources that it had.
    fn absorb(&mut self, mut scan: Scan) {
        for part in &scan.broken {
            let known = self.view.scanned.get(&part.group).into_iter().flatten();
            let kept = known.filter(|resource| resource.version == part.version).cloned();
            let fresh = scan.groups.entry(part.group.clone()).or_default();
            let kept: Vec<_> = kept.filter(|kept| !fresh.iter().any(|resource| resource.is_same(kept))).collect();
            fresh.extend(kept);
        }
        self.view.broken.retain(|(group, version)| {
            !scan.groups.contains_key(group)
                || scan.broken.iter().any(|part| part.group == *group && part.version == *version)
        });
        for part in scan.broken {
            if self.view.broken.insert((part.group.clone(), part.version.clone())) {
                let text = format!(
                    "The API {}/{} does not work and is skipped until it does: {}",
                    part.group, part.version, part.reason
                );
                self.log.warn(TARGET, text);
            }
            let when = self.clock.instant() + BROKEN_RESCAN_PAUSE;
            self.view.rescans.entry(part.group).or_insert((RESCANS, when));
        }
        for (group, mut resources) in scan.groups {
            resources.iter_mut().for_each(|resource| self.view.definitions.keep_patchable_while_dying(resource));
            self.view.scanned.insert(group, resources);
        }
    }

    /// Decides what is served now; tells about it if it has changed.
    async fn publish(&mut self) {
        if self.view.namespaces_visibility == Visibility::Unknown
            || self.view.definitions_visibility == Visibility::Unknown
        {
            return;
        }
        let known: Vec<Arc<Resource>> = self.view.scanned.values().flatten().cloned().collect();
        let mut answers: HashSet<(usize, Arc<Resource>)> = HashSet::new();
        for (index, selector) in self.wanted.all_selectors().enumerate() {
            if !selector.needs_callback() {
                continue;
            }
            for resource in known.iter().filter(|resource| selector.check(resource)) {
                if self.selector_callbacks.resource(index, Arc::clone(resource)).await {
                    answers.insert((index, Arc::clone(resource)));
                }
            }
        }
        let answer = |index: usize, resource: &Resource| {
            answers.iter().any(|(answered, one)| *answered == index && one.is_same(resource))
        };
        let revision = resolve_selectors(&self.wanted.selectors, &known, &answer);
        let offset = self.wanted.selectors.len();
        let passive =
            passively_matched(&self.wanted.passive, &known, &|index, resource| answer(offset + index, resource));
        self.view.warnings.log_new(&self.wanted.selectors, &revision, &self.log);
        let namespaces = if self.wanted.clusterwide {
            vec![None]
        } else {
            self.view.namespaces.served().cloned().map(Some).collect()
        };
        let insight = Insight {
            ready: true,
            resources: revision.served,
            namespaces,
            known,
            matching: revision.matching,
            passive,
        };
        self.publisher.send_if_modified(|published| {
            let changed = **published != insight;
            if changed {
                *published = Arc::new(insight);
            }
            changed
        });
    }
}

async fn receive(receiver: &mut Option<mpsc::Receiver<StreamItem>>) -> StreamItem {
    if let Some(receiver) = receiver
        && let Some(item) = receiver.recv().await
    {
        return item;
    }
    std::future::pending().await
}

async fn sleep_until(clock: &Clock, when: Option<Instant>) {
    match when {
        Some(when) => clock.sleep_until(when).await,
        None => std::future::pending().await,
    }
}

const NO_DEFINITIONS: &str = "Not enough permissions to watch for resources: \
    changes (creation/deletion/updates) will not be noticed; \
    the resources are only refreshed on operator restarts.";

const NO_NAMESPACES: &str = "Not enough permissions to watch for namespaces: \
    changes (deletion/creation) will not be noticed; \
    the namespaces are only refreshed on operator restarts.";
