//! An operator that records each of its calls: `tests/real/test_kills.py` kills it again and again, and reads them.
//!
//! Run with `CALLS=calls.txt cargo run -p kopf --example journal -- -A`.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::{Duration, SystemTime};

use kopf::extract::{Meta, Spec};
use kopf::{Operator, of, on};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[kube(group = "kopf.dev", version = "v1", kind = "KopfStatus", plural = "kopfstatuses", namespaced)]
struct KopfStatusSpec {
    x: u64,
}

fn write(handler: &str, meta: &Meta, x: u64) -> kopf::Result<()> {
    let path = std::env::var_os("CALLS").ok_or_else(|| kopf::Error::permanent("$CALLS is not set"))?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let line = format!("{handler} {} {x} {now:.6}\n", meta.name());
    OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes())?;
    Ok(())
}

async fn create(spec: Spec<KopfStatusSpec>, meta: Meta) -> kopf::Result<()> {
    write("create", &meta, spec.x)
}

async fn first(spec: Spec<KopfStatusSpec>, meta: Meta) -> kopf::Result<u64> {
    write("first", &meta, spec.x)?;
    Ok(spec.x)
}

/// Takes some time, so that kills and changes come in the middle of a batch of calls.
async fn second(spec: Spec<KopfStatusSpec>, meta: Meta) -> kopf::Result<u64> {
    write("second", &meta, spec.x)?;
    tokio::time::sleep(Duration::from_millis(spec.x * 37 % 150)).await;
    Ok(spec.x)
}

async fn delete(spec: Spec<KopfStatusSpec>, meta: Meta) -> kopf::Result<()> {
    write("delete", &meta, spec.x)
}

fn main() -> kopf::ExitCode {
    Operator::new()
        .on(on::create(of::<KopfStatus>()), create)
        .on(on::update(of::<KopfStatus>()), first)
        .on(on::update(of::<KopfStatus>()), second)
        .on(on::delete(of::<KopfStatus>()), delete)
        .main()
}
