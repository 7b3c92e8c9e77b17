//! The page of metrics, in the text format of Prometheus.

use std::fmt::{Display, Write};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::process::ProcessFigures;
use super::{DURATIONS, FAILURES, Metrics, PATCHES};
use crate::{Clock, StreamState};

/// The type of the content, with the version of the format.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All that is known, as text.
pub(crate) fn render(metrics: &Metrics, clock: &Clock, paused: bool) -> String {
    let mut page = Page::default();
    handlers(&mut page, metrics);
    queue(&mut page, metrics);
    streams(&mut page, metrics, clock);
    requests(&mut page, metrics);
    page.family("kopf_paused", "gauge", "Whether the operator pauses for another one.");
    page.sample("kopf_paused", &[], u8::from(paused));
    process(&mut page, ProcessFigures::now());
    page.0
}

fn handlers(page: &mut Page, metrics: &Metrics) {
    let handlers = metrics.inner.handlers.read().unwrap_or_else(PoisonError::into_inner);
    let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    page.family("kopf_handler_calls_total", "counter", "Calls of handlers that were begun.");
    for ((kind, id), counts) in &*handlers {
        page.sample("kopf_handler_calls_total", &[("handler", id), ("kind", kind)], load(&counts.started));
    }
    page.family("kopf_handler_retries_total", "counter", "Calls of handlers that were not their first attempts.");
    for ((kind, id), counts) in &*handlers {
        page.sample("kopf_handler_retries_total", &[("handler", id), ("kind", kind)], load(&counts.retries));
    }
    page.family(
        "kopf_handler_failures_total",
        "counter",
        "Calls of handlers that have failed, by what they have raised.",
    );
    for ((kind, id), counts) in &*handlers {
        for (reason, count) in FAILURES.iter().zip(&counts.failed) {
            let labels = [("handler", &**id), ("kind", kind), ("reason", reason)];
            page.sample("kopf_handler_failures_total", &labels, load(count));
        }
    }
    page.family("kopf_handler_duration_seconds", "histogram", "How long the calls of handlers have taken.");
    for ((kind, id), counts) in &*handlers {
        let mut sum = 0;
        for (index, count) in counts.durations.iter().enumerate() {
            sum += load(count);
            let bound = DURATIONS.get(index).map_or_else(|| "+Inf".to_owned(), ToString::to_string);
            let labels = [("handler", &**id), ("kind", kind), ("le", &bound)];
            page.sample("kopf_handler_duration_seconds_bucket", &labels, sum);
        }
        let labels = [("handler", &**id), ("kind", kind)];
        page.sample("kopf_handler_duration_seconds_sum", &labels, load(&counts.microseconds) as f64 / 1e6);
        page.sample("kopf_handler_duration_seconds_count", &labels, sum);
    }
}

fn queue(page: &mut Page, metrics: &Metrics) {
    let queue = metrics.inner.queue.read().unwrap_or_else(PoisonError::into_inner);
    let Some(figures) = queue.as_ref().map(|figures| figures()) else { return };
    page.family("kopf_queue_objects", "gauge", "Objects in memory, by what is being done with them.");
    let idle = figures.objects.saturating_sub(figures.waiting + figures.blocked + figures.running);
    for (state, count) in
        [("waiting", figures.waiting), ("gated", figures.blocked), ("running", figures.running), ("idle", idle)]
    {
        page.sample("kopf_queue_objects", &[("state", state)], count);
    }
    page.family("kopf_queue_oldest_seconds", "gauge", "How long the first object of the queue has waited.");
    page.sample("kopf_queue_oldest_seconds", &[], figures.oldest_seconds);
}

fn streams(page: &mut Page, metrics: &Metrics, clock: &Clock) {
    let streams = metrics.streams();
    let now = clock.now();
    let each = |page: &mut Page, name: &str, value: &dyn Fn(&super::ObservedStreamHealth) -> Option<f64>| {
        for stream in &streams {
            if let Some(value) = value(stream) {
                let labels = [("resource", &*stream.resource), ("namespace", &*stream.namespace)];
                page.sample(name, &labels, value);
            }
        }
    };
    page.family("kopf_stream_up", "gauge", "Whether the watch-stream lists or watches at the moment.");
    each(page, "kopf_stream_up", &|stream| {
        Some(f64::from(u8::from(matches!(stream.health.state(), StreamState::Listing | StreamState::Watching))))
    });
    page.family("kopf_stream_silence_seconds", "gauge", "The time since the last sign of life of the watch-stream.");
    each(page, "kopf_stream_silence_seconds", &|stream| {
        stream.health.last_event().map(|last| now.duration_since(last).as_secs_f64().max(0.0))
    });
    page.family("kopf_stream_restarts_total", "counter", "How often the watch was opened again.");
    each(page, "kopf_stream_restarts_total", &|stream| Some(stream.health.restarts() as f64));
    page.family("kopf_stream_listings_total", "counter", "How often all objects were listed.");
    each(page, "kopf_stream_listings_total", &|stream| Some(stream.health.listings() as f64));
    page.family("kopf_stream_failures", "gauge", "Failures of the watch-stream in a row; zero while it works.");
    each(page, "kopf_stream_failures", &|stream| Some(f64::from(stream.health.failures())));
}

fn requests(page: &mut Page, metrics: &Metrics) {
    if let Some(api) = &*metrics.inner.api.read().unwrap_or_else(PoisonError::into_inner) {
        page.family("kopf_api_requests_total", "counter", "Requests to the Kubernetes API, by verb and answer.");
        for (verb, code, count) in api.counters().snapshot() {
            page.sample("kopf_api_requests_total", &[("verb", verb), ("code", code)], count);
        }
    }
    page.family("kopf_patches_total", "counter", "Changes of handled objects, by what has come of them.");
    for (result, count) in PATCHES.iter().zip(&metrics.inner.patches) {
        page.sample("kopf_patches_total", &[("result", result)], count.load(Ordering::Relaxed));
    }
}

fn process(page: &mut Page, figures: ProcessFigures) {
    let families = [
        ("process_resident_memory_bytes", "gauge", "The memory of this process.", figures.resident_bytes),
        (
            "process_cpu_seconds_total",
            "counter",
            "The time of the processors used by this process.",
            figures.cpu_seconds,
        ),
        ("process_open_fds", "gauge", "Open files and sockets.", figures.open_fds),
        ("process_threads", "gauge", "Threads of this process.", figures.threads),
    ];
    for (name, kind, help, value) in families {
        if let Some(value) = value {
            page.family(name, kind, help);
            page.sample(name, &[], value);
        }
    }
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let opening = if index == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{opening}{label}=\"{escaped}\"");
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kopf_reaction::{CallError, Handler, HandlerType};

    use super::*;
    use crate::metrics::{PatchResult, QueueFigures};

    #[tokio::test]
    async fn the_whole_page() {
        let metrics = Metrics::default();
        let clock = Clock::system();
        let handler = Handler::new(0, "say \"hi\"", HandlerType::Change);
        let counts = metrics.of(&handler);
        drop(metrics.begin(&handler, 1, &clock));
        counts.finish(&Ok(()), Duration::from_millis(3));
        counts.finish::<()>(&Err(CallError::TimedOut), Duration::from_secs(3600));
        metrics.count_patch(PatchResult::Gone);
        metrics.watch_queue(|| QueueFigures {
            waiting: 2,
            blocked: 1,
            running: 3,
            objects: 10,
            oldest_seconds: 0.5,
            closed: true,
        });
        let page = render(&metrics, &clock, true);
        for line in [
            "# TYPE kopf_handler_duration_seconds histogram",
            r#"kopf_handler_calls_total{handler="say \"hi\"",kind="change"} 1"#,
            r#"kopf_handler_retries_total{handler="say \"hi\"",kind="change"} 1"#,
            r#"kopf_handler_failures_total{handler="say \"hi\"",kind="change",reason="timeout"} 1"#,
            r#"kopf_handler_duration_seconds_bucket{handler="say \"hi\"",kind="change",le="0.001"} 0"#,
            r#"kopf_handler_duration_seconds_bucket{handler="say \"hi\"",kind="change",le="0.005"} 1"#,
            r#"kopf_handler_duration_seconds_bucket{handler="say \"hi\"",kind="change",le="+Inf"} 2"#,
            r#"kopf_handler_duration_seconds_sum{handler="say \"hi\"",kind="change"} 3600.003"#,
            r#"kopf_patches_total{result="gone"} 1"#,
            r#"kopf_queue_objects{state="idle"} 4"#,
            "kopf_queue_oldest_seconds 0.5",
            "kopf_paused 1",
        ] {
            assert!(page.lines().any(|known| known == line), "{line}\n{page}");
        }
        let families = page.lines().filter(|line| line.starts_with("# TYPE")).count();
        let names: std::collections::BTreeSet<_> = page.lines().filter(|line| line.starts_with("# TYPE")).collect();
        assert_eq!(families, names.len(), "no family is there twice");
    }
}
