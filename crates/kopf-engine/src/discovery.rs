//! Which resources and namespaces to serve, kept up to date while the operator runs.
//!
//! The operator runs one [`Discovery`], and starts and stops its streams by the [`Insight`]s that it publishes.
//! Discovery scans the API once at the start. Then it watches CRDs and namespaces, as far as the permissions go,
//! and scans a group again when one of its CRDs changes.

mod insight;
mod scan;
mod observing;
mod definitions;
mod namespaces;
pub(crate) mod schema;
mod warnings;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kopf_reaction::{Resource, passively_matched, resolve_selectors};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::{Api, ApiError};
use crate::front::SelectorCallbacks;
use crate::settings::{Settings, WatchingSettings};
use crate::stream::{StreamHealth, StreamItem};
use crate::support::clock::Clock;
use crate::support::log::Log;
use definitions::{DefinitionTracker, Scanned};
pub use insight::{Insight, Wanted};
pub use namespaces::NamespacePattern;
use namespaces::NamespaceTracker;
pub(crate) use namespaces::matches_globs;
use scan::{Scan, scan_group, scan_groups};
use schema::SchemaBook;
use warnings::LoggedWarnings;

const TARGET: &str = "kopf.engine.discovery";

/// How long the first insight waits for the schemas of CRDs, which may be slow or forbidden.
const PATIENCE_FOR_DEFINITIONS: Duration = Duration::from_secs(5);

/// How soon, and how often, discovery scans a group again if the API does not serve its CRDs as they say.
const SHORTEST_RESCAN_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_RESCAN_PAUSE: Duration = Duration::from_secs(2);
const RESCANS: u32 = 20;

/// How soon discovery scans a broken part of the API again.
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
    /// Whether to watch CRDs and namespaces at all.
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
    /// Groups to scan again: the number of scans in vain, and the time of the next one.
    rescans: BTreeMap<String, (u32, Instant)>,
    /// Broken parts of the API that a warning was logged about.
    broken: BTreeSet<(String, String)>,
    warnings: LoggedWarnings,
}

/// How much is known of the CRDs, or of the namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Visibility {
    /// Nothing is known yet.
    #[default]
    Unknown,
    /// Known from a listing, or assumed without one.
    Known,
    /// Assumed, or known from an old listing: the permission is missing, and a warning was logged.
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

    /// Scans the resources once, without watching anything.
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

    async fn scan_until_done(&mut self) {
        let mut pause = SHORTEST_RESCAN_PAUSE;
        while !self.wanted.is_empty() {
            let Err(error) = self.scan().await else { break };
            self.log.error(TARGET, format!("Cannot scan the resources of the cluster, will try again: {error}"));
            self.clock.sleep(pause).await;
            pause = (pause * 2).min(BROKEN_RESCAN_PAUSE);
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

    /// The groups to scan; None if a selector names no group, so that it could be any.
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
            // The watch reports a CRD shortly before or after the API serves it.
            if attempts < RESCANS && !self.view.definitions.agrees_about(&group, &self.view.scanned) {
                let pause = SHORTEST_RESCAN_PAUSE * 2_u32.saturating_pow(attempts);
                let when = self.clock.instant() + pause.min(LONGEST_RESCAN_PAUSE);
                self.view.rescans.insert(group, (attempts + 1, when));
            }
        }
    }

    /// Takes over a scan. The broken parts of the API keep the resources that they had.
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

    /// Decides what to serve now; publishes it if it has changed.
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
