//! 2. One supervised list and watch: all objects of a resource, in a namespace or the whole cluster.
//!
//! The operator runs a [`WatchStream`] per resource and namespace; discovery runs its own. The output
//! is raw bytes. When a watch ends for any reason (the server, the network, silence, a refusal),
//! the stream starts it again with growing pauses; only dropping it, or its receiver, ends it for good.

mod sink;
mod listing;
mod watching;
mod filters;
mod framing;
mod streak;
mod health;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kopf_reaction::{EventType, Resource};

use self::filters::Filters;
use self::framing::resource_version;
use self::streak::{Failure, Streak};
use crate::client::{Api, ApiError};
use crate::front::SelectorCallbacks;
use crate::settings::WatchingSettings;
use crate::support::{Clock, Log, seconds};

pub use health::{StreamHealth, StreamState};
pub(crate) use listing::first_page;
pub use sink::{SinkClosed, StreamSink};

const TARGET: &str = "kopf.engine.watch";

/// After this many silent watches in a row, everything is listed again: a living server sends bookmarks.
const SILENCES_BEFORE_RELISTING: u32 = 3;

/// After this many failures in a row, the version to continue from is not trusted any more.
const FAILURES_BEFORE_RELISTING: u32 = 5;

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
    Event { event: EventType, raw: Bytes },
    /// The listing is over. What was not listed since the latest `ListStarted` does not exist,
    /// though its deletion was never seen: the consumer drops what it remembers of it.
    ListDone,
    /// There is no permission; delivered once per streak, only for [`OnForbidden::Notify`].
    Forbidden { listing: bool },
}

/// Who logs missing permissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnForbidden {
    /// The stream itself warns.
    #[default]
    Warn,
    /// The stream notifies the consumer by an item, and the consumer warns.
    Notify,
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
    pub selector_callbacks: Arc<dyn SelectorCallbacks>,
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

/// What the supervisor keeps from one attempt to the next.
struct Progress {
    position: Position,
    listing: Listing,
    filters: Filters,
    streak: Streak,
    /// Whether the current attempt has got as far as a living watch.
    worked: bool,
    /// The version of the server when it was last known.
    version: Option<u64>,
    /// How many watches in a row have ended without a word.
    silences: u32,
    /// The connection was lost: the server may be another one since, with an older history.
    is_in_doubt: bool,
}

impl Progress {
    /// The next attempt begins with a listing.
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
    pub async fn run(self, mut output: impl StreamSink) {
        let _stopped = StoppedOnDrop(Arc::clone(&self.health));
        self.log.debug(TARGET, format!("Starting the watch-stream for {}.", self.location()));
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
            let ending = match self.list_and_watch(&mut progress, &mut output).await {
                Ok(()) => Ending::Closed,
                Err(ending) => ending,
            };
            let Some(pause) = self.handle_end(&mut progress, ending, &mut output).await else { break };
            self.clock.sleep(pause).await;
            self.health.count_restart();
        }
        self.log.debug(TARGET, format!("Stopping the watch-stream for {}.", self.location()));
    }

    /// One listing if it is needed, and one watch.
    async fn list_and_watch(&self, progress: &mut Progress, output: &mut impl StreamSink) -> Result<(), Ending> {
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

    /// Decides what follows an ending: the pause before the next attempt, or None for the end.
    async fn handle_end(
        &self,
        progress: &mut Progress,
        ending: Ending,
        output: &mut impl StreamSink,
    ) -> Option<Duration> {
        let location = self.location();
        let (failure, error) = match ending {
            Ending::Abandoned => return None,
            Ending::Silent => {
                self.log.debug(TARGET, format!("Watch-stream for {location} is inactive, reconnecting."));
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
                self.log.debug(TARGET, format!("Restarting the watch-stream for {location}."));
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
        if reaction.must_log {
            match (&error, self.on_forbidden) {
                (Some(ApiError::Forbidden(_)), OnForbidden::Notify) => {
                    output.deliver(StreamItem::Forbidden { listing }).await.ok()?;
                }
                _ => self.log.warn(TARGET, format!("The watch-stream for {location} has failed, retrying: {reason}")),
            }
        }
        if progress.streak.failures().is_multiple_of(FAILURES_BEFORE_RELISTING) {
            progress.relist();
        }
        Some(reaction.pause.max(seconds(self.settings.reconnect_backoff)))
    }

    /// The stream works: whatever was wrong is over.
    fn mark_healthy(&self, progress: &mut Progress) {
        progress.worked = true;
        self.health.succeed();
        if progress.streak.succeed() {
            self.log.info(TARGET, format!("The watch-stream for {} works again.", self.location()));
        }
    }

    fn path(&self) -> String {
        self.resource.path(self.namespace.as_deref(), None, None)
    }

    fn location(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} in '{namespace}'", self.resource),
            None => format!("{} cluster-wide", self.resource),
        }
    }
}

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

async fn send(output: &mut impl StreamSink, item: StreamItem) -> Result<(), Ending> {
    output.deliver(item).await.map_err(|SinkClosed| Ending::Abandoned)
}
