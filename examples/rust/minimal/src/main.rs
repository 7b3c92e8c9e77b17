//! The smallest useful operator: it greets objects when they are created, changed and deleted.
//!
//! Run with `kubectl apply -f examples/rust/minimal/crd.yaml && cargo run -p kopf-example-minimal -- -A`,
//! then `kubectl apply -f examples/rust/minimal/object.yaml`.

use kopf::extract::{Diff, Logger, Meta, Patch, Spec};
use kopf::{Operator, of, on};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What users write into the spec of their objects.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[kube(group = "kopf.dev", version = "v1", kind = "KopfExample", namespaced)]
struct KopfExampleSpec {
    field: Option<String>,
}

/// The result of the handlers: the operator stores it in `status.create` and `status.update`.
#[derive(Debug, PartialEq, Serialize)]
struct Greeting {
    message: String,
}

async fn create(spec: Spec<KopfExampleSpec>, meta: Meta, patch: Patch, logger: Logger) -> kopf::Result<Greeting> {
    let field = spec.field.as_deref().unwrap_or("nothing");
    logger.info(format_args!("Hello, {}! You come with {field}.", meta.name()));
    patch.status("field", field)?;
    Ok(Greeting { message: format!("Hello, {}!", meta.name()) })
}

async fn update(spec: Spec<KopfExampleSpec>, diff: Diff, patch: Patch, logger: Logger) -> kopf::Result<Greeting> {
    for change in diff.iter() {
        logger.info(format_args!("{} was {}, and now is {}.", change.field, change.old, change.new));
    }
    patch.status("field", spec.field.as_deref().unwrap_or("nothing"))?;
    Ok(Greeting { message: format!("{} changes are seen.", diff.len()) })
}

async fn delete(meta: Meta, logger: Logger) {
    logger.info(format_args!("Goodbye, {}!", meta.name()));
}

fn main() -> kopf::ExitCode {
    Operator::new()
        .on(on::create(of::<KopfExample>()), create)
        .on(on::update(of::<KopfExample>()), update)
        .on(on::delete(of::<KopfExample>()), delete)
        .main()
}

#[cfg(test)]
mod tests {
    use kube::api::ObjectMeta;
    use serde_json::json;

    use super::*;

    fn meta() -> Meta {
        let metadata = ObjectMeta { name: Some("my-example".into()), ..ObjectMeta::default() };
        Meta::new("kopf.dev/v1", "KopfExample", metadata)
    }

    #[tokio::test]
    async fn new_objects_are_greeted() {
        let patch = Patch::new();
        let spec = Spec(KopfExampleSpec { field: Some("value".into()) });
        let greeting = create(spec, meta(), patch.clone(), Logger::new()).await.unwrap();
        assert_eq!(greeting, Greeting { message: "Hello, my-example!".into() });
        assert_eq!(patch.changes(), json!({"status": {"field": "value"}}));
    }

    #[tokio::test]
    async fn changes_are_counted() {
        let patch = Patch::new();
        let spec = Spec(KopfExampleSpec::default());
        let greeting = update(spec, Diff::default(), patch.clone(), Logger::new()).await.unwrap();
        assert_eq!(greeting, Greeting { message: "0 changes are seen.".into() });
        assert_eq!(patch.changes(), json!({"status": {"field": "nothing"}}));
    }

    #[tokio::test]
    async fn deletion_always_succeeds() {
        delete(meta(), Logger::new()).await;
    }
}
