//! Workloads as clients see them: made, scaled, rolled out, deleted.

// Tests may panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Value, json};

use crate::common::Probe;

const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

fn deployment(name: &str, replicas: i64, image: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"tier": "front"}, "annotations": {"note": "hi"}},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": {"p": "q"}},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    })
}

fn items(list: &Value) -> Vec<Value> {
    list["items"].as_array().cloned().unwrap_or_default()
}

fn is_settled(replicas: i64) -> impl Fn(&Value) -> bool {
    move |object| {
        let status = &object["status"];
        let count = |field: &str| status[field].as_i64().unwrap_or_default();
        object["metadata"]["generation"] == status["observedGeneration"]
            && ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|field| count(field) == replicas)
            && count("terminatingReplicas") == 0
            && status["conditions"].as_array().is_some_and(|list| {
                list.len() == 2 && list.iter().any(|condition| condition["reason"] == "NewReplicaSetAvailable")
            })
    }
}

/// The object without what differs from run to run.
fn normalized(object: &Value, names: &[(&str, &str)]) -> Value {
    let mut text = object.to_string();
    for (name, shown) in names {
        text = text.replace(name, shown);
    }
    let mut value: Value = serde_json::from_str(&text).unwrap();
    strip(&mut value);
    value
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for name in ["uid", "resourceVersion", "managedFields"] {
                fields.shift_remove(name);
            }
            for (name, field) in fields.iter_mut() {
                if name.ends_with("Time") || name.ends_with("Timestamp") || name.ends_with("At") {
                    if field.is_string() {
                        *field = json!("T");
                    }
                } else {
                    strip(field);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_becomes_pods() {
    let probe = Probe::with_workloads();
    probe.create(DEPLOYMENTS, deployment("web", 3, "nginx")).await;
    let path = format!("{DEPLOYMENTS}/web");
    let settled = probe.wait_for(&path, is_settled(3)).await;
    let sets = items(&probe.get(REPLICA_SETS).await);
    assert_eq!(sets.len(), 1, "{sets:#?}");
    let hash = sets[0]["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
    // As observed on a real cluster.
    assert_eq!(
        normalized(&settled["status"], &[(hash, "HASH")]),
        json!({
            "observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
            "terminatingReplicas": 0,
            "conditions": [
                {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
                 "message": "Deployment has minimum availability.", "lastUpdateTime": "T", "lastTransitionTime": "T"},
                {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
                 "message": "ReplicaSet \"web-HASH\" has successfully progressed.",
                 "lastUpdateTime": "T", "lastTransitionTime": "T"},
            ],
        })
    );
    assert_eq!(settled["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    assert_eq!(
        normalized(&sets[0]["metadata"], &[(hash, "HASH")]),
        json!({
            "name": "web-HASH", "namespace": "default", "generation": 1, "creationTimestamp": "T",
            "labels": {"app": "web", "pod-template-hash": "HASH"},
            "annotations": {"note": "hi", "deployment.kubernetes.io/revision": "1",
                "deployment.kubernetes.io/desired-replicas": "3", "deployment.kubernetes.io/max-replicas": "4"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": true,
                "blockOwnerDeletion": true}],
        })
    );
    assert_eq!(
        normalized(&sets[0]["status"], &[]),
        json!({"replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
            "terminatingReplicas": 0, "observedGeneration": 1})
    );
    let pods = items(&probe.get(PODS).await);
    assert_eq!(pods.len(), 3, "{pods:#?}");
    let pod = &pods[0];
    assert_eq!(pod["spec"]["nodeName"], "kopf-node");
    assert_eq!(pod["metadata"]["labels"], json!({"app": "web", "pod-template-hash": hash}));
    assert_eq!(pod["metadata"]["annotations"], json!({"p": "q"}));
    assert_eq!(pod["status"]["phase"], "Running");
    let mut addresses: Vec<&str> = pods.iter().map(|pod| pod["status"]["podIP"].as_str().unwrap()).collect();
    addresses.dedup();
    assert_eq!(addresses.len(), 3, "{addresses:?}");
    let table = probe.table(DEPLOYMENTS).await;
    assert_eq!(table["rows"][0]["cells"][1], "3/3", "{table:#}");
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_scaled_rolled_out_and_rolled_back() {
    let probe = Probe::with_workloads();
    probe.create(DEPLOYMENTS, deployment("web", 3, "nginx:1")).await;
    let path = format!("{DEPLOYMENTS}/web");
    probe.wait_for(&path, is_settled(3)).await;
    probe.patch(&format!("{path}/scale"), json!({"spec": {"replicas": 5}})).await;
    probe.wait_for(&path, is_settled(5)).await;
    let template =
        |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}});
    probe.patch(&path, template("nginx:2")).await;
    let rolled = probe.wait_for(&path, is_settled(5)).await;
    assert_eq!(rolled["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    let sizes = |sets: &Value| -> Vec<(String, i64, String)> {
        let mut sizes: Vec<_> = items(sets)
            .iter()
            .map(|set| {
                let revision = &set["metadata"]["annotations"]["deployment.kubernetes.io/revision"];
                let history = &set["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"];
                (
                    revision.as_str().unwrap().to_owned(),
                    set["spec"]["replicas"].as_i64().unwrap(),
                    history.as_str().unwrap_or_default().to_owned(),
                )
            })
            .collect();
        sizes.sort();
        sizes
    };
    let set = |revision: &str, size: i64, history: &str| (revision.to_owned(), size, history.to_owned());
    assert_eq!(sizes(&probe.get(REPLICA_SETS).await), [set("1", 0, ""), set("2", 5, "")]);
    probe.patch(&path, template("nginx:1")).await;
    probe.wait_for(&path, is_settled(5)).await;
    assert_eq!(sizes(&probe.get(REPLICA_SETS).await), [set("2", 0, ""), set("3", 5, "1")]);
    let images: Vec<Value> =
        items(&probe.get(PODS).await).iter().map(|pod| pod["spec"]["containers"][0]["image"].clone()).collect();
    assert_eq!(images, vec![json!("nginx:1"); 5]);
}

#[tokio::test(start_paused = true)]
async fn everything_goes_with_the_deployment() {
    let probe = Probe::with_workloads();
    probe.create(DEPLOYMENTS, deployment("web", 2, "nginx")).await;
    let path = format!("{DEPLOYMENTS}/web");
    probe.wait_for(&path, is_settled(2)).await;
    probe.expect(200, "DELETE", &path, Value::Null).await;
    probe.wait_for(PODS, |pods| items(pods).is_empty()).await;
    assert_eq!(items(&probe.get(REPLICA_SETS).await).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn pods_are_replaced() {
    let probe = Probe::with_workloads();
    probe.create(DEPLOYMENTS, deployment("web", 2, "nginx")).await;
    let path = format!("{DEPLOYMENTS}/web");
    probe.wait_for(&path, is_settled(2)).await;
    let pods = items(&probe.get(PODS).await);
    let gone = pods[0]["metadata"]["name"].as_str().unwrap();
    let (_, answer) = probe.ask("DELETE", &format!("{PODS}/{gone}"), Value::Null).await;
    assert_eq!(answer["metadata"]["deletionGracePeriodSeconds"], 30, "{answer:#}");
    let full = |pods: &Value| {
        let pods = items(pods);
        pods.len() == 2 && pods.iter().all(|pod| pod["status"]["phase"] == "Running" && pod["metadata"]["name"] != gone)
    };
    probe.wait_for(PODS, full).await;
}

#[tokio::test(start_paused = true)]
async fn recreation_waits_for_the_end_of_old_pods() {
    let probe = Probe::with_workloads();
    let mut object = deployment("web", 2, "nginx:1");
    object["spec"]["strategy"] = json!({"type": "Recreate"});
    probe.create(DEPLOYMENTS, object).await;
    let path = format!("{DEPLOYMENTS}/web");
    probe.wait_for(&path, is_settled(2)).await;
    let mut watch = probe.watch(&format!("{PODS}?watch=true&resourceVersion=0")).await;
    probe.patch(&path, json!({"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})).await;
    probe.wait_for(&path, is_settled(2)).await;
    let mut alive = 0;
    let mut new = 0;
    while new < 2 {
        let event = watch.next().await.unwrap();
        let is_new = event["object"]["metadata"]["labels"]["v"] == "2";
        match (event["type"].as_str().unwrap(), is_new) {
            ("ADDED", false) => alive += 1,
            ("DELETED", false) => alive -= 1,
            ("ADDED", true) => {
                new += 1;
                assert_eq!(alive, 0, "a new pod was made while an old one was there");
            }
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn failing_images_miss_the_deadline() {
    let probe = Probe::with_workloads();
    probe.create(DEPLOYMENTS, deployment("bad", 1, "fail/nginx")).await;
    let path = format!("{DEPLOYMENTS}/bad");
    let crashing = |pods: &Value| {
        let status = &items(pods)[0]["status"]["containerStatuses"][0];
        status["state"]["waiting"]["reason"] == "CrashLoopBackOff" && status["restartCount"] == 1
    };
    probe.wait_for(&format!("{DEPLOYMENTS}/bad"), |object| object["status"]["replicas"] == 1).await;
    probe.wait_for(PODS, crashing).await;
    probe.cluster.advance(std::time::Duration::from_secs(700));
    let late = |object: &Value| {
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["reason"] == "ProgressDeadlineExceeded")
    };
    probe.wait_for(&path, late).await;
    let pods = items(&probe.get(PODS).await);
    // At 10, 30, 70, 150, 310 and 610 seconds.
    assert_eq!(pods[0]["status"]["containerStatuses"][0]["restartCount"], 7, "{:#}", pods[0]["status"]);
}

#[tokio::test(start_paused = true)]
async fn single_pods_run_if_they_fit_the_node() {
    let probe = Probe::with_workloads();
    let pod = |name: &str, selector: Value| {
        json!({"metadata": {"name": name},
            "spec": {"nodeSelector": selector, "containers": [{"name": "c", "image": "nginx"}]}})
    };
    probe.create(PODS, pod("fits", json!({}))).await;
    probe.create(PODS, pod("unfit", json!({"disk": "ssd"}))).await;
    probe.wait_for(&format!("{PODS}/fits"), |pod| pod["status"]["phase"] == "Running").await;
    let scheduled = |pod: &Value| pod["status"]["conditions"][0].clone();
    let unfit = probe.wait_for(&format!("{PODS}/unfit"), |pod| !scheduled(pod).is_null()).await;
    assert_eq!(scheduled(&unfit)["reason"], "Unschedulable", "{unfit:#}");
    let node = "/api/v1/nodes/kopf-node";
    probe.patch(node, json!({"metadata": {"labels": {"disk": "ssd"}}})).await;
    probe.wait_for(&format!("{PODS}/unfit"), |pod| pod["status"]["phase"] == "Running").await;
}
