//! Creating, reading, changing and deleting objects, with the responses of a real server.

use crate::common::{APPLY, JSON_PATCH, MERGE, Probe, STRATEGIC};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The errors are those of a real kube-apiserver 1.36.3 for the same requests.
#[tokio::test]
async fn errors_match_the_server() {
    let probe = Probe::new();
    probe.create(MAPS, json!({"metadata": {"name": "x"}})).await;
    let not_found = |name: &str| {
        json!({"reason": "NotFound", "message": format!("configmaps \"{name}\" not found"),
        "details": {"name": name, "kind": "configmaps"}, "code": 404, "status": "Failure"})
    };
    let bad = |message: &str| json!({"reason": "BadRequest", "message": message, "code": 400});
    let no_resource = json!({"reason": "NotFound", "details": {}, "code": 404,
        "message": "the server could not find the requested resource"});
    let no_method = json!({"reason": "MethodNotAllowed", "details": {}, "code": 405,
        "message": "the server does not allow this method on the requested resource"});
    let json = "application/json";
    for (method, path, content_type, body, expected) in [
        ("GET", "/api/v1/foos", json, json!(null), no_resource.clone()),
        ("GET", "/apis/apps/v9/deployments", json, json!(null), no_resource.clone()),
        ("GET", "/api/v1/namespaces/default/configmaps/x/status", json, json!(null), no_resource.clone()),
        ("GET", "/apis/nope.example.com/v1/foos", json, json!(null), json!("404 page not found\n")),
        ("GET", "/api/v1/namespaces/default/configmaps/nope", json, json!(null), not_found("nope")),
        (
            "POST",
            "/api/v1/namespaces/nope/configmaps",
            json,
            json!({"metadata": {"name": "x"}}),
            json!({"reason": "NotFound", "message": "namespaces \"nope\" not found", "code": 404}),
        ),
        (
            "POST",
            MAPS,
            json,
            json!({"metadata": {"name": "x"}}),
            json!({"reason": "AlreadyExists", "message": "configmaps \"x\" already exists", "code": 409}),
        ),
        (
            "POST",
            MAPS,
            json,
            json!({"metadata": {}}),
            json!({"reason": "Invalid", "code": 422,
            "message": "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required",
            "details": {"kind": "ConfigMap", "causes": [{"reason": "FieldValueRequired", "field": "metadata.name",
                "message": "Required value: name or generateName is required"}]}}),
        ),
        (
            "POST",
            MAPS,
            json,
            json!({"metadata": {"name": "y", "namespace": "other"}}),
            bad("the namespace of the provided object does not match the namespace sent on the request"),
        ),
        (
            "POST",
            MAPS,
            json,
            json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "y"}}),
            bad("Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to \
                 (core.ConfigMap): unknown conversion"),
        ),
        (
            "POST",
            MAPS,
            json,
            json!({"metadata": {"name": "y", "resourceVersion": "5"}}),
            json!({"message": "resourceVersion should not be set on objects to be created", "code": 500}),
        ),
        (
            "POST",
            MAPS,
            "text/plain",
            json!({"metadata": {"name": "y"}}),
            json!({"reason": "UnsupportedMediaType", "code": 415}),
        ),
        ("POST", "/api/v1/configmaps", json, json!({"metadata": {"name": "y"}}), no_method.clone()),
        ("PUT", MAPS, json, json!({}), no_method.clone()),
        (
            "PUT",
            "/api/v1/namespaces/default/configmaps/x",
            json,
            json!({"metadata": {"name": "y"}}),
            bad("the name of the object (y) does not match the name on the URL (x)"),
        ),
        (
            "PUT",
            "/api/v1/namespaces/default/configmaps/x",
            json,
            json!({"metadata": {}}),
            bad("the name of the object (x based on URL) was undeterminable: name must be provided"),
        ),
        (
            "PUT",
            "/api/v1/namespaces/default/configmaps/x",
            json,
            json!({"metadata": {"name": "x", "resourceVersion": "1"}}),
            json!({"reason": "Conflict", "code": 409, "details": {"name": "x", "kind": "configmaps"},
                "message": "Operation cannot be fulfilled on configmaps \"x\": the object has been modified; please \
                            apply your changes to the latest version and try again"}),
        ),
        (
            "PUT",
            "/api/v1/namespaces/default/configmaps/nope",
            json,
            json!({"metadata": {"name": "nope"}}),
            not_found("nope"),
        ),
        ("PATCH", "/api/v1/namespaces/default/configmaps/nope", MERGE, json!({}), not_found("nope")),
        (
            "PATCH",
            "/api/v1/namespaces/default/configmaps/x",
            MERGE,
            json!("{\"data\":"),
            bad("error decoding patch: unexpected end of JSON input"),
        ),
        (
            "PATCH",
            "/api/v1/namespaces/default/configmaps/x",
            json,
            json!({}),
            json!({"reason": "UnsupportedMediaType", "message": "415: Unsupported Media Type", "details": {}}),
        ),
        (
            "PATCH",
            "/api/v1/namespaces/default/configmaps/x",
            JSON_PATCH,
            json!([{"op": "test", "path": "/data/k", "value": "z"}]),
            json!({"reason": "Invalid", "code": 422,
                "details": {}, "message": "the server rejected our request due to an error in our request"}),
        ),
        (
            "PATCH",
            "/api/v1/namespaces/default/configmaps/x",
            MERGE,
            json!({"metadata": {"resourceVersion": "1"}}),
            json!({"reason": "Conflict", "code": 409}),
        ),
        (
            "PATCH",
            "/api/v1/namespaces/default/configmaps/x",
            APPLY,
            json!({}),
            json!({"reason": "Invalid",
            "message": "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply \
                        patch"}),
        ),
        ("DELETE", "/api/v1/namespaces/default/configmaps/nope", json, json!(null), not_found("nope")),
        (
            "DELETE",
            "/api/v1/namespaces/default/configmaps/x?dryRun=Some",
            json,
            json!(null),
            json!({"code": 422,
            "message": "DeleteOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported \
                        values: \"All\""}),
        ),
        ("DELETE", "/api/v1/namespaces", json, json!(null), no_method),
        (
            "GET",
            "/api/v1/configmaps?labelSelector=a%3D%3D%3Db",
            json,
            json!(null),
            bad("unable to parse requirement: found '=', expected: identifier"),
        ),
        (
            "GET",
            "/api/v1/configmaps?fieldSelector=a%3Db",
            json,
            json!(null),
            bad("\"a\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
        ),
        ("GET", "/api/v1/pods?fieldSelector=a%3Db", json, json!(null), bad("field label not supported: a")),
        (
            "GET",
            "/api/v1/configmaps?resourceVersion=99999999",
            json,
            json!(null),
            json!({"reason": "Timeout", "code": 504, "details": {"retryAfterSeconds": 1, "causes": [
                {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}}),
        ),
    ] {
        let (code, answer) = probe.ask_as(method, path, content_type, body).await;
        let shown = format!("{method} {path}: {code} {answer:#}");
        match &expected {
            Value::Object(fields) => {
                for (field, value) in fields {
                    assert_eq!(&answer[field], value, "{field} of {shown}");
                }
                assert_eq!(answer["code"], code, "{shown}");
            }
            text => assert_eq!(&answer, text, "{shown}"),
        }
    }
}

#[tokio::test]
async fn objects_are_created_read_changed_and_deleted() {
    let probe = Probe::new();
    let path = format!("{MAPS}/x");
    let created =
        probe.create(MAPS, json!({"metadata": {"name": "x", "labels": {"a": "b"}}, "data": {"k": "v"}})).await;
    assert_eq!(created["kind"], "ConfigMap");
    assert_eq!(created["metadata"]["namespace"], "default");
    // As a real server records it.
    assert_eq!(
        created["metadata"]["managedFields"][0]["fieldsV1"],
        json!({"f:data": {".": {}, "f:k": {}}, "f:metadata": {"f:labels": {".": {}, "f:a": {}}}}),
        "{created:#}"
    );
    assert_eq!(created["metadata"]["managedFields"][0]["manager"], "probe");
    assert!(created["metadata"].get("generation").is_none(), "{created:#}");

    let patched = probe.patch(&path, json!({"data": {"k": "w", "l": "m"}})).await;
    assert_eq!(patched["data"], json!({"k": "w", "l": "m"}));
    assert_ne!(patched["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    let same = probe.patch(&path, json!({"data": {"k": "w"}})).await;
    assert_eq!(same["metadata"]["resourceVersion"], patched["metadata"]["resourceVersion"]);

    let mut replaced = patched.clone();
    replaced["data"] = json!({"n": "o"});
    replaced["metadata"]["uid"] = json!(null);
    let replaced = probe.expect(200, "PUT", &path, replaced).await;
    assert_eq!(replaced["data"], json!({"n": "o"}));
    assert_eq!(replaced["metadata"]["uid"], created["metadata"]["uid"]);

    let (code, patched) =
        probe.ask_as("PATCH", &path, JSON_PATCH, json!([{"op": "add", "path": "/data/p", "value": "q"}])).await;
    assert_eq!((code, &patched["data"]), (200, &json!({"n": "o", "p": "q"})));

    let deleted = probe.expect(200, "DELETE", &path, Value::Null).await;
    assert_eq!(deleted["status"], "Success");
    assert_eq!(deleted["details"], json!({"name": "x", "kind": "configmaps", "uid": created["metadata"]["uid"]}));
    probe.expect(404, "GET", &path, Value::Null).await;
}

#[tokio::test]
async fn dry_runs_change_nothing() {
    let probe = Probe::new();
    let answer = probe.create(&format!("{MAPS}?dryRun=All"), json!({"metadata": {"name": "x"}})).await;
    assert!(answer["metadata"].get("resourceVersion").is_none(), "{answer:#}");
    probe.expect(404, "GET", &format!("{MAPS}/x"), Value::Null).await;
    probe.create(MAPS, json!({"metadata": {"name": "x"}})).await;
    probe.expect(409, "POST", &format!("{MAPS}?dryRun=All"), json!({"metadata": {"name": "x"}})).await;
    probe.expect(200, "DELETE", &format!("{MAPS}/x?dryRun=All"), Value::Null).await;
    probe.patch(&format!("{MAPS}/x?dryRun=All"), json!({"data": {"a": "b"}})).await;
    assert!(probe.get(&format!("{MAPS}/x")).await.get("data").is_none());
}

#[tokio::test]
async fn unknown_fields_cause_warnings_or_errors() {
    let probe = Probe::new();
    let body = json!({"metadata": {"name": "x"}, "foo": {}});
    let response = probe.send("POST", MAPS, &[], &body.to_string()).await;
    assert_eq!(response.headers()["warning"], "299 - \"unknown field \\\"foo\\\"\"");
    assert!(probe.get(&format!("{MAPS}/x")).await.get("foo").is_none());
    let refused = probe.expect(400, "POST", &format!("{MAPS}?fieldValidation=Strict"), body).await;
    let expected =
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"foo\"";
    assert_eq!(refused["message"], expected);
}

#[tokio::test]
async fn names_are_generated_from_a_prefix() {
    let probe = Probe::new();
    let created = probe.create(MAPS, json!({"metadata": {"generateName": "gen-"}})).await;
    let name = created["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("gen-") && name.len() == 9, "{name}");
}

#[tokio::test]
async fn finalizers_delay_the_removal_of_an_object() {
    let probe = Probe::new();
    let path = format!("{MAPS}/x");
    probe.create(MAPS, json!({"metadata": {"name": "x", "finalizers": ["example.com/a"]}})).await;
    let marked = probe.expect(200, "DELETE", &path, Value::Null).await;
    assert!(marked["metadata"]["deletionTimestamp"].is_string(), "{marked:#}");
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(probe.get(&path).await, marked, "nothing else has touched it");
    let again = probe.expect(200, "DELETE", &path, Value::Null).await;
    assert_eq!(again, marked);
    let more = json!({"metadata": {"finalizers": ["example.com/a", "example.com/b"]}});
    let (code, refused) = probe.ask_as("PATCH", &path, MERGE, more).await;
    assert_eq!(code, 422, "{refused:#}");
    let released = probe.patch(&path, json!({"metadata": {"finalizers": null}})).await;
    // A real server shows the version before the removal here.
    assert_eq!(released["metadata"]["resourceVersion"], marked["metadata"]["resourceVersion"]);
    probe.expect(404, "GET", &path, Value::Null).await;
}

#[tokio::test]
async fn deletions_check_their_preconditions() {
    let probe = Probe::new();
    let created = probe.create(MAPS, json!({"metadata": {"name": "x"}})).await;
    let path = format!("{MAPS}/x");
    let refused = probe.expect(409, "DELETE", &path, json!({"preconditions": {"uid": "abc"}})).await;
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.starts_with("Operation cannot be fulfilled on ConfigMap \"x\": the UID in the precondition (abc)"),
        "{message}"
    );
    probe.expect(409, "DELETE", &path, json!({"preconditions": {"resourceVersion": "1"}})).await;
    probe.expect(200, "DELETE", &path, json!({"preconditions": {"uid": created["metadata"]["uid"]}})).await;
}

#[tokio::test]
async fn pages_of_a_list_have_one_version() {
    let probe = Probe::new();
    for name in ["a", "b", "c", "d", "e"] {
        probe.create(MAPS, json!({"metadata": {"name": name, "labels": {"of": "test"}}})).await;
    }
    let names = |list: &Value| -> Vec<String> {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let first = probe.get(&format!("{MAPS}?limit=2")).await;
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 4, "with kube-root-ca.crt");
    assert_eq!(first["kind"], "ConfigMapList");
    assert!(first["items"][0].get("kind").is_none(), "{:#}", first["items"][0]);
    probe.expect(200, "DELETE", &format!("{MAPS}/c"), Value::Null).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = probe.get(&format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!(names(&second), ["c", "d"], "as they were when the list began");
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let selected = probe.get(&format!("{MAPS}?labelSelector=of%3Dtest&limit=1")).await;
    assert!(selected["metadata"].get("remainingItemCount").is_none());
    assert_eq!(names(&probe.get("/api/v1/configmaps?fieldSelector=metadata.name%3De").await), ["e"]);

    probe.cluster.compact();
    let expired = probe.expect(410, "GET", &format!("{MAPS}?limit=2&continue={token}"), Value::Null).await;
    assert_eq!(expired["reason"], "Expired");
    let token = expired["metadata"]["continue"].as_str().unwrap();
    assert_eq!(names(&probe.get(&format!("{MAPS}?limit=2&continue={token}")).await), ["d", "e"]);
}

#[tokio::test]
async fn collections_are_deleted_by_selectors() {
    let probe = Probe::new();
    for (name, label) in [("a", "x"), ("b", "x"), ("c", "y")] {
        probe.create(MAPS, json!({"metadata": {"name": name, "labels": {"l": label}}})).await;
    }
    let deleted = probe.expect(200, "DELETE", &format!("{MAPS}?labelSelector=l%3Dx"), Value::Null).await;
    assert_eq!(deleted["items"].as_array().unwrap().len(), 2);
    assert_eq!(probe.get(&format!("{MAPS}?labelSelector=l")).await["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn string_data_of_secrets_is_encoded() {
    let probe = Probe::new();
    let path = "/api/v1/namespaces/default/secrets";
    let secret = probe.create(path, json!({"metadata": {"name": "s"}, "stringData": {"a": "b"}})).await;
    assert_eq!((&secret["data"], &secret["type"]), (&json!({"a": "Yg=="}), &json!("Opaque")), "{secret:#}");
    assert!(secret.get("stringData").is_none());
}

#[tokio::test]
async fn strategic_patches_merge_lists_by_their_keys() {
    let probe = Probe::new();
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let pod = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
        {"name": "one", "image": "x:1"}, {"name": "two", "image": "y:1"}]}});
    let body = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pod}});
    let created = probe.create(path, body).await;
    assert_eq!((&created["spec"]["replicas"], &created["metadata"]["generation"]), (&json!(1), &json!(1)));
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "two", "image": "y:2"}]}}}});
    let (code, patched) = probe.ask_as("PATCH", &format!("{path}/d"), STRATEGIC, patch).await;
    assert_eq!(code, 200, "{patched:#}");
    let images: Vec<&Value> =
        patched["spec"]["template"]["spec"]["containers"].as_array().unwrap().iter().map(|one| &one["image"]).collect();
    assert_eq!(images, ["x:1", "y:2"]);
    assert_eq!(patched["metadata"]["generation"], 2);

    let status =
        probe.patch(&format!("{path}/d/status"), json!({"status": {"replicas": 2}, "spec": {"replicas": 9}})).await;
    assert_eq!((&status["status"]["replicas"], &status["spec"]["replicas"]), (&json!(2), &json!(1)));
    let scale = probe.patch(&format!("{path}/d/scale"), json!({"spec": {"replicas": 4}})).await;
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(4)));
    assert_eq!(scale["status"], json!({"replicas": 2, "selector": "a=b"}));
    assert_eq!(probe.get(&format!("{path}/d")).await["status"]["replicas"], 2);

    let refused = probe.expect(422, "POST", path, json!({"metadata": {"name": "e"}, "spec": {}})).await;
    // The exact text of a real server.
    assert_eq!(
        refused["message"],
        "Deployment.apps \"e\" is invalid: [spec.selector: Required value, spec.template.metadata.labels: Invalid \
         value: null: `selector` does not match template `labels`, spec.template.spec.containers: Required value]"
    );
}

#[tokio::test]
async fn server_side_apply_merges_and_reports_conflicts() {
    let probe = Probe::new();
    let path = format!("{MAPS}/x");
    let apply = async |manager: &str, data: Value| {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data});
        probe.ask_as("PATCH", &format!("{path}?fieldManager={manager}"), APPLY, body).await
    };
    let (code, created) = apply("one", json!({"a": "1", "b": "2"})).await;
    assert_eq!(code, 201, "{created:#}");
    let (code, conflict) = apply("two", json!({"a": "7"})).await;
    assert_eq!(code, 409, "{conflict:#}");
    assert_eq!(conflict["message"], "Apply failed with 1 conflict: conflict with \"one\": .data.a");
    let (code, applied) = apply("one", json!({"b": "2"})).await;
    assert_eq!((code, &applied["data"]), (200, &json!({"b": "2"})), "what is not applied any more is removed");
    let (_, same) = apply("one", json!({"b": "2"})).await;
    assert_eq!(same["metadata"]["resourceVersion"], applied["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn dependents_are_deleted_with_their_owners() {
    let probe = Probe::new();
    let owned = async |name: &str, owner: &Value| {
        let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true, "controller": true});
        probe.create(MAPS, json!({"metadata": {"name": name, "ownerReferences": [reference]}})).await
    };
    for (policy, survives) in [("Background", false), ("Foreground", false), ("Orphan", true)] {
        let owner = probe.create(MAPS, json!({"metadata": {"name": "owner"}})).await;
        let child = owned("child", &owner).await;
        owned("grandchild", &child).await;
        probe.expect(200, "DELETE", &format!("{MAPS}/owner?propagationPolicy={policy}"), Value::Null).await;
        probe.expect(404, "GET", &format!("{MAPS}/owner"), Value::Null).await;
        let (code, child) = probe.ask("GET", &format!("{MAPS}/child"), Value::Null).await;
        assert_eq!(code == 200, survives, "{policy}: {child:#}");
        if survives {
            assert!(child["metadata"].get("ownerReferences").is_none(), "{child:#}");
        }
        let (code, _) = probe.ask("GET", &format!("{MAPS}/grandchild"), Value::Null).await;
        assert_eq!(code == 200, survives, "{policy}");
    }
}

#[tokio::test]
async fn the_first_write_of_a_claim_stores_its_phase() {
    let probe = Probe::new();
    let path = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = json!({"metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let created = probe.create(path, claim).await;
    assert_eq!(created["status"], json!({"phase": "Pending"}));
    let path = format!("{path}/c");
    assert_eq!(probe.get(&path).await["status"], json!({"phase": "Pending"}));
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    let first = probe.patch(&path, json!({})).await;
    assert_ne!(version(&first), version(&created));
    let second = probe.patch(&path, json!({})).await;
    assert_eq!(version(&second), version(&first));
    assert_eq!(second["status"], json!({"phase": "Pending"}));
}
