//! The settings in the engine's terms: seconds as numbers, as the front-end in Python sends them, too.

use std::time::Duration;

use kopf_engine::{EventSource, SelectorSetting, Settings as EngineSettings};
use kopf_reaction::{Lifecycle as EngineLifecycle, Seconds};

use super::{Lifecycle, Settings};
use crate::selector::Selector;

impl Settings {
    /// The settings for the engine.
    pub(crate) fn to_engine(&self) -> EngineSettings {
        let Self {
            posting, peering, watching, queueing, scanning, execution, background, networking, persistence, ..
        } = self;
        let mut engine = EngineSettings { lifecycle: self.lifecycle.to_engine(), ..EngineSettings::default() };
        engine.posting.enabled = posting.enabled;
        engine.posting.worker_limit = posting.worker_limit;
        engine.posting.source = EventSource {
            event_name_prefix: posting.event_name_prefix.clone(),
            reporting_component: posting.reporting_component.clone(),
            reporting_instance: posting.reporting_instance.clone(),
        };
        engine.peering.name.clone_from(&peering.name);
        engine.peering.stealth = peering.stealth;
        engine.peering.priority = peering.priority;
        engine.peering.lifetime = i64::try_from(peering.lifetime.as_secs()).unwrap_or(i64::MAX);
        engine.peering.mandatory = peering.mandatory;
        engine.peering.standalone = peering.standalone;
        engine.watching.server_timeout = optional_seconds(watching.server_timeout);
        engine.watching.client_timeout = optional_seconds(watching.client_timeout);
        engine.watching.connect_timeout = optional_seconds(watching.connect_timeout);
        engine.watching.reconnect_backoff = watching.reconnect_backoff.as_secs_f64();
        engine.watching.inactivity_timeout = watching.inactivity_timeout.as_secs_f64();
        engine.watching.chunk_size = watching.chunk_size;
        engine.watching.initial_streaming = watching.initial_streaming;
        engine.watching.label_selectors = selectors(&watching.label_selectors);
        engine.watching.field_selectors = selectors(&watching.field_selectors);
        engine.watching.shard_selectors = selectors(&watching.shard_selectors);
        engine.queueing.worker_limit = queueing.worker_limit;
        engine.queueing.exit_timeout = queueing.exit_timeout.as_secs_f64();
        engine.queueing.error_delays = all_seconds(&queueing.error_delays);
        engine.scanning.disabled = scanning.disabled;
        engine.execution.default_backoff = execution.default_backoff.as_secs_f64();
        engine.background.cancellation_polling = Seconds::new(background.cancellation_polling.as_secs_f64());
        engine.background.instant_exit_timeout = Some(background.instant_exit_timeout.as_secs_f64());
        engine.networking.request_timeout = optional_seconds(networking.request_timeout);
        engine.networking.connect_timeout = optional_seconds(networking.connect_timeout);
        engine.networking.error_backoffs = all_seconds(&networking.error_backoffs);
        engine.networking.enforce_retry_after = networking.enforce_retry_after;
        engine.networking.trust_env = networking.trust_env;
        engine.persistence.finalizer.clone_from(&persistence.finalizer);
        engine.persistence.progress_storage = persistence.progress_storage.clone();
        engine.persistence.diffbase_storage = persistence.diffbase_storage.clone();
        engine.persistence.compact = persistence.compact;
        engine.persistence.consistency_timeout = persistence.consistency_timeout.as_secs_f64();
        engine
    }
}

impl Lifecycle {
    /// The lifecycle for the engine.
    pub(crate) fn to_engine(self) -> EngineLifecycle {
        match self {
            Self::Asap => EngineLifecycle::Asap,
            Self::AllAtOnce => EngineLifecycle::AllAtOnce,
            Self::OneByOne => EngineLifecycle::OneByOne,
            Self::Randomized => EngineLifecycle::Randomized,
            Self::Shuffled => EngineLifecycle::Shuffled,
        }
    }
}

fn optional_seconds(duration: Option<Duration>) -> Option<f64> {
    duration.as_ref().map(Duration::as_secs_f64)
}

fn all_seconds(durations: &[Duration]) -> Vec<f64> {
    durations.iter().map(Duration::as_secs_f64).collect()
}

fn selectors(settings: &[(Selector, String)]) -> Vec<SelectorSetting> {
    let setting = |(selector, value): &(Selector, String)| SelectorSetting {
        selector: selector.clone(),
        value: value.clone(),
        index: None,
    };
    settings.iter().map(setting).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_the_engines_but_for_the_storage_in_the_status() {
        let mut expected = EngineSettings::default();
        expected.persistence.compact = true;
        // In Python, an instant is counted in cycles of the event loop; this is the same time.
        expected.background.instant_exit_timeout = Some(0.1);
        assert_eq!(format!("{:?}", Settings::default().to_engine()), format!("{expected:?}"));
    }

    #[test]
    fn durations_become_seconds() {
        let mut settings = Settings::default();
        settings.peering.lifetime = Duration::from_millis(1500);
        settings.watching.server_timeout = Some(Duration::from_millis(1500));
        settings.queueing.error_delays = vec![Duration::from_millis(250)];
        settings.watching.label_selectors.push((crate::selector::named("pods"), "app=x".to_owned()));
        let engine = settings.to_engine();
        assert_eq!((engine.peering.lifetime, engine.watching.server_timeout), (1, Some(1.5)));
        assert_eq!(engine.queueing.error_delays, [0.25]);
        let selector = &engine.watching.label_selectors[0];
        assert_eq!((selector.selector.any_name.as_deref(), &*selector.value), (Some("pods"), "app=x"));
    }
}
