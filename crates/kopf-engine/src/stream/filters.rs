//! The server-side filters of a stream, as the settings declare them.

use std::sync::Arc;

use super::WatchStream;
use crate::settings::SelectorSetting;

/// By the names of their parameters.
pub(super) type Filters = [(&'static str, String); 3];

impl WatchStream {
    /// The parameters by which the server filters; empty ones are not sent.
    pub(super) async fn filters(&self) -> Filters {
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
                    self.selector_callbacks.setting(index, Arc::clone(&self.resource)).await
                }
                _ => !setting.selector.needs_callback(),
            };
            if holds {
                values.push(setting.value.clone());
            }
        }
        values
    }
}

pub(super) fn push_filters<'a>(parameters: &mut Vec<(&'a str, &'a str)>, filters: &'a Filters) {
    let given = filters.iter().filter(|(_, value)| !value.is_empty());
    parameters.extend(given.map(|(name, value)| (*name, value.as_str())));
}
