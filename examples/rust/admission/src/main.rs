//! An operator with admission webhooks: it completes new objects, and denies bad ones.
//!
//! Run with `kubectl apply -f examples/rust/admission/crd.yaml && cargo run -p kopf-example-admission -- -A`,
//! on the machine of the cluster: the operator serves the webhooks on its loopback.

use kopf::extract::{Meta, Patch, Review, Spec, Warnings};
use kopf::webhook::{Operation, Server};
use kopf::{Error, Operator, of, on};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What users write into the spec of their objects.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[kube(group = "kopf.dev", version = "v1", kind = "KopfExample", namespaced)]
struct KopfExampleSpec {
    size: Option<u32>,
}

async fn set_defaults(spec: Spec<KopfExampleSpec>, patch: Patch) -> kopf::Result<()> {
    if spec.size.is_none() {
        patch.spec("size", 1)?;
    }
    Ok(())
}

async fn check_size(spec: Spec<KopfExampleSpec>, warnings: Warnings) -> kopf::Result<()> {
    match spec.size {
        Some(0) => Err(Error::denied(400, "The size must not be zero.")),
        Some(6..) => Err(Error::denied(400, "The size is 5 at most.")),
        Some(5) => {
            warnings.add("It cannot grow any more.");
            Ok(())
        }
        _ => Ok(()),
    }
}

async fn deny_deletion(meta: Meta, review: Review) -> kopf::Result<()> {
    let user = review.user.username.as_deref().unwrap_or("Somebody");
    Err(Error::denied(403, format!("{user} must not delete {}: it is protected.", meta.name())))
}

fn main() -> kopf::ExitCode {
    Operator::new()
        .webhooks(Server::new().managed("admission.example.com"))
        .on(on::mutate(of::<KopfExample>()).operations([Operation::Create]), set_defaults)
        .on(on::validate(of::<KopfExample>()).operations([Operation::Create, Operation::Update]), check_size)
        .on(on::validate(of::<KopfExample>()).operations([Operation::Delete]).label("protected", "yes"), deny_deletion)
        .main()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn sizes_are_set_where_there_is_none() {
        for (size, expected) in [(None, json!({"spec": {"size": 1}})), (Some(3), json!({}))] {
            let patch = Patch::new();
            set_defaults(Spec(KopfExampleSpec { size }), patch.clone()).await.unwrap();
            assert_eq!(patch.changes(), expected);
        }
    }

    #[tokio::test]
    async fn sizes_are_checked() {
        let table = [(None, true, 0), (Some(0), false, 0), (Some(5), true, 1), (Some(6), false, 0)];
        for (size, accepted, warned) in table {
            let warnings = Warnings::new();
            let answer = check_size(Spec(KopfExampleSpec { size }), warnings.clone()).await;
            assert_eq!((answer.is_ok(), warnings.messages().len()), (accepted, warned), "{size:?}");
        }
    }
}
