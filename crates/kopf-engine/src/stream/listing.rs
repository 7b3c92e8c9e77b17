//! Listing all objects by pages, before a watch.

use super::filters::{Filters, push_filters};
use super::framing::split_page;
use super::{Ending, Progress, StreamItem, StreamSink, TARGET, WatchStream, send};
use crate::client::{ApiError, ListAttempts, with_query};
use crate::settings::WatchingSettings;
use kopf_reaction::EventType;

/// Objects per page where the settings say nothing. A page is in memory as a whole, so that larger ones cost more than they save.
const PAGE_SIZE: u32 = 250;

/// How often a listing that has expired on its way is repeated before there is a pause.
const REPEATED_LISTINGS: u32 = 5;

impl WatchStream {
    /// Lists all objects; returns the version of the list.
    ///
    /// The pages come as fast as the queue takes the objects. By the last pages, the server may have forgotten the
    /// version of the first ones. Then the stream lists the current state of the rest, so that nobody waits for it;
    /// and then everything once more, for earlier changes: that is quick, since most objects are known by then.
    pub(super) async fn list(
        &self,
        filters: &Filters,
        known: Option<u64>,
        output: &mut impl StreamSink,
    ) -> Result<String, Ending> {
        for _ in 0..REPEATED_LISTINGS {
            if let Some(version) = self.list_once(filters, known, output).await? {
                self.health.count_listing();
                send(output, StreamItem::ListDone).await?;
                return Ok(version);
            }
            let text = format!("The listing of {} took too long, it is repeated.", self.location());
            self.log.debug(TARGET, text);
        }
        Err(Ending::Expired)
    }

    /// Lists all objects page by page; None if the pages are not of one version.
    async fn list_once(
        &self,
        filters: &Filters,
        known: Option<u64>,
        output: &mut impl StreamSink,
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
            let attempts = match &token {
                None => ListAttempts::Once,
                Some(token) => {
                    parameters.push(("continue", token));
                    ListAttempts::WithBackoffs
                }
            };
            let url = with_query(&path, &parameters);
            let body = match self.api.list_page(&url, attempts).await {
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
                        self.location()
                    );
                    self.log.warn(TARGET, text);
                    send(output, StreamItem::Rewound).await?;
                }
                send(output, StreamItem::ListStarted).await?;
            }
            for raw in page.objects {
                send(output, StreamItem::Event { event: EventType::Listed, raw }).await?;
            }
            token = page.continue_token;
            if token.is_none() {
                return Ok((!is_expired).then_some(page.resource_version));
            }
        }
    }

    /// Asks the server for its version: a watch from a version that is yet to come would be silent for long.
    pub(super) async fn check_history(&self, progress: &mut Progress) -> Result<(), Ending> {
        let mut parameters: Vec<(&str, &str)> = vec![("limit", "1")];
        push_filters(&mut parameters, &progress.filters);
        let url = with_query(&self.path(), &parameters);
        let body = self.api.list_page(&url, ListAttempts::Once).await.map_err(Ending::of)?;
        let page = split_page(&body)
            .map_err(|source| Ending::Failed(ApiError::Decoding { what: format!("GET {url}"), source }))?;
        let known: Option<u64> = progress.position.version().and_then(|version| version.parse().ok());
        let current: Option<u64> = page.resource_version.parse().ok();
        if known.zip(current).is_some_and(|(known, current)| current < known) {
            progress.relist();
        }
        Ok(())
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
