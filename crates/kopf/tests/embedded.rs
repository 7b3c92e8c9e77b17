//! Operators on the embedded cluster, in one process and without a network: hours of an object's life, with all
//! retries, pass in milliseconds.

// Helpers of tests may panic.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::future::Future;
use std::time::Duration;

use kopf::extract::{Index, Meta, Patch, Retry, Spec};
use kopf::{Operator, of, on};
use kopf_cluster::{Cluster, Effect, Fault, Options};
use kube::api::{DeleteParams, PatchParams, PostParams};
use kube::{Api, Client, CustomResource, CustomResourceExt, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::oneshot;

#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[kube(group = "kopf.dev", version = "v1", kind = "Example", namespaced, status = "ExampleStatus")]
struct ExampleSpec {
    size: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
struct ExampleStatus {
    size: Option<i32>,
    attempts: Option<i64>,
}

async fn take_size(spec: Spec<ExampleSpec>, patch: Patch) -> kopf::Result<()> {
    patch.status("size", spec.size)?;
    Ok(())
}

async fn say_goodbye(_: Meta) {}

async fn fail_thrice(retry: Retry, patch: Patch) -> kopf::Result<()> {
    patch.status("attempts", retry.0 + 1)?;
    match retry.0 {
        0..3 => Err(kopf::Error::temporary("not yet").after(Duration::from_secs(3600))),
        _ => Ok(()),
    }
}

/// A cluster with the custom resource of the tests.
async fn cluster() -> (Cluster, Client) {
    let cluster = Cluster::new(Options { workloads: None, ..Options::default() });
    cluster.apply(&serde_json::to_string(&Example::crd()).unwrap(), "default").await.unwrap();
    let client = Client::new(cluster.service(), "default");
    (cluster, client)
}

/// Runs the operator while the steps are made; an error of either fails the test.
async fn run_while(operator: Operator, client: Client, steps: impl Future<Output = ()>) {
    let (end, ended) = oneshot::channel::<()>();
    let operator = operator.simulated_time().all_namespaces().stop_when(async move {
        let _ = ended.await;
    });
    let steps = async move {
        steps.await;
        let _ = end.send(());
    };
    let (done, ()) = tokio::join!(operator.run(client), steps);
    done.unwrap();
}

/// Waits until an object fulfils the condition. Time is paused, so that waiting costs none; the pauses grow.
async fn wait_for(api: &Api<Example>, name: &str, condition: impl Fn(Option<&Example>) -> bool) {
    let mut pause = Duration::from_millis(1);
    while pause < Duration::from_secs(86_400) {
        if condition(api.get_opt(name).await.unwrap().as_ref()) {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = pause * 11 / 10;
    }
    panic!("{name} is {:?}", api.get_opt(name).await.unwrap());
}

fn size(example: Option<&Example>) -> Option<i32> {
    example?.status.as_ref()?.size
}

#[tokio::test(start_paused = true)]
async fn an_object_is_created_updated_and_deleted() {
    let (_cluster, client) = cluster().await;
    let api = Api::<Example>::default_namespaced(client.clone());
    let operator = Operator::new()
        .on(on::create(of::<Example>()), take_size)
        .on(on::update(of::<Example>()).id("resize"), take_size)
        .on(on::delete(of::<Example>()), say_goodbye);
    run_while(operator, client, async {
        api.create(&PostParams::default(), &Example::new("one", ExampleSpec { size: 3 })).await.unwrap();
        wait_for(&api, "one", |example| size(example) == Some(3)).await;
        assert_eq!(api.get("one").await.unwrap().finalizers(), ["kopf.zalando.org/KopfFinalizerMarker"]);
        let patch = kube::api::Patch::Merge(json!({"spec": {"size": 5}}));
        api.patch("one", &PatchParams::default(), &patch).await.unwrap();
        wait_for(&api, "one", |example| size(example) == Some(5)).await;
        api.delete("one", &DeleteParams::default()).await.unwrap();
        wait_for(&api, "one", |example| example.is_none()).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn hours_of_retries_take_no_time() {
    let (_cluster, client) = cluster().await;
    let api = Api::<Example>::default_namespaced(client.clone());
    let started = tokio::time::Instant::now();
    run_while(Operator::new().on(on::create(of::<Example>()), fail_thrice), client, async {
        api.create(&PostParams::default(), &Example::new("one", ExampleSpec { size: 1 })).await.unwrap();
        let attempts = |example: Option<&Example>| example?.status.as_ref()?.attempts;
        wait_for(&api, "one", |example| attempts(example) == Some(4)).await;
    })
    .await;
    assert!(started.elapsed() >= Duration::from_secs(3 * 3600), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn no_object_is_lost_when_the_api_fails() {
    let (cluster, client) = cluster().await;
    let api = Api::<Example>::default_namespaced(client.clone());
    run_while(Operator::new().on(on::create(of::<Example>()), take_size), client, async {
        let resource = "examples.kopf.dev";
        for (index, effect) in
            [Effect::EndWatch, Effect::ExpireWatch, Effect::SilenceWatch, Effect::error(500)].into_iter().enumerate()
        {
            let name = format!("example-{index}");
            let verb = if matches!(effect, Effect::Error { .. }) { "patch" } else { "watch" };
            let id = cluster.faults().add(Fault::new(effect).verb(verb).resource(resource).times(1)).unwrap();
            api.create(&PostParams::default(), &Example::new(&name, ExampleSpec { size: 7 })).await.unwrap();
            wait_for(&api, &name, |example| size(example) == Some(7)).await;
            cluster.faults().remove(id);
        }
    })
    .await;
}

#[derive(PartialEq, Eq, Hash)]
struct Size(i32);

async fn names_by_size(spec: Spec<ExampleSpec>, meta: Meta) -> kopf::Result<Option<(Size, String)>> {
    match spec.size {
        ..0 => Err(kopf::Error::permanent("there is no such size")),
        0 => Ok(None),
        size => Ok(Some((Size(size), meta.name().to_owned()))),
    }
}

async fn count_same(spec: Spec<ExampleSpec>, names: Index<Size, String>, patch: Patch) -> kopf::Result<()> {
    patch.status("size", names.get(&Size(spec.size)).len())?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn indexes_are_complete_before_the_first_handler() {
    let (_cluster, client) = cluster().await;
    let api = Api::<Example>::default_namespaced(client.clone());
    for (number, size) in [3, 3, 3, 5, 0, -1].into_iter().enumerate() {
        let example = Example::new(&format!("example-{number}"), ExampleSpec { size });
        api.create(&PostParams::default(), &example).await.unwrap();
    }
    let operator =
        Operator::new().index(on::index(of::<Example>()), names_by_size).on(on::create(of::<Example>()), count_same);
    run_while(operator, client, async {
        for (number, same) in [3, 3, 3, 1, 0, 0].into_iter().enumerate() {
            wait_for(&api, &format!("example-{number}"), |example| size(example) == Some(same)).await;
        }
        api.delete("example-0", &DeleteParams::default()).await.unwrap();
        wait_for(&api, "example-0", |example| example.is_none()).await;
        // A change of an object moves it, too, before its handlers are called.
        api.create(&PostParams::default(), &Example::new("late", ExampleSpec { size: 3 })).await.unwrap();
        wait_for(&api, "late", |example| size(example) == Some(3)).await;
    })
    .await;
}

#[tokio::test]
async fn an_index_that_no_function_fills_keeps_the_operator_from_starting() {
    let (_cluster, client) = cluster().await;
    let operator = Operator::new().on(on::create(of::<Example>()), count_same);
    let refused = operator.run(client).await.unwrap_err().to_string();
    assert!(refused.contains("handler 'count_same' has a parameter `Index<embedded::Size, "), "{refused}");
}

/// The keep-alive of another operator, sent just now.
fn peer(priority: i64, lifetime: i64) -> serde_json::Value {
    json!({"priority": priority, "lifetime": lifetime, "lastseen": jiff::Timestamp::now().to_string()})
}

#[tokio::test(start_paused = true)]
async fn it_pauses_for_an_operator_of_higher_priority() {
    let (cluster, client) = cluster().await;
    let crd = include_str!("../../../tests/support/crds/peering.yaml");
    cluster.apply(crd, "default").await.unwrap();
    let team = json!({
        "apiVersion": "kopf.dev/v1", "kind": "ClusterKopfPeering", "metadata": {"name": "default"},
        "status": {"other": peer(1, 3600), "lower": peer(-1, 7200), "dead": peer(5, 0)},
    });
    cluster.apply(&team.to_string(), "default").await.unwrap();
    let api = Api::<Example>::default_namespaced(client.clone());
    let started = tokio::time::Instant::now();
    run_while(Operator::new().on(on::create(of::<Example>()), take_size), client, async {
        api.create(&PostParams::default(), &Example::new("one", ExampleSpec { size: 3 })).await.unwrap();
        wait_for(&api, "one", |example| size(example) == Some(3)).await;
    })
    .await;
    let waited = started.elapsed();
    assert!((Duration::from_secs(3590)..Duration::from_secs(7200)).contains(&waited), "{waited:?}");
}

async fn count_objects(names: Index<Size, String>) -> kopf::Result<usize> {
    Ok(names.len())
}

/// The code and the content of a page.
async fn fetch(port: u16, path: &str) -> (String, String) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(("localhost", port)).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap_or_default().to_owned(), body.to_owned())
}

#[tokio::test]
async fn the_operator_serves_probes_and_metrics() {
    let (_cluster, client) = cluster().await;
    let api = Api::<Example>::default_namespaced(client.clone());
    api.create(&PostParams::default(), &Example::new("one", ExampleSpec { size: 3 })).await.unwrap();
    let port = std::net::TcpListener::bind("localhost:0").unwrap().local_addr().unwrap().port();
    let (end, ended) = oneshot::channel::<()>();
    let operator = Operator::new()
        .index(on::index(of::<Example>()), names_by_size)
        .on(on::create(of::<Example>()), take_size)
        .on(on::probe(), count_objects)
        .liveness(format!("http://localhost:{port}/healthz"))
        .all_namespaces()
        .stop_when(async move {
            let _ = ended.await;
        });
    let steps = async {
        wait_for(&api, "one", |example| size(example) == Some(3)).await;
        assert_eq!(fetch(port, "/healthz").await, ("200".to_owned(), r#"{"count_objects":1}"#.to_owned()));
        assert_eq!(fetch(port, "/readyz").await.0, "200");
        let (code, page) = fetch(port, "/metrics").await;
        assert_eq!(code, "200");
        for line in [
            r#"kopf_handler_calls_total{handler="take_size",kind="change"} 1"#,
            r#"kopf_handler_calls_total{handler="count_objects",kind="activity"} 1"#,
            r#"kopf_stream_up{resource="examples.v1.kopf.dev",namespace=""} 1"#,
        ] {
            assert!(page.lines().any(|known| known == line), "{line}\n{page}");
        }
        let _ = end.send(());
    };
    let (done, ()) = tokio::join!(operator.run(client), steps);
    done.unwrap();
}
