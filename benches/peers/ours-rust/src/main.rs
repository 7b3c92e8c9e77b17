//! The benchmark's "widget" operator on our Rust front.
//!
//! The same job as the other peers: add a finalizer on first sight, write `status.message` and
//! `status.observedGeneration` for every new generation of the spec, remove the finalizer on deletion.
//!
//! With `BENCH_TIMERS=SECONDS`, each object also has a timer with this interval that does nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kopf::extract::{Meta, Patch, Spec};
use kopf::{Operator, of, on};
use kube::CustomResource;
use mimalloc::MiMalloc;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// It returns free memory to the system, and is faster than the allocator of the C library.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "bench.dev", version = "v1", kind = "Widget", namespaced)]
struct WidgetSpec {
    title: String,
    color: String,
    size: i64,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    settings: BTreeMap<String, String>,
    #[serde(default)]
    payload: String,
}

async fn apply(spec: Spec<WidgetSpec>, meta: Meta, patch: Patch) -> kopf::Result<()> {
    let message = format!("{}: {} {} [{}]", spec.title, spec.size, spec.color, spec.tags.join(","));
    patch.status("message", message)?;
    patch.status("observedGeneration", meta.generation)?;
    Ok(())
}

async fn cleanup() {}

static TICKS: AtomicU64 = AtomicU64::new(0);

async fn tick() {
    let ticks = TICKS.fetch_add(1, Ordering::Relaxed) + 1;
    if ticks.is_multiple_of(100) {
        println!("ticks: {ticks}");
    }
}

fn main() -> kopf::ExitCode {
    let operator = Operator::new()
        .settings(|settings| {
            settings.posting.enabled = false;
            settings.persistence.finalizer = "bench.dev/kopf".to_owned();
        })
        .on(on::create(of::<Widget>()), apply)
        .on(on::update(of::<Widget>()), apply)
        .on(on::delete(of::<Widget>()), cleanup);
    let interval = std::env::var("BENCH_TIMERS").ok().and_then(|text| text.parse().ok());
    match interval.map(Duration::from_secs_f64) {
        Some(interval) => operator.on(on::timer(of::<Widget>()).every(interval), tick).main(),
        None => operator.main(),
    }
}
