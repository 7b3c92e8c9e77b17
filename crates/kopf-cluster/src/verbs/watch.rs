//! Watches: the events of a resource, as an endless response.
//!
//! A watch holds only its position in the history of the store. It sleeps until the resource
//! changes, and reads the new events in small portions. It ends when its time is over, when the client
//! disconnects, or when it was so slow that the history no longer has its position.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

use super::fields;
use crate::catalog::ResourceType;
use crate::publish::render::{Renderer, error_event};
use crate::request::Interrupted;
use crate::request::query::Selectors;
use crate::request::representation::Representation;
use crate::request::status::StatusError;
use crate::state::State;
use crate::store::{Change, Event, StoreError, Stored};
use crate::support::clock::later;
use crate::testing::{Disruption, RequestInfo, WatchFaults};
use crate::webhooks::convert_stored;

/// How many events are read from the history at once.
const PORTION: usize = 100;

/// How often a watch gets a bookmark, if the client allows bookmarks.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// How long before its end a watch gets its last bookmark.
const BOOKMARK_BEFORE_END: SignedDuration = SignedDuration::from_secs(2);

/// The parameters of a watch.
#[derive(Clone, Debug)]
pub(super) struct WatchRequest {
    /// Faults are matched by these facts.
    pub info: RequestInfo,
    pub resource: Arc<ResourceType>,
    /// None for all namespaces.
    pub namespace: Option<String>,
    pub selectors: Selectors,
    pub representation: Representation,
    pub start: Start,
    pub bookmarks: bool,
    /// None for a watch without a time limit.
    pub timeout: Option<Duration>,
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// With an `ADDED` event for every existing object, followed by the changes.
    Everything {
        /// Whether a bookmark marks the end of the existing objects.
        announce_end: bool,
    },
    /// With the changes after this version.
    After(u64),
}

/// A running watch.
struct Watch {
    state: Arc<State>,
    request: WatchRequest,
    /// Everything up to this version has been sent.
    position: u64,
    phase: Phase,
    changed: watch::Receiver<u64>,
    /// When the watch ends; far in the future if it has no time limit.
    deadline: Timestamp,
    next_bookmark: Timestamp,
    /// The faults that a test has requested for it.
    faults: WatchFaults,
    /// Whether an event has been sent: only the first table has columns.
    started: bool,
}

/// The next step of a watch.
enum Phase {
    /// Send the existing objects; the last element comes first.
    Initial(Vec<Arc<Stored>>),
    /// Send the bookmark at the end of the existing objects.
    InitialDone,
    /// Send the changes.
    Live,
    /// Break the connection in the middle of an event.
    Broken,
    /// The watch is over.
    Over,
}

/// Starts a watch. Every item of the stream consists of whole lines.
pub(super) fn stream(
    state: Arc<State>,
    request: WatchRequest,
) -> impl Stream<Item = Result<Bytes, Interrupted>> + Send + 'static {
    let (changed, position, phase) = {
        let mut store = state.store();
        let changed = store.subscribe(&request.resource.storage);
        match request.start {
            Start::Everything { .. } => {
                let mut objects = store.list(&request.resource.storage, request.namespace.as_deref(), None);
                objects.retain(|stored| fields::selects(&request.selectors, stored));
                objects.reverse();
                (changed, store.version(), Phase::Initial(objects))
            }
            Start::After(version) => (changed, version, Phase::Live),
        }
    };
    let now = state.now();
    let far = Duration::from_secs(86_400 * 365);
    let deadline = later(now, request.timeout.unwrap_or(far));
    let watch = Watch {
        next_bookmark: first_bookmark(now, deadline),
        faults: state.faults.follow(request.info.clone()),
        state,
        request,
        position,
        phase,
        changed,
        deadline,
        started: false,
    };
    futures::stream::unfold(watch, |mut watch| async move {
        let lines = watch.next().await?;
        Some((lines, watch))
    })
}

/// Checks whether a watch can start; an error becomes its only event.
pub(super) fn check(state: &State, request: &WatchRequest) -> Result<(), StatusError> {
    match request.start {
        Start::Everything { .. } => Ok(()),
        Start::After(version) => state.store().check_version(&request.resource.storage, version).map_err(too_old),
    }
}

impl Watch {
    /// The next lines, or None at the end; or the interruption that a fault demands.
    async fn next(&mut self) -> Option<Result<Bytes, Interrupted>> {
        loop {
            match self.phase {
                Phase::Over => return None,
                Phase::Broken => {
                    self.phase = Phase::Over;
                    return Some(Err(Interrupted));
                }
                _ => {}
            }
            match self.faults.current(&self.state.faults).disruption {
                None => match self.advance().await {
                    Some(lines) => return Some(Ok(lines)),
                    None => continue,
                },
                Some(Disruption::End) => self.phase = Phase::Over,
                Some(Disruption::Disconnect) => self.phase = Phase::Broken,
                Some(Disruption::Silence) => self.faults.changed().await,
                Some(Disruption::Expire) => {
                    self.phase = Phase::Over;
                    let (asked, oldest) = (self.position, self.state.store().version());
                    let status_error = too_old(StoreError::Compacted { asked, oldest });
                    return Some(Ok(error_event(&status_error.to_value()).into()));
                }
                Some(Disruption::CutLine) => {
                    if let Some(lines) = self.advance().await {
                        self.phase = Phase::Broken;
                        let line = lines.iter().position(|byte| *byte == b'\n').unwrap_or(lines.len());
                        return Some(Ok(lines.slice(..line / 2)));
                    }
                }
            }
        }
    }

    /// The next lines; None if the caller has to look at the phase again.
    async fn advance(&mut self) -> Option<Bytes> {
        loop {
            match &mut self.phase {
                Phase::Initial(objects) => {
                    let portion: Vec<_> = std::iter::from_fn(|| objects.pop()).take(PORTION).collect();
                    if portion.is_empty() {
                        self.phase = Phase::InitialDone;
                        continue;
                    }
                    let portion = match self.converted(portion).await {
                        Ok(portion) => portion,
                        Err(line) => return Some(line),
                    };
                    let mut lines = Vec::new();
                    for stored in portion {
                        lines.extend(self.line("ADDED", &stored, stored.version));
                    }
                    return Some(lines.into());
                }
                Phase::InitialDone => {
                    self.phase = Phase::Live;
                    let announced = self.request.start == (Start::Everything { announce_end: true });
                    if announced && !self.faults.current(&self.state.faults).no_bookmarks {
                        return Some(self.bookmark(true));
                    }
                }
                Phase::Live => return self.live().await,
                Phase::Broken | Phase::Over => return None,
            }
        }
    }

    /// Sends new events, or sleeps; None if the caller has to look at the phase again.
    async fn live(&mut self) -> Option<Bytes> {
        self.changed.borrow_and_update();
        let (events, version) = {
            let store = self.state.store();
            (store.events_after(&self.request.resource.storage, self.position, PORTION), store.version())
        };
        let events = match events {
            Ok(events) => events,
            Err(error) => {
                self.phase = Phase::Over;
                return Some(error_event(&too_old(error).to_value()).into());
            }
        };
        if !events.is_empty() {
            self.follow_definition();
        }
        let events = match self.converted_events(events).await {
            Ok(events) => events,
            Err(line) => return Some(line),
        };
        let lines: Vec<u8> = events.iter().flat_map(|event| self.event(event)).collect();
        self.position = match events.last() {
            Some(last) if events.len() == PORTION => last.object.version,
            // The resource has no newer events, so the position can move to the version of the store.
            _ => self.position.max(version),
        };
        if !lines.is_empty() {
            return Some(lines.into());
        }
        if !events.is_empty() {
            return None;
        }
        self.sleep().await
    }

    /// Waits for a change, for the time of a bookmark, or for the end.
    async fn sleep(&mut self) -> Option<Bytes> {
        let bookmark = if self.request.bookmarks { self.next_bookmark } else { self.deadline };
        let clock = self.state.clock();
        tokio::select! {
            biased;
            changed = self.changed.changed() => {
                if changed.is_err() {
                    self.phase = Phase::Over;
                }
                None
            }
            () = self.faults.changed() => None,
            () = clock.sleep_until(self.deadline), if self.deadline <= bookmark => {
                self.phase = Phase::Over;
                None
            }
            () = clock.sleep_until(bookmark), if bookmark < self.deadline => {
                self.next_bookmark = next_bookmark(bookmark, self.deadline);
                self.position = self.position.max(self.state.store().version());
                if self.faults.current(&self.state.faults).no_bookmarks {
                    return None;
                }
                Some(self.bookmark(false))
            }
        }
    }

    /// Takes over changes of the CRD since the last event, above all those of its conversion.
    fn follow_definition(&mut self) {
        let known = &self.request.resource;
        if known.custom().is_some()
            && let Some(current) = self.state.catalog().get(&known.group, &known.version, &known.plural)
        {
            self.request.resource = Arc::clone(current);
        }
    }

    /// Objects in the version of the watch; or the line that ends it, if they cannot be converted.
    async fn converted(&mut self, objects: Vec<Arc<Stored>>) -> Result<Vec<Arc<Stored>>, Bytes> {
        if self.request.resource.conversion().is_none() {
            return Ok(objects);
        }
        let converted = convert_stored(&self.state, &self.request.resource, &objects).await;
        converted.map_err(|status_error| {
            self.phase = Phase::Over;
            error_event(&status_error.to_value()).into()
        })
    }

    /// The same for events, with the previous states of their objects.
    async fn converted_events(&mut self, events: Vec<Arc<Event>>) -> Result<Vec<Arc<Event>>, Bytes> {
        if self.request.resource.conversion().is_none() {
            return Ok(events);
        }
        let states = events.iter().flat_map(|event| event.previous.iter().chain([&event.object])).cloned().collect();
        let mut states = self.converted(states).await?.into_iter();
        let convert = |event: Arc<Event>| {
            let previous = event.previous.as_ref().and_then(|_| states.next());
            let object = states.next().unwrap_or_else(|| Arc::clone(&event.object));
            Arc::new(Event { change: event.change, object, previous })
        };
        Ok(events.into_iter().map(convert).collect())
    }

    /// The line of an event; empty if the watch does not select the object.
    fn event(&mut self, event: &Event) -> Vec<u8> {
        if self.request.namespace.as_deref().is_some_and(|namespace| namespace != &*event.object.object_key.namespace) {
            return Vec::new();
        }
        let selected = |stored: &Stored| fields::selects(&self.request.selectors, stored);
        let before = event.previous.as_ref().filter(|previous| selected(previous));
        let after = event.change != Change::Deleted && selected(&event.object);
        let version = event.object.version;
        match (before, after) {
            (None, true) => self.line("ADDED", &event.object, version),
            (Some(_), true) => self.line("MODIFIED", &event.object, version),
            // The object is gone, or no longer selected: the client gets the last state that it knows.
            (Some(previous), false) => self.line("DELETED", previous, version),
            (None, false) => Vec::new(),
        }
    }

    fn line(&mut self, kind: &str, stored: &Stored, version: u64) -> Vec<u8> {
        let first = !std::mem::replace(&mut self.started, true);
        self.renderer().event(kind, stored, version, first)
    }

    fn bookmark(&mut self, ends_initial_events: bool) -> Bytes {
        let first = !std::mem::replace(&mut self.started, true);
        self.renderer().bookmark(self.position, ends_initial_events, first).into()
    }

    fn renderer(&self) -> Renderer<'_> {
        Renderer {
            resource: &self.request.resource,
            representation: self.request.representation,
            now: self.state.now(),
        }
    }
}

fn first_bookmark(now: Timestamp, deadline: Timestamp) -> Timestamp {
    let before_end = before_end(deadline);
    // A short watch gets no bookmark before its end.
    if before_end > now { later(now, BOOKMARK_INTERVAL).min(before_end) } else { deadline }
}

fn next_bookmark(last: Timestamp, deadline: Timestamp) -> Timestamp {
    let before_end = before_end(deadline);
    if last < before_end { later(last, BOOKMARK_INTERVAL).min(before_end) } else { deadline }
}

fn before_end(deadline: Timestamp) -> Timestamp {
    deadline.checked_sub(BOOKMARK_BEFORE_END).unwrap_or(deadline)
}

fn too_old(error: StoreError) -> StatusError {
    match error {
        StoreError::Compacted { asked, oldest } => {
            StatusError::expired(format!("too old resource version: {asked} ({oldest})"))
        }
        other => StatusError::internal(other.to_string()),
    }
}
