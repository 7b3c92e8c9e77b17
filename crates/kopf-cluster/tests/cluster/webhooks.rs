//! Admission webhooks: which ones are called, what they see, and what their responses do.

use serde_json::{Value, json};

use crate::common::{CRDS, MERGE, Probe, WIDGETS, widget, widget_crd};
use crate::hook::{Hook, patch, reviewed};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";

/// Creates a configuration; each webhook is a path, and the fields that differ from the defaults.
async fn configure(probe: &Probe, hook: &Hook, kind: &str, webhooks: &[(&str, Value)]) {
    let collection = format!("{REGISTRATION}/{}webhookconfigurations", kind.to_lowercase());
    probe.ask("DELETE", &format!("{collection}/x"), Value::Null).await;
    let webhooks: Vec<Value> = webhooks
        .iter()
        .enumerate()
        .map(|(position, (path, more))| {
            let mut webhook = json!({"name": format!("h{position}.example.com"), "clientConfig": hook.config(path),
                "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": [{"operations": ["*"],
                "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["configmaps", "widgets"]}]});
            for (field, value) in more.as_object().into_iter().flatten() {
                webhook[field] = value.clone();
            }
            webhook
        })
        .collect();
    let body = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": "x"}, "webhooks": webhooks});
    probe.create(&collection, body).await;
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"l": "1"}},
        "data": {"a": "b"}})
}

fn answer(path: &str, review: &Value) -> Value {
    let add = |field: &str, value: &str| json!([{"op": "add", "path": format!("/data/{field}"), "value": value}]);
    let response = match path {
        "/allow" => json!({"allowed": true}),
        "/warn" => json!({"allowed": true, "warnings": ["careful", "careful", "new\nline"]}),
        "/deny" => json!({"allowed": false, "status": {"message": "no", "code": 403, "reason": "Mine"}}),
        "/deny-b" => json!({"allowed": review["request"]["oldObject"]["metadata"]["name"] != "b"}),
        "/count" => {
            let count = review["request"]["object"]["data"]["count"].as_str().unwrap_or_default();
            patch(add("count", &format!("{count}i")))
        }
        "/mark" => patch(add("mark", "1")),
        "/rename" => patch(json!([{"op": "replace", "path": "/metadata/name", "value": "other"}])),
        "/sub" => patch(json!([{"op": "add", "path": "/spec", "value": {}}])),
        "/disown" => patch(json!([{"op": "replace", "path": "/metadata/managedFields", "value": []}])),
        "/wrong" => patch(json!([{"op": "add", "path": "/spec/size", "value": "x"}])),
        _ => return json!("oops"),
    };
    reviewed(review, response)
}

#[tokio::test]
async fn validating_webhooks_allow_or_deny() {
    let probe = Probe::new();
    let hook = Hook::start(answer).await;
    configure(&probe, &hook, "Validating", &[("/deny", json!({}))]).await;
    let refused = probe.expect(403, "POST", MAPS, map("a")).await;
    let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "admission webhook \"h0.example.com\" denied the request: no", "reason": "Mine", "code": 403});
    assert_eq!(refused, expected);
    probe.expect(404, "GET", &format!("{MAPS}/a"), Value::Null).await;

    configure(&probe, &hook, "Validating", &[("/warn", json!({}))]).await;
    hook.seen();
    let response = probe.send("POST", MAPS, &[("content-type", "application/json")], &map("a").to_string()).await;
    let warnings: Vec<_> = response.headers().get_all("warning").iter().collect();
    assert_eq!(response.status(), 201);
    assert_eq!(warnings, ["299 - \"careful\""]);
    let (_, review) = hook.seen().remove(0);
    let request = &review["request"];
    assert_eq!((&request["operation"], &request["name"]), (&json!("CREATE"), &json!("a")), "{request:#}");
    assert_eq!(request["object"]["metadata"]["managedFields"][0]["manager"], "probe", "{request:#}");
    assert_eq!((&request["oldObject"], &request["dryRun"]), (&Value::Null, &json!(false)));
    probe.patch(&format!("{MAPS}/a"), json!({"data": {"x": "y"}})).await;
    let (_, review) = hook.seen().remove(0);
    assert_eq!(review["request"]["options"]["kind"], "UpdateOptions");
    assert_eq!(review["request"]["object"]["data"], json!({"a": "b", "x": "y"}));
    assert_eq!(review["request"]["oldObject"]["data"], json!({"a": "b"}));
    probe.expect(200, "DELETE", &format!("{MAPS}/a"), Value::Null).await;
    let (_, review) = hook.seen().remove(0);
    assert_eq!((&review["request"]["operation"], &review["request"]["object"]), (&json!("DELETE"), &Value::Null));
}

#[tokio::test]
async fn only_matching_webhooks_are_called() {
    let probe = Probe::new();
    let hook = Hook::start(answer).await;
    let rule = |field: &str, value: Value| {
        let mut rule = json!({"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["*"]});
        rule[field] = value;
        json!({"rules": [rule]})
    };
    let condition = |expression: &str| json!({"matchConditions": [{"name": "c", "expression": expression}]});
    for (more, asked) in [
        (json!({}), true),
        (rule("operations", json!(["DELETE"])), false),
        (rule("scope", json!("Cluster")), false),
        (rule("resources", json!(["configmaps/*"])), true),
        (json!({"namespaceSelector": {"matchLabels": {"x": "y"}}}), false),
        (json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}), true),
        (json!({"objectSelector": {"matchExpressions": [{"key": "l", "operator": "DoesNotExist"}]}}), false),
        (json!({"objectSelector": {"matchLabels": {"l": "1"}}}), true),
        (condition("object.metadata.name == 'a' && request.operation == 'CREATE'"), true),
        (condition("object.metadata.name == 'b'"), false),
    ] {
        configure(&probe, &hook, "Validating", &[("/allow", more.clone())]).await;
        probe.create(&format!("{MAPS}?dryRun=All"), map("a")).await;
        assert_eq!(hook.paths().len(), usize::from(asked), "{more:#}");
    }
    configure(&probe, &hook, "Validating", &[("/allow", condition("object.nope.x == 1"))]).await;
    let refused = probe.expect(403, "POST", MAPS, map("a")).await;
    assert_eq!(
        refused["message"],
        "configmaps \"a\" is forbidden: expression 'object.nope.x == 1' resulted in error: no such key: nope"
    );
    // No webhook is called for the configurations themselves.
    let all = json!({"rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]});
    configure(&probe, &hook, "Validating", &[("/deny", all)]).await;
    configure(&probe, &hook, "Validating", &[("/allow", json!({}))]).await;
    probe.create(MAPS, map("a")).await;
}

#[tokio::test]
async fn failing_webhooks_deny_or_are_ignored() {
    let probe = Probe::new();
    let hook = Hook::start(answer).await;
    let service = json!({"clientConfig": {"service": {"namespace": "default", "name": "nope"}}});
    let unreachable = json!({"clientConfig": {"url": "https://127.0.0.1:1/x", "caBundle": hook.authority()}});
    let untrusted = json!({"clientConfig": {"url": format!("https://127.0.0.1:{}/allow", hook.port())}});
    let post = |url: &str, reason: &str| format!("failed to call webhook: Post \"{url}?timeout=10s\": {reason}");
    for (path, more, expected) in [
        ("/allow", service, post("https://nope.default.svc:443/", "service \"nope\" not found")),
        ("/allow", unreachable, post("https://127.0.0.1:1/x", "dial tcp 127.0.0.1:1: connect: connection refused")),
        (
            "/allow",
            untrusted,
            post(
                &format!("https://127.0.0.1:{}/allow", hook.port()),
                "tls: failed to verify certificate: x509: certificate signed by unknown authority",
            ),
        ),
        (
            "/unknown",
            json!({}),
            "failed to call webhook: couldn't get version/kind; json parse error: json: cannot unmarshal string into \
             Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
             \"json:\\\"kind,omitempty\\\"\" }"
                .to_owned(),
        ),
        (
            "/mark",
            json!({}),
            "received invalid webhook response: validating webhook may not return response.patch".to_owned(),
        ),
    ] {
        configure(&probe, &hook, "Validating", &[(path, more.clone())]).await;
        let refused = probe.expect(500, "POST", MAPS, map("a")).await;
        let message = format!("Internal error occurred: failed calling webhook \"h0.example.com\": {expected}");
        assert_eq!(refused["message"], message);
        let mut ignoring = more;
        ignoring["failurePolicy"] = json!("Ignore");
        configure(&probe, &hook, "Validating", &[(path, ignoring)]).await;
        probe.create(&format!("{MAPS}?dryRun=All"), map("a")).await;
    }
    let effects = json!({"sideEffects": "NoneOnDryRun"});
    configure(&probe, &hook, "Validating", &[("/allow", effects)]).await;
    probe.create(&format!("{MAPS}?dryRun=All"), map("a")).await;
}

#[tokio::test]
async fn services_are_resolved_to_their_endpoints() {
    let probe = Probe::new();
    let hook = Hook::start(answer).await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"},
        "spec": {"ports": [{"name": "https", "port": 443}]}});
    probe.create("/api/v1/namespaces/default/services", service).await;
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "ports": [{"name": "https", "port": hook.port()}], "endpoints": [{"addresses": ["127.0.0.1"]}]});
    probe.create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice).await;
    let config = json!({"service": {"namespace": "default", "name": "hook", "path": "/allow"},
        "caBundle": hook.authority()});
    configure(&probe, &hook, "Validating", &[("", json!({"clientConfig": config}))]).await;
    probe.create(MAPS, map("a")).await;
    assert_eq!(hook.paths(), ["/allow"]);
}

#[tokio::test]
async fn mutating_webhooks_change_objects() {
    let probe = Probe::new();
    let hook = Hook::start(answer).await;
    for (policy, expected, paths) in
        [("Never", "i", vec!["/count", "/mark"]), ("IfNeeded", "ii", vec!["/count", "/mark", "/count"])]
    {
        let again = json!({"reinvocationPolicy": policy});
        configure(&probe, &hook, "Mutating", &[("/count", again), ("/mark", json!({}))]).await;
        let created = probe.create(&format!("{MAPS}?dryRun=All"), map("a")).await;
        assert_eq!(created["data"], json!({"a": "b", "count": expected, "mark": "1"}));
        // No manager owns the fields that webhooks add.
        let owned = &created["metadata"]["managedFields"][0]["fieldsV1"]["f:data"];
        assert_eq!(owned, &json!({".": {}, "f:a": {}}));
        assert_eq!(hook.paths(), paths);
    }
    configure(&probe, &hook, "Mutating", &[("/disown", json!({}))]).await;
    let created = probe.create(&format!("{MAPS}?dryRun=All"), map("a")).await;
    assert_eq!(created["metadata"].get("managedFields"), None);
    configure(&probe, &hook, "Mutating", &[("/rename", json!({}))]).await;
    let created = probe.create(MAPS, map("a")).await;
    assert_eq!(created["metadata"]["name"], "other");
    probe.expect(404, "GET", &format!("{MAPS}/a"), Value::Null).await;
    let (code, refused) =
        probe.ask_as("PATCH", &format!("{MAPS}/other"), MERGE, json!({"metadata": {"labels": {"x": "y"}}})).await;
    assert_eq!(code, 200, "{refused:#}");
    configure(&probe, &hook, "Mutating", &[("/mark", json!({}))]).await;
    let refused = probe.expect(500, "DELETE", &format!("{MAPS}/other"), Value::Null).await;
    assert_eq!(
        refused["message"],
        "Internal error occurred: admission webhook \"h0.example.com\" attempted to modify the object, which is not \
         supported for this operation"
    );
}

#[tokio::test]
async fn mutated_custom_resources_get_defaults_and_checks() {
    let probe = Probe::new();
    let hook = Hook::start(answer).await;
    probe.create(CRDS, widget_crd()).await;
    configure(&probe, &hook, "Mutating", &[("/sub", json!({}))]).await;
    let mut bare = widget("w", json!({}));
    bare.as_object_mut().unwrap().remove("spec");
    let created = probe.create(WIDGETS, bare).await;
    assert_eq!(created["spec"], json!({"size": 3}));
    configure(&probe, &hook, "Mutating", &[("/wrong", json!({}))]).await;
    let refused = probe.expect(422, "POST", WIDGETS, widget("v", json!({}))).await;
    assert_eq!(
        refused["message"],
        "Widget.example.com \"v\" is invalid: spec.size: Invalid value: \"string\": spec.size in body must be of type \
         integer: \"string\""
    );
    // A rule for one version also matches other versions, unless the match policy is `Exact`.
    probe.ask("DELETE", &format!("{REGISTRATION}/mutatingwebhookconfigurations/x"), Value::Null).await;
    hook.seen();
    let rules = json!([{"operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["v1beta1"],
        "resources": ["widgets"]}]);
    for (policy, expected) in [("Equivalent", vec!["example.com/v1beta1"]), ("Exact", vec![])] {
        configure(&probe, &hook, "Validating", &[("/allow", json!({"rules": rules, "matchPolicy": policy}))]).await;
        probe.patch(&format!("{WIDGETS}/w?dryRun=All"), json!({"spec": {"color": "red"}})).await;
        let seen = hook.seen();
        let versions: Vec<&Value> = seen.iter().map(|(_, review)| &review["request"]["object"]["apiVersion"]).collect();
        assert_eq!(versions, expected, "{policy}");
    }
}

#[tokio::test]
async fn collections_are_deleted_up_to_the_first_denial() {
    let probe = Probe::new();
    let hook = Hook::start(answer).await;
    for name in ["a", "b", "c"] {
        probe.create(MAPS, map(name)).await;
    }
    configure(&probe, &hook, "Validating", &[("/deny-b", json!({}))]).await;
    let refused = probe.expect(400, "DELETE", &format!("{MAPS}?labelSelector=l%3D1"), Value::Null).await;
    assert_eq!(refused["message"], "admission webhook \"h0.example.com\" denied the request without explanation");
    let left = probe.get(&format!("{MAPS}?labelSelector=l%3D1")).await;
    let names: Vec<&Value> = left["items"].as_array().unwrap().iter().map(|map| &map["metadata"]["name"]).collect();
    assert_eq!(names, ["b", "c"]);
}
