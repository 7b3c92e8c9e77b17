//! An operator for memcached: it creates a Deployment for each object, scales it, and deletes it with the object.
//! It keeps the names of the pods in `status.nodes`.
//!
//! Run with `kubectl apply -f examples/rust/memcached/crd.yaml && cargo run -p kopf-example-memcached -- -A`,
//! then `kubectl apply -f examples/rust/memcached/object.yaml`.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kopf::extract::{Logger, Meta, Patch, Spec};
use kopf::{Client, Error, Operator, of, on};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::{CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[cfg(test)]
mod tests;

/// What users write into the spec of their objects.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "cache.example.com", version = "v1alpha1", kind = "Memcached", namespaced)]
struct MemcachedSpec {
    /// The number of instances.
    #[serde(default = "one")]
    size: usize,
}

fn one() -> usize {
    1
}

async fn create(spec: Spec<MemcachedSpec>, meta: Meta, client: Client, logger: Logger) -> kopf::Result<()> {
    logger.info(format_args!("Creating a deployment of {} instances.", spec.size));
    let deployment = deployment_of(&meta, spec.size)?;
    match deployments(client, &meta).create(&PostParams::default(), &deployment).await {
        Ok(_) => logger.info("The deployment is created."),
        // An earlier attempt created it, but failed afterwards.
        Err(kube::Error::Api(status)) if status.is_already_exists() => logger.warn("The deployment exists already."),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

async fn scale(spec: Spec<MemcachedSpec>, meta: Meta, client: Client, logger: Logger) -> kopf::Result<()> {
    let patch = kube::api::Patch::Merge(json!({"spec": {"replicas": spec.size}}));
    deployments(client, &meta).patch(meta.name(), &Default::default(), &patch).await?;
    logger.info(format_args!("The deployment is scaled to {} instances.", spec.size));
    Ok(())
}

/// Writes the names of the pods to the status, and retries until all pods exist.
async fn update_status(spec: Spec<MemcachedSpec>, meta: Meta, client: Client, patch: Patch) -> kopf::Result<()> {
    let pods: Api<Pod> = Api::namespaced(client, meta.namespace().unwrap_or("default"));
    let ours = ListParams::default().labels(&format!("app=memcached,memcached={}", meta.name()));
    let alive = pods.list(&ours).await?.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let mut nodes: Vec<String> = alive.map(|pod| pod.name_any()).collect();
    nodes.sort();
    patch.status("nodes", &nodes)?;
    if nodes.len() != spec.size {
        let text = format!("there are {} pods of {}", nodes.len(), spec.size);
        return Err(Error::temporary(text).after(Duration::from_secs(1)));
    }
    Ok(())
}

/// The owner reference would be enough, but so it happens sooner, and with a log message.
async fn delete(meta: Meta, client: Client, logger: Logger) -> kopf::Result<()> {
    match deployments(client, &meta).delete(meta.name(), &DeleteParams::background()).await {
        Ok(_) => logger.info("The deployment is deleted."),
        Err(kube::Error::Api(status)) if status.is_not_found() => logger.warn("The deployment is gone already."),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn deployments(client: Client, meta: &Meta) -> Api<Deployment> {
    Api::namespaced(client, meta.namespace().unwrap_or("default"))
}

fn deployment_of(meta: &Meta, size: usize) -> kopf::Result<Deployment> {
    let labels = json!({"app": "memcached", "memcached": meta.name()});
    let container = json!({
        "name": "memcached",
        "image": "memcached:1.4.36",
        "ports": [{"containerPort": 11211}],
    });
    Ok(serde_json::from_value(json!({
        "metadata": {"name": meta.name(), "labels": labels, "ownerReferences": [meta.owner_reference()]},
        "spec": {
            "replicas": size,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }))?)
}

fn main() -> kopf::ExitCode {
    let backoff = on::exponential(Duration::from_secs(1)).max(Duration::from_secs(60)).jitter(0.1);
    Operator::new()
        .on(on::create(of::<Memcached>()).retries(5).backoff(backoff), create)
        .on(on::update(of::<Memcached>()).field("spec.size").backoff(backoff), scale)
        .on(on::create(of::<Memcached>()), update_status)
        .on(on::update(of::<Memcached>()), update_status)
        .on(on::resume(of::<Memcached>()), update_status)
        .on(on::delete(of::<Memcached>()).backoff(backoff), delete)
        .main()
}
