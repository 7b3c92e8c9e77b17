//! Custom resources: CRDs, discovery, objects, subresources, tables, deletion.

use crate::common::{CRDS, MERGE, Probe, STRATEGIC, WIDGETS, widget, widget_crd};
use http_body_util::BodyExt;
use serde_json::{Value, json};

#[tokio::test]
async fn a_crd_adds_a_resource() {
    let probe = Probe::new();
    probe.expect(404, "GET", WIDGETS, Value::Null).await;
    let created = probe.create(CRDS, widget_crd()).await;
    assert_eq!(created["status"]["conditions"], Value::Null, "{:#}", created["status"]);
    let crd = probe.get(&format!("{CRDS}/widgets.example.com")).await;
    let conditions: Vec<&Value> =
        crd["status"]["conditions"].as_array().unwrap().iter().map(|condition| &condition["type"]).collect();
    assert_eq!(conditions, ["NamesAccepted", "Established"]);
    assert_eq!(crd["status"]["acceptedNames"]["listKind"], "WidgetList");

    let group = probe.get("/apis/example.com").await;
    assert_eq!(group["preferredVersion"], json!({"groupVersion": "example.com/v1", "version": "v1"}));
    let resources = probe.get("/apis/example.com/v1").await;
    let names: Vec<&Value> = resources["resources"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["widgets", "widgets/status", "widgets/scale"]);
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let response = probe.send("GET", "/apis", &[("accept", accept)], "").await;
    assert_eq!(response.headers()["content-type"], accept.split(',').next().unwrap());
    assert!(probe.get("/openapi/v3").await["paths"].get("apis/example.com/v1").is_some());
    let document = probe.get("/openapi/v3/apis/example.com/v1").await;
    assert!(document["components"]["schemas"].get("com.example.v1.Widget").is_some());
}

#[tokio::test]
async fn openapi_in_protobuf_contains_custom_kinds() {
    let probe = Probe::new();
    for (is_defined, count) in [(false, 0), (true, 1)] {
        if is_defined {
            probe.create(CRDS, widget_crd()).await;
        }
        for (version, path) in [("v2", "/openapi/v2"), ("v3", "/openapi/v3/apis/example.com/v1")] {
            let media_type = format!("application/com.github.proto-openapi.spec.{version}.v1.0+protobuf");
            let response = probe.send("GET", path, &[("accept", &media_type)], "").await;
            if version == "v3" && !is_defined {
                assert_eq!(response.status(), 404);
                continue;
            }
            assert_eq!(response.status(), 200);
            assert_eq!(response.headers()["content-type"], media_type);
            let body = response.into_body().collect().await.unwrap().to_bytes();
            // The name, after its number and its length.
            let name = b"\x0a\x15com.example.v1.Widget\x12";
            let found = body.windows(name.len()).filter(|part| part == name).count();
            assert_eq!(found, count, "{path}");
        }
    }
}

#[tokio::test]
async fn objects_follow_their_schema() {
    let probe = Probe::new();
    probe.create(CRDS, widget_crd()).await;
    let mut body = widget("w", json!({"color": "red", "junk": 1}));
    body["status"] = json!({"a": 1});
    let created = probe.create(WIDGETS, body).await;
    assert_eq!(created["spec"], json!({"color": "red", "size": 3}));
    assert!(created.get("status").is_none(), "{created:#}");
    assert_eq!(created["metadata"]["generation"], 1);

    let invalid =
        |message: &str, kind: &str| json!({"reason": "Invalid", "code": 422, "message": message, "kind": kind});
    for (body, code, expected) in [
        (
            widget("w3", json!({"color": 7})),
            422,
            "Widget.example.com \"w3\" is invalid: spec.color: Invalid value: \"integer\": spec.color in body must be \
             of type string: \"integer\"",
        ),
        (
            json!({"metadata": {"name": "w3"}}),
            400,
            "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in \
             '{\"metadata\":{\"name\":\"w3\"}}' ({\"metadata\":{\"name\":\"w3\"}})",
        ),
        (
            json!({"apiVersion": "example.com/v1beta1", "kind": "Widget", "metadata": {"name": "w3"}}),
            400,
            "the API version in the data (example.com/v1beta1) does not match the expected API version \
             (example.com/v1)",
        ),
        (
            json!({"apiVersion": "example.com/v1", "kind": "Wodget", "metadata": {"name": "w3"}}),
            422,
            "Wodget.example.com \"w3\" is invalid: kind: Invalid value: \"Wodget\": must be Widget",
        ),
    ] {
        let refused = probe.expect(code, "POST", WIDGETS, body).await;
        assert_eq!(refused["message"], invalid(expected, "")["message"], "{refused:#}");
    }
    let refused = probe.expect(422, "PUT", &format!("{WIDGETS}/w"), widget("w", json!({}))).await;
    assert_eq!(
        refused["message"],
        "widgets.example.com \"w\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an \
         update"
    );
    let (code, refused) = probe.ask_as("PATCH", &format!("{WIDGETS}/w"), STRATEGIC, json!({})).await;
    assert_eq!((code, &refused["reason"]), (415, &json!("UnsupportedMediaType")));
}

#[tokio::test]
async fn subresources_change_only_their_part() {
    let probe = Probe::new();
    probe.create(CRDS, widget_crd()).await;
    probe.create(WIDGETS, widget("w", json!({"color": "red"}))).await;
    let path = format!("{WIDGETS}/w");
    let main = probe.patch(&path, json!({"spec": {"color": "blue"}, "status": {"b": 1}})).await;
    assert_eq!((main.get("status"), &main["metadata"]["generation"]), (None, &json!(2)));
    let sent = json!({"spec": {"color": "green"}, "status": {"msg": "hello"}, "metadata": {"labels": {"x": "y"}}});
    let status = probe.patch(&format!("{path}/status"), sent).await;
    assert_eq!((&status["spec"]["color"], &status["status"]), (&json!("blue"), &json!({"msg": "hello"})));
    assert_eq!((status["metadata"].get("labels"), &status["metadata"]["generation"]), (None, &json!(2)));
    assert_eq!(status["metadata"]["managedFields"][1]["subresource"], "status", "{status:#}");
    let labelled = probe.patch(&path, json!({"metadata": {"labels": {"x": "y"}}})).await;
    assert_eq!(labelled["metadata"]["generation"], 2);

    let scale = format!("{path}/scale");
    let missing = probe.expect(500, "GET", &scale, Value::Null).await;
    assert_eq!(
        missing["message"],
        "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist"
    );
    let sent =
        json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "w"}, "spec": {"replicas": 5}});
    let scaled = probe.expect(200, "PUT", &scale, sent).await;
    assert_eq!((&scaled["spec"], &scaled["status"]), (&json!({"replicas": 5}), &json!({"replicas": 0})));
    assert_eq!(probe.get(&path).await["spec"]["replicas"], 5);
}

#[tokio::test]
async fn custom_resources_have_versions_selectors_and_tables() {
    let probe = Probe::new();
    probe.create(CRDS, widget_crd()).await;
    probe.create(WIDGETS, widget("w", json!({"color": "red"}))).await;
    probe.create(WIDGETS, widget("v", json!({"color": "blue"}))).await;
    let other = probe.get("/apis/example.com/v1beta1/namespaces/default/widgets/w").await;
    assert_eq!((&other["apiVersion"], &other["spec"]["size"]), (&json!("example.com/v1beta1"), &json!(3)));
    let list = probe.get(&format!("{WIDGETS}?fieldSelector=spec.color%3Dred")).await;
    assert_eq!((list["items"].as_array().unwrap().len(), &list["items"][0]["kind"]), (1, &json!("Widget")));
    assert_eq!(list["metadata"]["continue"], "");
    let refused = probe.expect(400, "GET", &format!("{WIDGETS}?fieldSelector=spec.x%3Dred"), Value::Null).await;
    assert_eq!(refused["message"], "field label not supported: spec.x");
    let table = probe.table(WIDGETS).await;
    let titles: Vec<&Value> = table["columnDefinitions"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(titles, ["Name", "Size", "Msg"]);
    assert_eq!(table["rows"][0]["cells"], json!(["v", 3, null]));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
}

#[tokio::test]
async fn objects_are_deleted_with_their_crd() {
    let probe = Probe::new();
    probe.create(CRDS, widget_crd()).await;
    probe.create(WIDGETS, widget("w", json!({}))).await;
    let mut held = widget("held", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/a"]);
    probe.create(WIDGETS, held).await;
    let mut lines = probe.watch(&format!("{WIDGETS}?watch=1")).await;
    assert_eq!((lines.short().await, lines.short().await), ("ADDED held".into(), "ADDED w".into()));
    let marked = probe.expect(200, "DELETE", &format!("{CRDS}/widgets.example.com"), Value::Null).await;
    assert_eq!(marked["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    probe.expect(404, "GET", &format!("{WIDGETS}/w"), Value::Null).await;
    probe.expect(403, "POST", WIDGETS, widget("late", json!({}))).await;
    let (code, _) =
        probe.ask_as("PATCH", &format!("{WIDGETS}/held"), MERGE, json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(code, 200);
    probe.expect(404, "GET", &format!("{CRDS}/widgets.example.com"), Value::Null).await;
    let (code, answer) = probe.ask("GET", WIDGETS, Value::Null).await;
    assert_eq!((code, answer), (404, json!("404 page not found\n")));
    assert_eq!(lines.short().await, "MODIFIED held");
    assert_eq!(lines.short().await, "DELETED w");
    assert_eq!(lines.short().await, "DELETED held");
}

#[tokio::test]
async fn unusual_bodies_do_no_harm() {
    let probe = Probe::new();
    probe.create(CRDS, widget_crd()).await;
    let bodies = [
        json!(null),
        json!([]),
        json!("\"text\""),
        json!(5),
        json!({}),
        json!({"metadata": []}),
        json!({"metadata": "x"}),
        json!({"metadata": {"name": 5}}),
        json!({"metadata": {"name": "x", "labels": 5}}),
        json!({"metadata": {"name": "x", "labels": {"a": 5}}}),
        json!({"metadata": {"name": "x", "finalizers": "a"}}),
        json!({"metadata": {"name": "x", "ownerReferences": [5]}}),
        json!({"metadata": {"name": "x", "annotations": []}}),
        json!({"metadata": {"name": "x"}, "spec": []}),
        json!({"metadata": {"name": "x"}, "spec": "x"}),
        json!({"metadata": {"name": "x"}, "spec": {"template": 5, "containers": {}, "versions": 7, "names": []}}),
        json!({"metadata": {"name": "x"}, "spec": {"selector": [], "ports": {}}, "status": []}),
        json!({"metadata": {"name": "x", "managedFields": 5}, "data": [], "stringData": 5, "rules": {}}),
        json!({"metadata": {"name": "x", "managedFields": [5, {"fieldsV1": 7}]}, "status": "x"}),
    ];
    let places = [
        ("/api/v1/namespaces", ""),
        ("/api/v1/namespaces/default/configmaps", ""),
        ("/api/v1/namespaces/default/secrets", ""),
        ("/api/v1/namespaces/default/pods", ""),
        ("/api/v1/namespaces/default/services", ""),
        ("/api/v1/nodes", ""),
        ("/apis/apps/v1/namespaces/default/deployments", ""),
        ("/apis/batch/v1/namespaces/default/jobs", ""),
        (CRDS, ""),
        ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", ""),
        (WIDGETS, "example.com/v1"),
    ];
    for (place, api_version) in places {
        for body in &bodies {
            let mut body = body.clone();
            if let (false, Value::Object(fields)) = (api_version.is_empty(), &mut body) {
                fields.insert("apiVersion".into(), json!(api_version));
                fields.insert("kind".into(), json!("Widget"));
            }
            let name = format!("{place}/x");
            let applied = format!("{name}?fieldManager=me");
            for (method, path, content_type) in [
                ("POST", place, "application/json"),
                ("POST", place, "application/yaml"),
                ("POST", place, "application/vnd.kubernetes.protobuf"),
                ("PUT", &name, "application/json"),
                ("PATCH", &name, MERGE),
                ("PATCH", &name, STRATEGIC),
                ("PATCH", &name, crate::common::JSON_PATCH),
                ("PATCH", &applied, crate::common::APPLY),
                ("PATCH", &format!("{name}/status"), MERGE),
                ("PATCH", &format!("{name}/scale"), MERGE),
                ("DELETE", &name, "application/json"),
            ] {
                let (_, answer) = probe.ask_as(method, path, content_type, body.clone()).await;
                let message = answer["message"].as_str().unwrap_or_default();
                assert!(!message.contains("panicked"), "{method} {path} {content_type}: {body}");
            }
        }
    }
}

#[tokio::test]
async fn names_belong_to_the_first_crd_until_it_is_deleted() {
    let probe = Probe::new();
    probe.create(CRDS, widget_crd()).await;
    let mut second = widget_crd();
    second["metadata"]["name"] = json!("gadgets.example.com");
    second["spec"]["names"] = json!({"plural": "gadgets", "kind": "Gadget", "shortNames": ["wd"]});
    probe.create(CRDS, second).await;
    let path = format!("{CRDS}/gadgets.example.com");
    let status = probe.get(&path).await["status"].take();
    let reasons: Vec<&Value> =
        status["conditions"].as_array().unwrap().iter().map(|condition| &condition["reason"]).collect();
    assert_eq!(reasons, ["ShortNamesConflict", "NotAccepted"]);
    let gadgets = "/apis/example.com/v1/namespaces/default/gadgets";
    probe.expect(404, "GET", gadgets, Value::Null).await;
    probe.expect(200, "DELETE", &format!("{CRDS}/widgets.example.com"), Value::Null).await;
    let status = probe.get(&path).await["status"].take();
    assert_eq!(status["acceptedNames"]["shortNames"], json!(["wd"]), "{status:#}");
    probe.get(gadgets).await;
}

#[tokio::test]
async fn invalid_crds_are_rejected() {
    let probe = Probe::new();
    let mut unstructural = widget_crd();
    unstructural["spec"]["versions"][1]["schema"]["openAPIV3Schema"] = json!({"type": "object",
        "properties": {"spec": {"properties": {"a": {"type": "string"}}}}});
    let refused = probe.expect(422, "POST", CRDS, unstructural).await;
    assert_eq!(
        refused["message"],
        "CustomResourceDefinition.apiextensions.k8s.io \"widgets.example.com\" is invalid: \
         spec.versions[1].schema.openAPIV3Schema.properties[spec].type: Required value: must not be empty for \
         specified object fields"
    );
    probe.create(CRDS, widget_crd()).await;
    let (code, refused) = probe
        .ask_as("PATCH", &format!("{CRDS}/widgets.example.com"), MERGE, json!({"spec": {"scope": "Cluster"}}))
        .await;
    assert_eq!(code, 422, "{refused:#}");
}
