//! Workloads as clients see them: created, scaled, rolled out, deleted.

// Tests may panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kopf_cluster::{Cluster, Options, Workloads};
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

fn is_rolled_out(replicas: i64) -> impl Fn(&Value) -> bool {
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

/// The object without the values that differ in every run.
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
async fn a_deployment_creates_pods() {
    let probe = Probe::with_workloads();
    probe.create(DEPLOYMENTS, deployment("web", 3, "nginx")).await;
    let path = format!("{DEPLOYMENTS}/web");
    let rolled_out = probe.wait_for(&path, is_rolled_out(3)).await;
    let sets = items(&probe.get(REPLICA_SETS).await);
    assert_eq!(sets.len(), 1, "{sets:#?}");
    let hash = sets[0]["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
    // As observed on a real cluster.
    assert_eq!(
        normalized(&rolled_out["status"], &[(hash, "HASH")]),
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
    assert_eq!(rolled_out["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
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
    probe.wait_for(&path, is_rolled_out(3)).await;
    probe.patch(&format!("{path}/scale"), json!({"spec": {"replicas": 5}})).await;
    probe.wait_for(&path, is_rolled_out(5)).await;
    let template =
        |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}});
    probe.patch(&path, template("nginx:2")).await;
    let rolled = probe.wait_for(&path, is_rolled_out(5)).await;
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
    probe.wait_for(&path, is_rolled_out(5)).await;
    assert_eq!(sizes(&probe.get(REPLICA_SETS).await), [set("2", 0, ""), set("3", 5, "1")]);
    let images: Vec<Value> =
        items(&probe.get(PODS).await).iter().map(|pod| pod["spec"]["containers"][0]["image"].clone()).collect();
    assert_eq!(images, vec![json!("nginx:1"); 5]);
}

#[tokio::test(start_paused = true)]
async fn replica_sets_and_pods_are_deleted_with_the_deployment() {
    let probe = Probe::with_workloads();
    probe.create(DEPLOYMENTS, deployment("web", 2, "nginx")).await;
    let path = format!("{DEPLOYMENTS}/web");
    probe.wait_for(&path, is_rolled_out(2)).await;
    probe.expect(200, "DELETE", &path, Value::Null).await;
    probe.wait_for(PODS, |pods| items(pods).is_empty()).await;
    assert_eq!(items(&probe.get(REPLICA_SETS).await).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn deleted_pods_are_replaced() {
    let probe = Probe::with_workloads();
    probe.create(DEPLOYMENTS, deployment("web", 2, "nginx")).await;
    let path = format!("{DEPLOYMENTS}/web");
    probe.wait_for(&path, is_rolled_out(2)).await;
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
async fn recreate_waits_until_old_pods_have_ended() {
    let probe = Probe::with_workloads();
    let mut object = deployment("web", 2, "nginx:1");
    object["spec"]["strategy"] = json!({"type": "Recreate"});
    probe.create(DEPLOYMENTS, object).await;
    let path = format!("{DEPLOYMENTS}/web");
    probe.wait_for(&path, is_rolled_out(2)).await;
    let mut watch = probe.watch(&format!("{PODS}?watch=true&resourceVersion=0")).await;
    probe.patch(&path, json!({"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})).await;
    probe.wait_for(&path, is_rolled_out(2)).await;
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
async fn failing_images_exceed_the_progress_deadline() {
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

/// A pod template with a label.
fn template(label: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": label}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn names(list: &Value) -> Vec<String> {
    items(list).iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_gets_pods_and_claims_in_order() {
    let probe = Probe::with_workloads();
    let sets = "/apis/apps/v1/namespaces/default/statefulsets";
    let claim = json!({"metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let set = json!({"metadata": {"name": "db"}, "spec": {"serviceName": "db", "replicas": 2,
        "selector": {"matchLabels": {"app": "db"}}, "template": template("db", "postgres"),
        "volumeClaimTemplates": [claim]}});
    probe.create(sets, set).await;
    let path = format!("{sets}/db");
    let full =
        |count: i64| move |set: &Value| set["status"]["readyReplicas"] == count && set["status"]["replicas"] == count;
    let rolled_out = probe.wait_for(&path, full(2)).await;
    let revision = rolled_out["status"]["currentRevision"].as_str().unwrap();
    assert_eq!(
        normalized(&rolled_out["status"], &[(revision, "REVISION")]),
        json!({"observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "currentReplicas": 2,
            "updatedReplicas": 2, "currentRevision": "REVISION", "updateRevision": "REVISION", "collisionCount": 0})
    );
    let pods = probe.get(PODS).await;
    assert_eq!(names(&pods), ["db-0", "db-1"]);
    let pod = &items(&pods)[0];
    assert_eq!(
        pod["metadata"]["labels"],
        json!({"app": "db", "apps.kubernetes.io/pod-index": "0", "controller-revision-hash": revision,
            "statefulset.kubernetes.io/pod-name": "db-0"})
    );
    assert_eq!((pod["spec"]["hostname"].clone(), pod["spec"]["subdomain"].clone()), (json!("db-0"), json!("db")));
    let claims = probe.get("/api/v1/namespaces/default/persistentvolumeclaims").await;
    assert_eq!(names(&claims), ["data-db-0", "data-db-1"]);
    assert!(items(&claims).iter().all(|claim| claim["status"]["phase"] == "Bound"), "{claims:#}");
    let volumes = probe.get("/api/v1/persistentvolumes").await;
    assert_eq!(items(&volumes).len(), 2);
    assert!(items(&volumes).iter().all(|volume| volume["status"]["phase"] == "Bound"), "{volumes:#}");
    probe.patch(&path, json!({"spec": {"template": template("db", "postgres:2")}})).await;
    let rolled = |set: &Value| {
        full(2)(set)
            && set["status"]["currentRevision"] == set["status"]["updateRevision"]
            && set["status"]["currentRevision"] != revision
    };
    probe.wait_for(&path, rolled).await;
    assert_eq!(items(&probe.get("/apis/apps/v1/namespaces/default/controllerrevisions").await).len(), 2);
    probe.patch(&path, json!({"spec": {"replicas": 0}})).await;
    probe.wait_for(PODS, |pods| items(pods).is_empty()).await;
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    probe.expect(200, "DELETE", claims, Value::Null).await;
    probe.wait_for("/api/v1/persistentvolumes", |volumes| items(volumes).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_runs_on_the_node() {
    let probe = Probe::with_workloads();
    let sets = "/apis/apps/v1/namespaces/default/daemonsets";
    let set = json!({"metadata": {"name": "ds"},
        "spec": {"selector": {"matchLabels": {"app": "ds"}}, "template": template("ds", "fluentd")}});
    probe.create(sets, set).await;
    let rolled_out = probe.wait_for(&format!("{sets}/ds"), |set| set["status"]["numberAvailable"] == 1).await;
    assert_eq!(
        rolled_out["status"],
        json!({"currentNumberScheduled": 1, "numberMisscheduled": 0, "desiredNumberScheduled": 1, "numberReady": 1,
            "observedGeneration": 1, "updatedNumberScheduled": 1, "numberAvailable": 1})
    );
    probe.patch(&format!("{sets}/ds"), json!({"spec": {"template": template("ds", "fluentd:2")}})).await;
    let updated = |pods: &Value| {
        items(pods)
            .iter()
            .any(|pod| pod["spec"]["containers"][0]["image"] == "fluentd:2" && pod["status"]["phase"] == "Running")
    };
    probe.wait_for(PODS, updated).await;
}

#[tokio::test(start_paused = true)]
async fn jobs_run_to_their_end() {
    let probe = Probe::with_workloads();
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let job = |name: &str, image: &str, spec: Value| {
        let mut job = json!({"metadata": {"name": name}, "spec": spec});
        job["spec"]["template"] =
            json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": image}]}});
        job
    };
    probe.create(jobs, job("job", "perl", json!({"completions": 3, "parallelism": 2}))).await;
    let indexed =
        json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "ttlSecondsAfterFinished": 60});
    probe.create(jobs, job("indexed", "perl", indexed)).await;
    probe.create(jobs, job("bad", "fail/perl", json!({"backoffLimit": 1}))).await;
    probe.create(jobs, job("paused", "perl", json!({"suspend": true}))).await;
    let ended = |kind: &'static str| {
        move |job: &Value| {
            job["status"]["conditions"].as_array().is_some_and(|list| list.iter().any(|known| known["type"] == kind))
        }
    };
    let done = probe.wait_for(&format!("{jobs}/job"), ended("Complete")).await;
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "lastProbeTime": "T", "lastTransitionTime": "T",
            "reason": "CompletionsReached", "message": "Reached expected number of succeeded pods"})
    };
    assert_eq!(
        normalized(&done["status"], &[]),
        json!({"startTime": "T", "completionTime": "T", "succeeded": 3, "ready": 0, "terminating": 0,
            "uncountedTerminatedPods": {}, "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]})
    );
    let done = probe.wait_for(&format!("{jobs}/indexed"), ended("Complete")).await;
    assert_eq!(done["status"]["completedIndexes"], "0-2");
    let pods = items(&probe.get(PODS).await);
    let succeeded: Vec<&Value> = pods.iter().filter(|pod| pod["status"]["phase"] == "Succeeded").collect();
    assert_eq!(succeeded.len(), 6, "{pods:#?}");
    assert!(succeeded.iter().all(|pod| pod["metadata"].get("finalizers").is_none()), "{succeeded:#?}");
    probe.cluster.advance(std::time::Duration::from_secs(30));
    let failed = probe.wait_for(&format!("{jobs}/bad"), ended("Failed")).await;
    assert_eq!(failed["status"]["failed"], 2, "{failed:#}");
    let paused = probe.wait_for(&format!("{jobs}/paused"), ended("Suspended")).await;
    assert!(paused["status"].get("startTime").is_none(), "{paused:#}");
    probe.patch(&format!("{jobs}/paused"), json!({"spec": {"suspend": false}})).await;
    probe.wait_for(&format!("{jobs}/paused"), ended("Complete")).await;
    probe.cluster.advance(std::time::Duration::from_secs(61));
    probe.wait_for(jobs, |jobs| names(jobs) == ["bad", "job", "paused"]).await;
    // The pods of a job are deleted with it, even if they are not counted yet.
    probe.expect(200, "DELETE", &format!("{jobs}?propagationPolicy=Background"), Value::Null).await;
    probe.wait_for(PODS, |pods| items(pods).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn cron_jobs_follow_an_advanced_clock() {
    let probe = Probe::with_workloads();
    let crons = "/apis/batch/v1/namespaces/default/cronjobs";
    let pods = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "perl"}]}});
    let cron = json!({"metadata": {"name": "cron"}, "spec": {"schedule": "*/10 * * * *", "concurrencyPolicy": "Forbid",
        "jobTemplate": {"spec": {"template": pods}}}});
    probe.create(crons, cron).await;
    let mut watch = probe.watch("/apis/batch/v1/namespaces/default/jobs?watch=true&timeoutSeconds=7200").await;
    probe.cluster.advance(std::time::Duration::from_secs(3600));
    let mut made = 0;
    while made < 6 {
        made += usize::from(watch.next().await.unwrap()["type"] == "ADDED");
    }
    let kept = |jobs: &Value| items(jobs).len() == 3 && items(jobs).iter().all(|job| job["status"]["succeeded"] == 1);
    probe.wait_for("/apis/batch/v1/namespaces/default/jobs", kept).await;
    let cron = probe.wait_for(&format!("{crons}/cron"), |cron| cron["status"].get("active").is_none()).await;
    assert!(cron["status"]["lastSuccessfulTime"].is_string(), "{cron:#}");
}

#[tokio::test(start_paused = true)]
async fn services_have_endpoints_of_their_pods() {
    let probe = Probe::with_workloads();
    let services = "/api/v1/namespaces/default/services";
    let port = json!({"name": "http", "port": 80, "targetPort": 8080});
    probe
        .create(services, json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [port]}}))
        .await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget =
        json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    probe.create(budgets, budget).await;
    probe.create(DEPLOYMENTS, deployment("web", 2, "nginx")).await;
    probe.wait_for(&format!("{DEPLOYMENTS}/web"), is_rolled_out(2)).await;
    let slices =
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name=web";
    let ready = |slices: &Value| {
        let slices = items(slices);
        slices.len() == 1
            && slices[0]["endpoints"]
                .as_array()
                .is_some_and(|list| list.len() == 2 && list.iter().all(|one| one["conditions"]["ready"] == true))
    };
    let slice = items(&probe.wait_for(slices, ready).await)[0].clone();
    assert_eq!(slice["ports"], json!([{"name": "http", "port": 8080, "protocol": "TCP"}]));
    let endpoints = probe.get("/api/v1/namespaces/default/endpoints/web").await;
    assert_eq!(endpoints["subsets"][0]["addresses"].as_array().map(Vec::len), Some(2), "{endpoints:#}");
    let allowed = |budget: &Value| budget["status"]["disruptionsAllowed"] == 1;
    let budget = probe.wait_for(&format!("{budgets}/web"), allowed).await;
    assert_eq!(
        normalized(&budget["status"], &[]),
        json!({"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "observedGeneration": 1,
            "conditions": [{"type": "DisruptionAllowed", "status": "True", "observedGeneration": 1,
                "lastTransitionTime": "T", "reason": "SufficientPods", "message": ""}]})
    );
    let pods = names(&probe.get(PODS).await);
    let evict = |pod: &str| {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}});
        (format!("{PODS}/{pod}/eviction"), eviction)
    };
    let (path, eviction) = evict(&pods[0]);
    probe.create(&path, eviction).await;
    let (path, eviction) = evict(&pods[1]);
    let refused = probe.expect(429, "POST", &path, eviction).await;
    assert_eq!(refused["details"]["causes"][0]["reason"], "DisruptionBudget", "{refused:#}");
    probe.expect(200, "DELETE", &format!("{services}/web"), Value::Null).await;
    probe.wait_for(slices, |slices| items(slices).is_empty()).await;
    probe.wait_for("/api/v1/namespaces/default/endpoints", |list| !names(list).contains(&"web".to_owned())).await;
}

#[tokio::test(start_paused = true)]
async fn controllers_record_events() {
    let probe = Probe::with_workloads();
    probe.create(DEPLOYMENTS, deployment("web", 1, "nginx")).await;
    probe.wait_for(&format!("{DEPLOYMENTS}/web"), is_rolled_out(1)).await;
    let events = items(&probe.get("/api/v1/namespaces/default/events").await);
    let mut messages: Vec<String> = events
        .iter()
        .map(|event| {
            format!("{} {}", event["involvedObject"]["kind"].as_str().unwrap(), event["reason"].as_str().unwrap())
        })
        .collect();
    messages.sort();
    let expected = [
        "Deployment ScalingReplicaSet",
        "Pod Created",
        "Pod Pulled",
        "Pod Scheduled",
        "Pod Started",
        "ReplicaSet SuccessfulCreate",
    ];
    assert_eq!(messages, expected, "{events:#?}");
}

#[tokio::test(start_paused = true)]
async fn matching_orphans_are_adopted() {
    let probe = Probe::with_workloads();
    let path = format!("{DEPLOYMENTS}/web");
    probe.create(DEPLOYMENTS, deployment("web", 2, "nginx")).await;
    probe.wait_for(&path, is_rolled_out(2)).await;
    let (sets, pods) = (names(&probe.get(REPLICA_SETS).await), names(&probe.get(PODS).await));
    probe.expect(200, "DELETE", &format!("{path}?propagationPolicy=Orphan"), Value::Null).await;
    assert!(items(&probe.get(REPLICA_SETS).await)[0]["metadata"].get("ownerReferences").is_none());
    probe.create(DEPLOYMENTS, deployment("web", 2, "nginx")).await;
    probe.wait_for(&path, is_rolled_out(2)).await;
    assert_eq!((names(&probe.get(REPLICA_SETS).await), names(&probe.get(PODS).await)), (sets, pods));
}

#[tokio::test(start_paused = true)]
async fn interrupted_rollouts_are_finished_after_a_restart() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("workloads-{}", std::process::id()));
    let options = |workloads| Options { data_dir: Some(directory.clone()), workloads, ..Options::default() };
    let before = Cluster::open(options(None)).unwrap();
    let probe = Probe::of(before);
    probe.create(DEPLOYMENTS, deployment("web", 2, "nginx")).await;
    assert_eq!(items(&probe.get(PODS).await).len(), 0);
    probe.cluster.close();
    for _ in 0..2 {
        // The second time, all objects exist already.
        let probe = Probe::of(Cluster::open(options(Some(Workloads::default()))).unwrap());
        probe.wait_for(&format!("{DEPLOYMENTS}/web"), is_rolled_out(2)).await;
        assert_eq!(items(&probe.get(PODS).await).len(), 2);
        assert_eq!(items(&probe.get("/api/v1/nodes").await).len(), 1);
        probe.cluster.close();
    }
    std::fs::remove_dir_all(&directory).unwrap();
}
