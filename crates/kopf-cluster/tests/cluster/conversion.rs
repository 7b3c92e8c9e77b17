//! Conversion webhooks of CRDs: every version is read and written through the storage version.

use serde_json::{Value, json};

use crate::common::{APPLY, CRDS, Probe};
use crate::hook::Hook;

const V1: &str = "/apis/example.com/v1/namespaces/default/things";
const V2: &str = "/apis/example.com/v2/namespaces/default/things";

/// The address is one field in v1, and two fields in v2.
fn convert(path: &str, review: &Value) -> Value {
    let request = &review["request"];
    let wanted = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = request["objects"].as_array().into_iter().flatten().map(|object| {
        let mut object = object.clone();
        let text = |field: &str| object["spec"][field].as_str().unwrap_or_default().to_owned();
        object["spec"] = match wanted {
            "example.com/v2" => {
                let joined = text("address");
                let (host, port) = joined.split_once(':').unwrap_or_default();
                json!({"host": host, "port": port})
            }
            _ => json!({"address": format!("{}:{}", text("host"), text("port"))}),
        };
        object["apiVersion"] = json!(wanted);
        if path == "/rename" {
            object["metadata"]["name"] = json!("other");
        }
        object
    });
    let result = match path {
        "/fail" => json!({"status": "Failure", "message": "not today"}),
        _ => json!({"status": "Success"}),
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": {
        "uid": request["uid"], "result": result, "convertedObjects": objects.collect::<Vec<_>>()}})
}

fn crd(hook: &Hook) -> Value {
    let version = |name: &str, storage: bool, fields: &[&str]| {
        let properties: serde_json::Map<String, Value> =
            fields.iter().map(|field| ((*field).to_owned(), json!({"type": "string"}))).collect();
        json!({"name": name, "served": true, "storage": storage, "deprecated": name == "v1",
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": properties}}}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
            "clientConfig": hook.config("/convert")}},
        "versions": [version("v1", true, &["address"]), version("v2", false, &["host", "port"])],
    }})
}

fn thing(version: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("example.com/{version}"), "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn objects_are_shown_in_the_requested_version() {
    let probe = Probe::new();
    let hook = Hook::start(convert).await;
    probe.create(CRDS, crd(&hook)).await;
    probe.create(V1, thing("v1", "a", json!({"address": "h:1"}))).await;
    assert_eq!(hook.paths().len(), 0);
    let shown = probe.get(&format!("{V2}/a")).await;
    assert_eq!((&shown["apiVersion"], &shown["spec"]), (&json!("example.com/v2"), &json!({"host": "h", "port": "1"})));
    let created = probe.create(V2, thing("v2", "b", json!({"host": "k", "port": "2"}))).await;
    assert_eq!((&created["apiVersion"], &created["spec"]["host"]), (&json!("example.com/v2"), &json!("k")));
    hook.seen();
    assert_eq!(probe.get(&format!("{V1}/b")).await["spec"], json!({"address": "k:2"}));
    let list = probe.get(V2).await;
    let specs: Vec<&Value> = list["items"].as_array().into_iter().flatten().map(|item| &item["spec"]).collect();
    assert_eq!(specs, [&json!({"host": "h", "port": "1"}), &json!({"host": "k", "port": "2"})]);
    // One review for the whole list, none for the version in which the objects are stored.
    let seen = hook.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].1["request"]["objects"][0]["apiVersion"], "example.com/v1");
    let response = probe.send("GET", V1, &[], "").await;
    assert_eq!(response.headers()["warning"], "299 - \"example.com/v1 Thing is deprecated; use example.com/v2 Thing\"");
}

#[tokio::test]
async fn changes_and_watches_are_converted() {
    let probe = Probe::new();
    let hook = Hook::start(convert).await;
    probe.create(CRDS, crd(&hook)).await;
    probe.create(V1, thing("v1", "a", json!({"address": "h:1"}))).await;
    let mut lines = probe.watch(&format!("{V2}?watch=1")).await;
    let added = lines.next().await.unwrap_or_default();
    assert_eq!((&added["type"], &added["object"]["spec"]), (&json!("ADDED"), &json!({"host": "h", "port": "1"})));
    let patched = probe.patch(&format!("{V2}/a"), json!({"spec": {"port": "9"}})).await;
    assert_eq!(patched["spec"], json!({"host": "h", "port": "9"}));
    let stored = probe.get(&format!("{V1}/a")).await;
    assert_eq!(stored["spec"], json!({"address": "h:9"}));
    assert_eq!(stored["metadata"]["resourceVersion"], patched["metadata"]["resourceVersion"]);
    let modified = lines.next().await.unwrap_or_default();
    assert_eq!(modified["object"]["spec"], json!({"host": "h", "port": "9"}));
    probe.expect(200, "DELETE", &format!("{V2}/a"), Value::Null).await;
    let deleted = lines.next().await.unwrap_or_default();
    assert_eq!((&deleted["type"], &deleted["object"]["spec"]["port"]), (&json!("DELETED"), &json!("9")));
}

#[tokio::test]
async fn objects_stay_in_their_version_when_the_storage_version_changes() {
    let probe = Probe::new();
    let hook = Hook::start(convert).await;
    probe.create(CRDS, crd(&hook)).await;
    probe.create(V1, thing("v1", "a", json!({"address": "h:1"}))).await;
    let definition = format!("{CRDS}/things.example.com");
    let mut changed = probe.get(&definition).await;
    changed["spec"]["versions"][0]["storage"] = json!(false);
    changed["spec"]["versions"][1]["storage"] = json!(true);
    probe.expect(200, "PUT", &definition, changed).await;
    assert_eq!(probe.get(&format!("{V1}/a")).await["spec"], json!({"address": "h:1"}));
    assert_eq!(probe.get(&format!("{V2}/a")).await["spec"], json!({"host": "h", "port": "1"}));
    probe.patch(&format!("{V1}/a"), json!({"metadata": {"labels": {"x": "y"}}})).await;
    hook.seen();
    assert_eq!(probe.get(&format!("{V2}/a")).await["spec"], json!({"host": "h", "port": "1"}));
    assert_eq!(hook.paths().len(), 0);
    let stored = probe.get(&definition).await;
    assert_eq!(stored["status"]["storedVersions"], json!(["v1", "v2"]));
}

#[tokio::test]
async fn failed_conversions_are_reported() {
    let probe = Probe::new();
    let hook = Hook::start(convert).await;
    probe.create(CRDS, crd(&hook)).await;
    probe.create(V1, thing("v1", "a", json!({"address": "h:1"}))).await;
    for (path, expected) in [
        ("/fail", "conversion webhook for example.com/v1, Kind=Thing failed: not today"),
        (
            "/rename",
            "conversion webhook for example.com/v1, Kind=Thing returned invalid object: must have the same name: a != \
             other",
        ),
    ] {
        let config = json!({"spec": {"conversion": {"webhook": {"clientConfig": hook.config(path)}}}});
        probe.patch(&format!("{CRDS}/things.example.com"), config).await;
        let refused = probe.expect(500, "GET", &format!("{V2}/a"), Value::Null).await;
        assert_eq!((&refused["message"], refused.get("reason")), (&json!(expected), None));
        probe.expect(500, "POST", V2, thing("v2", "c", json!({"host": "k"}))).await;
        probe.expect(404, "GET", &format!("{V1}/c"), Value::Null).await;
        assert_eq!(probe.get(&format!("{V1}/a")).await["spec"], json!({"address": "h:1"}));
    }
}

/// The fields of the spec that each manager owns.
fn owned_specs(object: &Value) -> Vec<(&str, &str, &Value)> {
    let entries = object["metadata"]["managedFields"].as_array().map(Vec::as_slice).unwrap_or_default();
    let owned = entries.iter().map(|entry| {
        let manager = entry["manager"].as_str().unwrap_or_default();
        (manager, entry["apiVersion"].as_str().unwrap_or_default(), &entry["fieldsV1"]["f:spec"])
    });
    owned.collect()
}

async fn apply(probe: &Probe, expected: u16, path: &str, configuration: Value) -> Value {
    let (code, answer) = probe.ask_as("PATCH", path, APPLY, configuration).await;
    assert_eq!(code, expected, "{path}: {answer:#}");
    answer
}

#[tokio::test]
async fn managers_lose_fields_that_are_changed_in_another_version() {
    let probe = Probe::new();
    let hook = Hook::start(convert).await;
    probe.create(CRDS, crd(&hook)).await;
    let path = |version: &str, manager: &str| format!("{version}/a?fieldManager={manager}");
    let first = thing("v1", "a", json!({"address": "h:1"}));
    apply(&probe, 201, &path(V1, "one"), first).await;
    // Only the port differs, but in the version of the first manager it is a part of the address.
    let second = thing("v2", "a", json!({"port": "2"}));
    let refused = apply(&probe, 409, &path(V2, "two"), second.clone()).await;
    let conflict = "Apply failed with 1 conflict: conflict with \"one\": .spec.address";
    assert_eq!(refused["message"], conflict);
    let forced = apply(&probe, 200, &format!("{}&force=true", path(V2, "two")), second).await;
    assert_eq!(forced["spec"], json!({"host": "h", "port": "2"}));
    assert_eq!(owned_specs(&forced), [("two", "example.com/v2", &json!({"f:port": {}}))]);
    let third = probe.patch(&path(V1, "three"), json!({"spec": {"address": "k:2"}})).await;
    assert_eq!(
        owned_specs(&third),
        [("two", "example.com/v2", &json!({"f:port": {}})), ("three", "example.com/v1", &json!({"f:address": {}}))]
    );
    // Ownership is lost if the version of a manager cannot be converted any more.
    let config = json!({"spec": {"conversion": {"webhook": {"clientConfig": hook.config("/fail")}}}});
    probe.patch(&format!("{CRDS}/things.example.com"), config).await;
    let refused = apply(&probe, 500, &path(V1, "one"), thing("v1", "a", json!({"address": "h:1"}))).await;
    assert_eq!(refused["message"], "conversion webhook for example.com/v1, Kind=Thing failed: not today");
    let written = probe.patch(&path(V1, "three"), json!({"spec": {"address": "k:3"}})).await;
    assert_eq!(written["metadata"].get("managedFields"), None);
}
