//! Invalid requests: the cluster responds as a real server 1.36.3, whose responses are in the tables.

// Helpers of tests may panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common::{APPLY, CRDS, JSON_PATCH, MERGE, Probe, STRATEGIC, widget_crd};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const TARGET: &str = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

/// A request, and the code, the reason and the start of the message of the expected response.
type Case<'a> = (&'a str, &'a str, &'a str, String, u16, &'a str, &'a str);

async fn check(cases: &[Case<'_>]) {
    let probe = Probe::new();
    for (method, path, content_type, body, code, reason, message) in cases {
        let (answered, status) = probe.ask_as(method, path, content_type, Value::String(body.clone())).await;
        let shown = format!("{method} {path} {content_type} {:.100}: {status:#.400}", body);
        assert_eq!(answered, *code, "{shown}");
        assert_eq!(status["reason"].as_str().unwrap_or(""), *reason, "{shown}");
        let text = status["message"].as_str().unwrap_or("");
        assert!(text.starts_with(message), "{shown}");
    }
    // The cluster still works.
    probe.get(TARGET).await;
}

fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

#[tokio::test]
async fn bodies_without_objects_are_rejected() {
    let unrecognized = "the object provided is unrecognized (must be of type ConfigMap): ";
    let no_type = format!("{unrecognized}couldn't get version/kind; json parse error: ");
    let not_an_object = format!("{no_type}json: cannot unmarshal array into Go value of type struct {{");
    let nameless = "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required";
    let bad =
        |body: &str, message: &'static str| -> (String, String) { (body.to_owned(), format!("{no_type}{message}")) };
    let flaws = [
        bad("", "unexpected end of JSON input (<empty>)"),
        bad("  ", "unexpected end of JSON input (2020)"),
        bad("{", "unexpected end of JSON input ({)"),
        bad("{}{}", "invalid character '{' after top-level value ({}{})"),
        bad("{'a':1}", "invalid character '\\'' looking for beginning of object key string ({'a':1})"),
        bad(&nested(100_000), "invalid character '[' exceeded max depth (5b5b5b"),
        bad(&"[".repeat(100_000), "invalid character '[' exceeded max depth (5b5b5b"),
    ];
    let mut cases: Vec<Case<'_>> = flaws
        .iter()
        .map(|(body, message)| ("POST", MAPS, JSON, body.clone(), 400, "BadRequest", message.as_str()))
        .collect();
    cases.extend([
        ("POST", MAPS, JSON, "[]".into(), 400, "BadRequest", not_an_object.as_str()),
        ("POST", MAPS, JSON, "null".into(), 422, "Invalid", nameless),
        ("POST", MAPS, YAML, String::new(), 422, "Invalid", nameless),
        ("POST", MAPS, "text/plain", "{}".into(), 415, "UnsupportedMediaType", "the body of the request was in"),
        ("POST", MAPS, "garbage", "{}".into(), 415, "UnsupportedMediaType", "the body of the request was in"),
        (
            "DELETE",
            TARGET,
            JSON,
            "{".into(),
            400,
            "BadRequest",
            "couldn't get version/kind; json parse error: unexpected",
        ),
        ("DELETE", TARGET, JSON, "[]".into(), 400, "BadRequest", "couldn't get version/kind; json parse error: json: "),
        (
            "DELETE",
            TARGET,
            JSON,
            r#"{"gracePeriodSeconds":"a"}"#.into(),
            400,
            "BadRequest",
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
        ),
        (
            "DELETE",
            TARGET,
            JSON,
            r#"{"kind":"Pod","apiVersion":"v1"}"#.into(),
            400,
            "BadRequest",
            "no kind \"Pod\" is registered for version \"v1\"",
        ),
    ]);
    check(&cases).await;
}

#[tokio::test]
async fn too_large_bodies_are_rejected() {
    let large = || format!("{{\"a\":\"{}\"}}", "x".repeat(3 * 1024 * 1024));
    let too_large = "Request entity too large: limit is 3145728";
    let operations = json!(vec![json!({"op": "test", "path": "/kind", "value": "ConfigMap"}); 10_001]).to_string();
    let mut copies = vec![json!({"op": "add", "path": "/x", "value": ["x".repeat(1000)]})];
    copies.extend(vec![json!({"op": "copy", "from": "/x", "path": "/x/-"}); 30]);
    let rejected = "the server rejected our request due to an error in our request";
    check(&[
        ("POST", MAPS, JSON, large(), 413, "RequestEntityTooLarge", too_large),
        ("PATCH", TARGET, MERGE, large(), 413, "RequestEntityTooLarge", too_large),
        ("DELETE", TARGET, JSON, large(), 413, "RequestEntityTooLarge", too_large),
        (
            "PATCH",
            TARGET,
            JSON_PATCH,
            operations,
            413,
            "RequestEntityTooLarge",
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
        ),
        ("PATCH", TARGET, JSON_PATCH, json!(copies).to_string(), 422, "Invalid", rejected),
    ])
    .await;
}

#[tokio::test]
async fn exponential_yaml_is_rejected() {
    let mut bomb = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\na: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (name, before) in
        ["b", "c", "d", "e", "f", "g", "h", "i", "j"].iter().zip(["a", "b", "c", "d", "e", "f", "g", "h", "i"])
    {
        bomb.push_str(&format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 9].join(",")));
    }
    let unrecognized = "the object provided is unrecognized (must be of type ConfigMap): yaml: ";
    let aliases = format!("{unrecognized}document contains excessive aliasing (6170695665");
    let octet = format!("{unrecognized}invalid leading UTF-8 octet");
    let aliases_applied =
        "error decoding YAML: error converting YAML to JSON: yaml: document contains excessive aliasing";
    let applied = format!("{TARGET}?fieldManager=m");
    let deep = format!("a: {}", nested(20_000));
    let of_map = "of type map[string]interface {}";
    check(&[
        ("POST", MAPS, YAML, bomb.clone(), 400, "BadRequest", &aliases),
        ("PATCH", &applied, APPLY, bomb, 400, "BadRequest", aliases_applied),
        ("POST", MAPS, YAML, deep.clone(), 400, "BadRequest", unrecognized),
        (
            "PATCH",
            &applied,
            APPLY,
            deep,
            400,
            "BadRequest",
            "error decoding YAML: error converting YAML to JSON: yaml: ",
        ),
        ("POST", MAPS, YAML, "a: *nope".into(), 400, "BadRequest", unrecognized),
        ("POST", MAPS, YAML, "a: &a [*a]".into(), 400, "BadRequest", unrecognized),
        ("PATCH", &applied, APPLY, String::new(), 400, "BadRequest", "invalid object type: /, Kind="),
        (
            "PATCH",
            &applied,
            APPLY,
            "[]".into(),
            400,
            "BadRequest",
            &format!(
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into \
                 Go value {of_map}"
            ),
        ),
    ])
    .await;
    let probe = Probe::new();
    let headers = [("content-type", YAML)];
    let (code, status) = probe.ask_bytes("POST", MAPS, &headers, b"a: \"\xff\"").await;
    assert_eq!(code, 400);
    assert!(status["message"].as_str().unwrap().starts_with(&octet), "{status:#}");
    // Only the first document counts, and the last of repeated keys.
    let two = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\nmetadata: {name: first}\n---\nmetadata: {name: second}\n";
    let (code, created) = probe.ask_as("POST", MAPS, YAML, json!(two)).await;
    assert_eq!((code, &created["metadata"]["name"]), (201, &json!("first")), "{created:#}");
}

#[tokio::test]
async fn invalid_patches_are_rejected() {
    let map = "Go value of type map[string]interface {}";
    let merge = |found: &str| format!("error decoding patch: json: cannot unmarshal {found} into {map}");
    let strategic = |found: &str| format!("json: cannot unmarshal {found} into {map}");
    let (merge_array, merge_number) = (merge("array"), merge("number"));
    let (strategic_array, strategic_text) = (strategic("array"), strategic("string"));
    let end = "unexpected end of JSON input";
    check(&[
        ("PATCH", TARGET, MERGE, "{".into(), 400, "BadRequest", "error decoding patch: unexpected end of JSON input"),
        ("PATCH", TARGET, MERGE, "{}x".into(), 400, "BadRequest", "error decoding patch: invalid character 'x' after"),
        ("PATCH", TARGET, MERGE, "null".into(), 400, "BadRequest", "Invalid JSON Patch"),
        ("PATCH", TARGET, MERGE, "[]".into(), 400, "BadRequest", &merge_array),
        ("PATCH", TARGET, MERGE, "1".into(), 400, "BadRequest", &merge_number),
        ("PATCH", TARGET, STRATEGIC, String::new(), 400, "BadRequest", end),
        ("PATCH", TARGET, STRATEGIC, "[]".into(), 400, "BadRequest", &strategic_array),
        ("PATCH", TARGET, STRATEGIC, "\"x\"".into(), 400, "BadRequest", &strategic_text),
        ("PATCH", TARGET, STRATEGIC, "null".into(), 200, "", ""),
        ("PATCH", TARGET, JSON_PATCH, "null".into(), 200, "", ""),
        (
            "PATCH",
            TARGET,
            JSON_PATCH,
            "{}".into(),
            400,
            "BadRequest",
            "error decoding patch: json: cannot unmarshal object",
        ),
        ("PATCH", TARGET, JSON, "{}".into(), 415, "UnsupportedMediaType", "415: Unsupported Media Type"),
    ])
    .await;
}

#[tokio::test]
async fn invalid_names_paths_and_parameters_are_rejected() {
    let long = format!("{MAPS}/{}", "x".repeat(3000));
    let many = format!("{MAPS}?labelSelector={}", (0..2000).map(|n| format!("k{n}%3Dv")).collect::<Vec<_>>().join(","));
    let get = |path: &'static str, code, reason, message| ("GET", path, JSON, String::new(), code, reason, message);
    check(&[
        get(
            "/api/v1/namespaces/default/configmaps/..",
            400,
            "BadRequest",
            "Name parameter invalid: \"..\": may not be '..'",
        ),
        get(
            "/api/v1/namespaces/default/configmaps/%2e%2e",
            400,
            "BadRequest",
            "Name parameter invalid: \"..\": may not",
        ),
        get(
            "/api/v1/namespaces/default/configmaps/%25",
            400,
            "BadRequest",
            "Name parameter invalid: \"%\": may not contain",
        ),
        get("/api/v1/namespaces/default/configmaps/%2F", 200, "", ""),
        get("/api/v1/namespaces//configmaps", 200, "", ""),
        get("//api/v1/pods", 404, "", ""),
        get("/api//v1/pods", 404, "NotFound", "the server could not find the requested resource"),
        ("GET", &long, JSON, String::new(), 404, "NotFound", "configmaps \"xxxx"),
        ("GET", &many, JSON, String::new(), 200, "", ""),
        ("HEAD", MAPS, JSON, String::new(), 405, "MethodNotAllowed", ""),
        get(
            "/api/v1/configmaps?limit=99999999999999999999",
            400,
            "BadRequest",
            "strconv.ParseInt: parsing \"99999999999999999999\": value out of range",
        ),
        get(
            "/api/v1/configmaps?resourceVersion=99999999999999999999",
            400,
            "BadRequest",
            "invalid resource version: resourceVersion: Invalid value: \"99999999999999999999\": strconv.ParseUint: \
             parsing \"99999999999999999999\": value out of range",
        ),
        get("/api/v1/configmaps?labelSelector=%zz&a=%z&;", 200, "", ""),
        get("/api/v1/configmaps?labelSelector=a%20in%20(", 400, "BadRequest", "unable to parse requirement: "),
        get(
            "/api/v1/configmaps?fieldSelector=metadata.name%3Da%5C",
            400,
            "BadRequest",
            "invalid field selector: invalid escape sequence: \\",
        ),
        get(
            "/api/v1/configmaps?fieldSelector=metadata.name%3Da%3Db",
            400,
            "BadRequest",
            "invalid field selector: unescaped character in value: 61",
        ),
        (
            "POST",
            "/api/v1/namespaces/default/configmaps?dryRun=",
            JSON,
            "{}".into(),
            422,
            "Invalid",
            "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"\"]: supported values: \"All\"",
        ),
        (
            "POST",
            "/api/v1/namespaces/default/configmaps?fieldManager=%01",
            JSON,
            "{}".into(),
            422,
            "Invalid",
            "CreateOptions.meta.k8s.io \"\" is invalid: fieldManager: Invalid value: ",
        ),
    ])
    .await;
}

#[tokio::test]
async fn invalid_unicode_is_replaced() {
    let probe = Probe::new();
    let body = b"{\"metadata\":{\"name\":\"bad\"},\"data\":{\"a\":\"\xff\",\"b\":\"\\ud800\"}}";
    let (code, created) = probe.ask_bytes("POST", MAPS, &[("content-type", JSON)], body).await;
    assert_eq!((code, &created["data"]), (201, &json!({"a": "\u{fffd}", "b": "\u{fffd}"})), "{created:#}");
}

/// Accepted custom objects of any depth can be written, read, changed and removed.
#[tokio::test]
async fn deep_objects_are_served_or_rejected() {
    let probe = Probe::new();
    let mut crd = widget_crd();
    crd["spec"]["versions"][0]["schema"] =
        json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    crd["spec"]["versions"][0]["selectableFields"] = json!([]);
    probe.create(CRDS, crd).await;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    for (depth, expected) in [(100, 201), (120, 201), (1000, 400), (20_000, 400)] {
        let name = format!("w{depth}");
        let body = format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"{name}"}},"spec":{{"deep":{}}}}}"#,
            nested(depth)
        );
        let (code, answer) = probe.ask_as("POST", widgets, JSON, Value::String(body)).await;
        assert_eq!(code, expected, "{depth}: {:.300}", answer.to_string());
        if code == 201 {
            let path = format!("{widgets}/{name}");
            probe.patch(&path, json!({"metadata": {"labels": {"a": "b"}}})).await;
            probe.expect(200, "DELETE", &path, Value::Null).await;
        }
    }
}

/// Many connections that send nothing do not block other clients.
#[tokio::test]
async fn silent_connections_do_not_block_others() {
    let probe = Probe::new();
    let server = probe.cluster.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..300 {
        let mut stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(&[0x16, 0x03]).await.unwrap();
        silent.push(stream);
    }
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&server.kubeconfig()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let answered = tokio::time::timeout(Duration::from_secs(5), client.apiserver_version()).await;
    assert_eq!(answered.unwrap().unwrap().git_version, kopf_cluster::KUBERNETES_VERSION);
    // The server closes a connection without TLS at once.
    let mut plain = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(5), plain.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "it is still open");
}

/// The server waits for a body only for a limited time.
#[tokio::test(start_paused = true)]
async fn endless_bodies_time_out() {
    use tower_service::Service;
    let probe = Probe::new();
    let endless = http_body_util::StreamBody::new(futures::stream::pending::<Result<_, std::convert::Infallible>>());
    let request = http::Request::builder().method("POST").uri(MAPS).body(endless).unwrap();
    let response = probe.cluster.service().call(request).await.unwrap();
    assert_eq!(response.status(), 408);
}
