//! One supervised list and watch: all objects of a resource, in a namespace or the whole cluster.
//!
//! The operator runs a [`WatchStream`] per resource and namespace; discovery runs its own. What
//! comes out is raw bytes. Whatever ends a watch (the server, the network, silence, a refusal),
//! it is started again with growing pauses; only dropping it, or its receiver, ends it for good.

mod framing;
mod health;
mod streak;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kopf_reaction::Resource;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::client::{Api, ApiError, ByteStream, ListTries, with_query};
use crate::front::Judge;
use crate::settings::{SelectorSetting, WatchingSettings};
use crate::support::clock::{Clock, seconds};
use crate::support::log::Log;
use framing::{LineSplitter, decode_line, ends_initial_events, resource_version, split_page};
pub use health::{StreamHealth, StreamState};
use streak::{Failure, Streak};

const TARGET: &str = "kopf.engine.watch";

/// Objects per page where the settings say nothing. A page is in memory as a whole, so that larger ones cost more than they save.
const PAGE_SIZE: u32 = 250;

/// A watch that lives so long has worked, even without events.
const ALIVE_AFTER: Duration = Duration::from_secs(1);

/// After so many silent watches in a row, everything is listed anew: a living server sends bookmarks.
const SILENCES_BEFORE_RELISTING: u32 = 3;

/// After so many failures in a row, the version to go on from is not trusted any more.
const FAILURES_BEFORE_RELISTING: u32 = 5;

/// How often a listing that has expired on its way is repeated before there is a pause.
const REPEATED_LISTINGS: u32 = 5;

/// What comes out of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamItem {
    /// A listing begins: the first one, a repeated one after a failure, or one after an outage
    /// in which events were lost.
    ListStarted,
    /// The list is older than what the server has shown before: its storage was restored from a backup, perhaps.
    /// Versions that were seen before say nothing about those to come.
    Rewound,
    /// One object, listed or changed.
    Event { kind: EventKind, raw: Bytes },
    /// The listing is over. What was not listed since the latest `ListStarted` does not exist,
    /// though its deletion was never seen: the consumer drops what it remembers of it.
    ListDone,
    /// There is no permission; told once per streak, only for [`OnForbidden::Tell`].
    Forbidden { listing: bool },
}

/// What has happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It is there; nobody knows since when.
    Listed,
    Added,
    Modified,
    Deleted,
}

/// Who speaks about missing permissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnForbidden {
    /// The stream itself warns.
    #[default]
    Warn,
    /// The consumer is told by an item, and warns in its own words.
    Tell,
}

/// One stream, ready to [`run`](Self::run).
pub struct WatchStream {
    pub api: Api,
    pub settings: Arc<WatchingSettings>,
    pub clock: Clock,
    pub log: Log,
    pub resource: Arc<Resource>,
    /// None means all namespaces, or a cluster-scoped resource.
    pub namespace: Option<Arc<str>>,
    /// Kept up to date by the stream, read by probes and metrics.
    pub health: Arc<StreamHealth>,
    pub on_forbidden: OnForbidden,
    /// Asked once, at the start, where the server-side filters have functions.
    pub judge: Arc<dyn Judge>,
}

/// From where the next watch goes on.
#[derive(Debug, Default)]
enum Position {
    /// Nothing is known, or what is known is too old: list first.
    #[default]
    Unlisted,
    /// The version of the list or of a bookmark.
    Version(String),
    /// The version of this object, which came last; decoded only when it is needed.
    Object(Bytes),
}

/// Why a listing or a watch has ended.
#[derive(Debug)]
enum Ending {
    /// Nobody reads any more.
    Abandoned,
    /// The version to go on from is too old: events may be lost.
    Expired,
    /// No sign of life for too long.
    Silent,
    /// By the server or by our own time-out; both are normal.
    Closed,
    /// By an error.
    Failed(ApiError),
}

/// How objects are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listing {
    /// By pages, before the watch.
    Paged,
    /// By the watch itself, which begins with all objects.
    Streamed,
}

/// The server-side filters, by the names of their parameters.
type Filters = [(&'static str, String); 3];

/// What the supervisor keeps from one try to the next.
struct Progress {
    position: Position,
    listing: Listing,
    filters: Filters,
    streak: Streak,
    /// Whether the current try has got as far as a living watch.
    worked: bool,
    /// The version of the server when it was last known.
    version: Option<u64>,
    /// How many watches in a row have ended without a word.
    silences: u32,
    /// The connection was lost: the server may be another one since, with an older history.
    is_in_doubt: bool,
}

impl Progress {
    /// The next try begins with a listing.
    fn relist(&mut self) {
        self.silences = 0;
        let position = std::mem::take(&mut self.position);
        self.version = position.version().and_then(|version| version.parse().ok()).or(self.version);
    }
}

impl Position {
    fn version(&self) -> Option<String> {
        match self {
            Self::Unlisted => None,
            Self::Version(version) => Some(version.clone()).filter(|version| !version.is_empty()),
            Self::Object(raw) => resource_version(raw),
        }
    }
}

impl WatchStream {
    /// Streams for ever. It ends when the receiver is dropped; drop the future to end it earlier.
    pub async fn run(self, output: mpsc::Sender<StreamItem>) {
        let _stopped = StoppedOnDrop(Arc::clone(&self.health));
        self.log.debug(TARGET, format!("Starting the watch-stream for {}.", self.whereabouts()));
        let listing = if self.settings.initial_streaming { Listing::Streamed } else { Listing::Paged };
        let mut progress = Progress {
            position: Position::default(),
            listing,
            filters: self.filters().await,
            streak: Streak::default(),
            worked: false,
            version: None,
            silences: 0,
            is_in_doubt: false,
        };
        loop {
            progress.worked = false;
            let ending = match self.round(&mut progress, &output).await {
                Ok(()) => Ending::Closed,
                Err(ending) => ending,
            };
            let Some(pause) = self.settle(&mut progress, ending, &output).await else { break };
            self.clock.sleep(pause).await;
            self.health.count_restart();
        }
        self.log.debug(TARGET, format!("Stopping the watch-stream for {}.", self.whereabouts()));
    }

    /// One listing if it is needed, and one watch.
    async fn round(&self, progress: &mut Progress, output: &mpsc::Sender<StreamItem>) -> Result<(), Ending> {
        if progress.is_in_doubt && !matches!(progress.position, Position::Unlisted) {
            self.check_history(progress).await?;
        }
        progress.is_in_doubt = false;
        if matches!(progress.position, Position::Unlisted) && progress.listing == Listing::Paged {
            self.health.enter(StreamState::Listing);
            let version = self.list(&progress.filters, progress.version, output).await?;
            progress.position = Position::Version(version);
        }
        self.health.enter(StreamState::Watching);
        self.watch(progress, output).await
    }

    /// Asks the server for its version: a watch from a version that is yet to come would be silent for long.
    async fn check_history(&self, progress: &mut Progress) -> Result<(), Ending> {
        let mut parameters: Vec<(&str, &str)> = vec![("limit", "1")];
        push_filters(&mut parameters, &progress.filters);
        let url = with_query(&self.path(), &parameters);
        let body = self.api.list_page(&url, ListTries::Once).await.map_err(Ending::of)?;
        let page = split_page(&body)
            .map_err(|source| Ending::Failed(ApiError::Decoding { what: format!("GET {url}"), source }))?;
        let known: Option<u64> = progress.position.version().and_then(|version| version.parse().ok());
        let current: Option<u64> = page.resource_version.parse().ok();
        if known.zip(current).is_some_and(|(known, current)| current < known) {
            progress.relist();
        }
        Ok(())
    }

    /// Decides what follows an ending: the pause before the next try, or None for the end.
    async fn settle(
        &self,
        progress: &mut Progress,
        ending: Ending,
        output: &mpsc::Sender<StreamItem>,
    ) -> Option<Duration> {
        let whereabouts = self.whereabouts();
        let (failure, error) = match ending {
            Ending::Abandoned => return None,
            Ending::Silent => {
                self.log.debug(TARGET, format!("Watch-stream for {whereabouts} is inactive, reconnecting."));
                progress.silences += 1;
                if progress.silences >= SILENCES_BEFORE_RELISTING {
                    // The server may have nothing to say about a version that it does not know.
                    progress.relist();
                }
                return Some(seconds(self.settings.reconnect_backoff));
            }
            Ending::Closed if progress.worked => return Some(seconds(self.settings.reconnect_backoff)),
            Ending::Closed => (Failure::Minor, None),
            Ending::Expired => {
                self.log.debug(TARGET, format!("Restarting the watch-stream for {whereabouts}."));
                progress.relist();
                (Failure::Minor, None)
            }
            Ending::Failed(error) => {
                progress.is_in_doubt |= error.is_of_connection();
                let minor = matches!(error, ApiError::NotFound(_) | ApiError::TooManyRequests(_));
                (if minor { Failure::Minor } else { Failure::Real }, Some(error))
            }
        };
        let asked = error.as_ref().and_then(ApiError::retry_after);
        let reaction = progress.streak.fail(failure, asked, self.clock.jitter(1.0));
        let reason = error.as_ref().map_or_else(|| "it ends as soon as it begins".to_owned(), ToString::to_string);
        self.health.fail(progress.streak.failures(), reason.clone());
        self.health.enter(StreamState::Waiting);
        let listing = matches!(progress.position, Position::Unlisted);
        if reaction.speak {
            match (&error, self.on_forbidden) {
                (Some(ApiError::Forbidden(_)), OnForbidden::Tell) => {
                    output.send(StreamItem::Forbidden { listing }).await.ok()?;
                }
                _ => {
                    self.log.warn(TARGET, format!("The watch-stream for {whereabouts} has failed, retrying: {reason}"))
                }
            }
        }
        if progress.streak.failures().is_multiple_of(FAILURES_BEFORE_RELISTING) {
            progress.relist();
        }
        Some(reaction.pause.max(seconds(self.settings.reconnect_backoff)))
    }

    /// Lists all objects; the version of the list is the result.
    ///
    /// The pages come as fast as the objects can be taken, and the server may have forgotten the version of the first
    /// ones until it is asked for the last ones. Then the rest is listed as it is by now, so that nobody waits for it;
    /// and everything once more, for what has changed before: that is quick, since most objects are known then.
    async fn list(
        &self,
        filters: &Filters,
        known: Option<u64>,
        output: &mpsc::Sender<StreamItem>,
    ) -> Result<String, Ending> {
        for _ in 0..REPEATED_LISTINGS {
            if let Some(version) = self.list_once(filters, known, output).await? {
                self.health.count_listing();
                send(output, StreamItem::ListDone).await?;
                return Ok(version);
            }
            let text = format!("The listing of {} took too long, it is repeated.", self.whereabouts());
            self.log.debug(TARGET, text);
        }
        Err(Ending::Expired)
    }

    /// Lists all objects page by page; None if the pages are not of one version.
    async fn list_once(
        &self,
        filters: &Filters,
        known: Option<u64>,
        output: &mpsc::Sender<StreamItem>,
    ) -> Result<Option<String>, Ending> {
        let path = self.path();
        let limit = page_size(&self.settings);
        let mut token: Option<String> = None;
        // Whether the version has expired so far, and whether that is all that was said since the last page.
        let (mut is_expired, mut is_stuck) = (false, false);
        loop {
            let mut parameters: Vec<(&str, &str)> = vec![("limit", &limit)];
            push_filters(&mut parameters, filters);
            // The first page is repeated by the supervisor anyway; later ones are worth saving.
            let tries = match &token {
                None => ListTries::Once,
                Some(token) => {
                    parameters.push(("continue", token));
                    ListTries::WithBackoffs
                }
            };
            let url = with_query(&path, &parameters);
            let body = match self.api.list_page(&url, tries).await {
                Ok(body) => body,
                Err(ApiError::Gone(refusal)) if token.is_some() && refusal.continue_token.is_some() && !is_stuck => {
                    (token, is_expired, is_stuck) = (refusal.continue_token, true, true);
                    continue;
                }
                Err(error) => return Err(Ending::of(error)),
            };
            is_stuck = false;
            let page = split_page(&body)
                .map_err(|source| Ending::Failed(ApiError::Decoding { what: format!("GET {url}"), source }))?;
            drop(body);
            self.health.touch(self.clock.now());
            if token.is_none() {
                let listed: Option<u64> = page.resource_version.parse().ok();
                if known.zip(listed).is_some_and(|(known, listed)| listed < known) {
                    let text = format!(
                        "The server has gone back in its history, as after a restore of its storage: \
                        all {} are looked at again.",
                        self.whereabouts()
                    );
                    self.log.warn(TARGET, text);
                    send(output, StreamItem::Rewound).await?;
                }
                send(output, StreamItem::ListStarted).await?;
            }
            for raw in page.objects {
                send(output, StreamItem::Event { kind: EventKind::Listed, raw }).await?;
            }
            token = page.continue_token;
            if token.is_none() {
                return Ok((!is_expired).then_some(page.resource_version));
            }
        }
    }

    /// Opens one watch and passes its events on, to its end.
    async fn watch(&self, progress: &mut Progress, output: &mpsc::Sender<StreamItem>) -> Result<(), Ending> {
        let mut initial = matches!(progress.position, Position::Unlisted);
        let url = self.watch_url(&progress.position, &progress.filters);
        let connect_timeout = self.settings.connect_timeout.map(seconds);
        let mut stream = match self.api.watch_stream(&url, connect_timeout).await {
            Ok(stream) => stream,
            Err(ApiError::Unprocessable(_) | ApiError::Client(_)) if initial => {
                let text = format!("The initial streaming is not supported for {}; listing.", self.whereabouts());
                self.log.info(TARGET, text);
                progress.listing = Listing::Paged;
                return Ok(());
            }
            Err(error) => return Err(Ending::of(error)),
        };
        if initial {
            send(output, StreamItem::ListStarted).await?;
        }
        let opened = self.clock.instant();
        let mut heard = opened;
        let mut lines = LineSplitter::default();
        while let Some(chunk) = self.next_chunk(&mut stream, opened, heard, progress).await? {
            heard = self.clock.instant();
            progress.silences = 0;
            self.health.touch(self.clock.now());
            let too_long = |_| Ending::Failed(ApiError::Unclear { reason: format!("{url}: an endless line") });
            lines.push(&chunk).map_err(too_long)?;
            drop(chunk);
            while let Some(line) = lines.next_line() {
                let line = decode_line(&line)
                    .map_err(|source| Ending::Failed(ApiError::Decoding { what: url.clone(), source }))?;
                let object = line.object;
                let kind = match line.kind {
                    "ADDED" if initial => EventKind::Listed,
                    "ADDED" => EventKind::Added,
                    "MODIFIED" => EventKind::Modified,
                    "DELETED" => EventKind::Deleted,
                    "BOOKMARK" => {
                        self.praise(progress);
                        if initial && !ends_initial_events(object) {
                            // The objects that are still to come must not be taken for deleted ones.
                            continue;
                        }
                        if let Some(version) = resource_version(object) {
                            progress.position = Position::Version(version);
                        }
                        if std::mem::take(&mut initial) {
                            self.health.count_listing();
                            send(output, StreamItem::ListDone).await?;
                        }
                        continue;
                    }
                    "ERROR" => return Err(Ending::of(ApiError::in_stream(url, object))),
                    other => {
                        self.log.warn(TARGET, format!("Ignoring an unsupported event type: {other:?}"));
                        continue;
                    }
                };
                self.praise(progress);
                // A copy of its own, so that one object does not keep a whole buffer in memory.
                let raw = Bytes::copy_from_slice(object);
                if !initial {
                    progress.position = Position::Object(raw.clone());
                }
                send(output, StreamItem::Event { kind, raw }).await?;
                // Time spent in the consumer's queue is no silence of the server.
                heard = self.clock.instant();
            }
        }
        Ok(())
    }

    /// The next bytes of a watch, None at its normal end, or the silence that ends it.
    async fn next_chunk(
        &self,
        stream: &mut ByteStream,
        opened: Instant,
        heard: Instant,
        progress: &mut Progress,
    ) -> Result<Option<Bytes>, Ending> {
        let silence = heard + seconds(self.settings.inactivity_timeout).min(FAR_AWAY);
        let end = opened + self.settings.client_timeout.map_or(FAR_AWAY, seconds).min(FAR_AWAY);
        // A server that was asked to end it soon keeps its word, counted from the request.
        let half = self.settings.server_timeout.map_or(ALIVE_AFTER, |timeout| seconds(timeout / 2.0));
        let alive = opened + ALIVE_AFTER.min(half);
        loop {
            let now = self.clock.instant();
            if now >= alive {
                self.praise(progress);
            }
            if now >= silence {
                // The server may be gone without a word, and the other connections to it with this one.
                self.api.distrust_connections(heard);
                return Err(Ending::Silent);
            }
            if now >= end {
                return Ok(None);
            }
            let deadline = if now < alive { silence.min(end).min(alive) } else { silence.min(end) };
            match self.clock.timeout(deadline - now, stream.next()).await {
                Err(_) => {}
                Ok(None) => return Ok(None),
                Ok(Some(Ok(chunk))) => return Ok(Some(chunk)),
                // Connections break every now and then; a watch that has worked just goes on.
                Ok(Some(Err(_))) if progress.worked => {
                    progress.is_in_doubt = true;
                    return Ok(None);
                }
                Ok(Some(Err(error))) => return Err(Ending::of(error)),
            }
        }
    }

    /// The stream works: whatever was wrong is over.
    fn praise(&self, progress: &mut Progress) {
        progress.worked = true;
        self.health.succeed();
        if progress.streak.succeed() {
            self.log.info(TARGET, format!("The watch-stream for {} works again.", self.whereabouts()));
        }
    }

    fn watch_url(&self, position: &Position, filters: &Filters) -> String {
        let version = position.version();
        let server_timeout = self.settings.server_timeout.map(|timeout| format!("{}", timeout.ceil().max(1.0) as u64));
        let mut parameters: Vec<(&str, &str)> = vec![("watch", "true"), ("allowWatchBookmarks", "true")];
        push_filters(&mut parameters, filters);
        if let Some(version) = &version {
            parameters.push(("resourceVersion", version));
        }
        if let Some(server_timeout) = &server_timeout {
            parameters.push(("timeoutSeconds", server_timeout));
        }
        if matches!(position, Position::Unlisted) {
            parameters.push(("sendInitialEvents", "true"));
            parameters.push(("resourceVersionMatch", "NotOlderThan"));
        }
        with_query(&self.path(), &parameters)
    }

    fn path(&self) -> String {
        self.resource.path(self.namespace.as_deref(), None, None)
    }

    /// The parameters by which the server filters; empty ones are not sent.
    async fn filters(&self) -> Filters {
        let joined = |mut values: Vec<String>| {
            values.sort_unstable();
            values.dedup();
            values.join(",")
        };
        // Shards cannot be joined: the first one counts.
        let shards = self.selected(&self.settings.shard_selectors).await;
        [
            ("labelSelector", joined(self.selected(&self.settings.label_selectors).await)),
            ("fieldSelector", joined(self.selected(&self.settings.field_selectors).await)),
            ("shardSelector", shards.into_iter().next().unwrap_or_default()),
        ]
    }

    /// The values of those settings that hold for the resource.
    async fn selected(&self, settings: &[SelectorSetting]) -> Vec<String> {
        let mut values = Vec::new();
        for setting in settings.iter().filter(|setting| setting.selector.check(&self.resource)) {
            let holds = match setting.index {
                Some(index) if setting.selector.needs_callback() => {
                    self.judge.setting(index, Arc::clone(&self.resource)).await
                }
                _ => !setting.selector.needs_callback(),
            };
            if holds {
                values.push(setting.value.clone());
            }
        }
        values
    }

    fn whereabouts(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} in '{namespace}'", self.resource),
            None => format!("{} cluster-wide", self.resource),
        }
    }
}

/// Where the first objects of the path are listed, by streams without server-side filters; None if they are not listed so.
pub(crate) fn first_page(path: &str, settings: &WatchingSettings) -> Option<String> {
    let filters = [&settings.label_selectors, &settings.field_selectors, &settings.shard_selectors];
    let is_usual = !settings.initial_streaming && filters.iter().all(|filters| filters.is_empty());
    is_usual.then(|| with_query(path, &[("limit", &page_size(settings))]))
}

fn page_size(settings: &WatchingSettings) -> String {
    settings.chunk_size.unwrap_or(PAGE_SIZE).to_string()
}

/// Longer than any stream lives, and short enough to be added to any instant.
const FAR_AWAY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

impl Ending {
    fn of(error: ApiError) -> Self {
        if matches!(error, ApiError::Gone(_)) { Self::Expired } else { Self::Failed(error) }
    }
}

/// Marks the health of a stream at its end, however it ends.
struct StoppedOnDrop(Arc<StreamHealth>);

impl Drop for StoppedOnDrop {
    fn drop(&mut self) {
        self.0.enter(StreamState::Stopped);
    }
}

async fn send(output: &mpsc::Sender<StreamItem>, item: StreamItem) -> Result<(), Ending> {
    output.send(item).await.map_err(|_| Ending::Abandoned)
}

fn push_filters<'a>(parameters: &mut Vec<(&'a str, &'a str)>, filters: &'a Filters) {
    let given = filters.iter().filter(|(_, value)| !value.is_empty());
    parameters.extend(given.map(|(name, value)| (*name, value.as_str())));
}
