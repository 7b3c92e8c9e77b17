//! The benchmark's operator of widgets on our Rust front.
//!
//! The same job as the other peers: add a finalizer on first sight, write `status.message` and
//! `status.observedGeneration` for every new generation of the spec, remove the finalizer on deletion.

use std::collections::BTreeMap;

use kopf::{Meta, Operator, Patch, Spec, create_of, delete_of, update_of};
use kube::CustomResource;
use mimalloc::MiMalloc;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// As in the Python package: it gives back what is free, and is faster than that of the system.
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

fn main() -> kopf::ExitCode {
    Operator::new()
        .settings(|settings| {
            settings.posting.enabled = false;
            settings.persistence.finalizer = "bench.dev/kopf".to_owned();
        })
        .on(create_of::<Widget>(), apply)
        .on(update_of::<Widget>(), apply)
        .on(delete_of::<Widget>(), cleanup)
        .main()
}
