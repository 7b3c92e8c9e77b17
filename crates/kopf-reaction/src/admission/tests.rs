use proptest::prelude::*;

use super::*;

fn review(request: Value) -> Value {
    let mut full = json!({
        "uid": "u1",
        "resource": {"group": "kopf.dev", "version": "v1", "resource": "kopfexamples"},
        "operation": "CREATE",
        "userInfo": {"username": "me"},
        "object": {"metadata": {"name": "x", "labels": {"a": "b"}}, "spec": {"field": 1}},
    });
    full.as_object_mut().unwrap().extend(request.as_object().unwrap().clone());
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": full})
}

fn parsed(request: Value) -> AdmissionReview {
    AdmissionReview::parse(&review(request)).unwrap()
}

fn handler(options: Value, declaration: Value) -> Arc<Handler> {
    let mut full = json!({"index": 7, "id": "fn", "kind": "webhook", "webhook": {"type": "validating"}});
    full["webhook"].as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    full.as_object_mut().unwrap().extend(declaration.as_object().unwrap().clone());
    Arc::new(serde_json::from_value(full).unwrap())
}

#[test]
fn requests() {
    let review = parsed(json!({
        "operation": "UPDATE", "subResource": "status", "dryRun": true,
        "oldObject": {"metadata": {"name": "x", "labels": {"a": "b"}}, "spec": {"field": 0}},
    }));
    assert_eq!(review.operation.as_deref(), Some("UPDATE"));
    assert_eq!(review.subresource.as_deref(), Some("status"));
    assert!(review.dry_run);
    assert_eq!(review.diff.to_json(), json!([["change", ["spec", "field"], 0, 1]]));
    let deletion = parsed(json!({"operation": "DELETE", "object": null, "oldObject": {"metadata": {"name": "y"}}}));
    assert_eq!((deletion.body.name(), deletion.new), (Some("y"), None));
}

#[test]
fn bad_requests() {
    let table = [
        (json!({}), "It is not an admission request."),
        (json!([1]), "It is not an admission request."),
        (json!({"request": "x"}), "It is not an admission request."),
        (review(json!({"userInfo": null})), "User info is missing from the admission request."),
        (review(json!({"object": null})), "Either old or new object is missing from the admission request."),
        (review(json!({"object": 5})), "Either old or new object is missing from the admission request."),
        (review(json!({"resource": []})), "The resource is missing from the admission request."),
    ];
    for (review, message) in table {
        let error = AdmissionReview::parse(&review).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.code()), (message, 400), "{review}");
    }
}

#[test]
fn resources() {
    let resource = |version: &str| {
        let (group, plural) = ("kopf.dev".into(), "kopfexamples".into());
        Arc::new(Resource { group, version: version.into(), plural, ..Resource::default() })
    };
    let review = parsed(json!({}));
    assert_eq!(review.find_resource(&[resource("v1beta1"), resource("v1")]), Ok(resource("v1")));
    let error = review.find_resource(&[resource("v2")]).unwrap_err();
    assert_eq!(error.code(), 404);
    assert_eq!(
        error.to_string(),
        "The specified resource has no handlers: \
         {'group': 'kopf.dev', 'version': 'v1', 'resource': 'kopfexamples'}"
    );
}

#[test]
fn candidates() {
    // the options, the id in the path, the request, whether the handler is called
    let table = [
        (json!({}), None, json!({}), true),
        (json!({}), Some("fn"), json!({}), true),
        (json!({}), Some("other"), json!({}), false),
        (json!({}), None, json!({"operation": "DELETE"}), true),
        (json!({"type": "mutating"}), None, json!({"operation": "DELETE"}), false),
        (json!({"type": "mutating", "operations": ["DELETE"]}), None, json!({"operation": "DELETE"}), true),
        (json!({"type": "mutating", "operations": ["DELETE", "UPDATE"]}), None, json!({"operation": "DELETE"}), false),
        (json!({"type": "converting", "from": "v1", "to": "v2"}), None, json!({}), false),
        (json!({"operations": ["UPDATE"]}), None, json!({}), false),
        (json!({"operations": ["UPDATE", "CREATE"]}), None, json!({}), true),
        (json!({"operations": ["*"]}), None, json!({}), true),
        (json!({}), None, json!({"subResource": "status"}), false),
        (json!({"subresource": "status"}), None, json!({"subResource": "status"}), true),
        (json!({"subresource": "status"}), None, json!({}), false),
        (json!({"subresource": "*"}), None, json!({"subResource": "status"}), true),
        (json!({"subresource": "*"}), None, json!({}), true),
    ];
    for (options, webhook, request, expected) in table {
        let found = parsed(request.clone()).candidates(&[handler(options.clone(), json!({}))], webhook);
        assert_eq!(!found.is_empty(), expected, "{options} {webhook:?} {request}");
    }
}

#[test]
fn filters() {
    let table = [
        (json!({"labels": {"a": {"equals": "b"}}}), true),
        (json!({"labels": {"a": {"absent": true}}}), false),
        (json!({"annotations": {"n": {"present": true}}}), false),
        (json!({"field": ["spec", "field"]}), true),
        (json!({"field": ["spec", "field"], "value": {"equals": 1}}), true),
        (json!({"field": ["spec", "field"], "value": {"equals": 2}}), false),
        (json!({"field": ["spec", "other"]}), false),
    ];
    for (declaration, expected) in table {
        let handlers = [handler(json!({}), declaration.clone())];
        let matching = parsed(json!({})).matching(&handlers, &FilterAnswers::default()).unwrap();
        assert_eq!(!matching.is_empty(), expected, "{declaration}");
    }
    let asked = [handler(json!({}), json!({"when": true}))];
    let questions = parsed(json!({})).matching(&asked, &FilterAnswers::default()).unwrap_err();
    let mut answers = FilterAnswers::default();
    answers.insert(&questions[0], true);
    assert_eq!(parsed(json!({})).matching(&asked, &answers).unwrap().len(), 1);
}

fn refused(error: CallError) -> Denial {
    Denial::from(&error)
}

#[test]
fn answers() {
    let review = parsed(json!({}));
    assert_eq!(
        review.answer(&[], &[], &[]),
        json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": {"uid": "u1", "allowed": true},
        })
    );
    let patch = [PatchOperation::Add { path: "/spec/x".into(), value: json!(1) }];
    let answer = review.answer(&[], &["careful".into()], &patch);
    assert_eq!(answer["response"]["warnings"], json!(["careful"]));
    assert_eq!(answer["response"]["patchType"], json!("JSONPatch"));
    let decoded = STANDARD.decode(answer["response"]["patch"].as_str().unwrap()).unwrap();
    let decoded: Value = serde_json::from_slice(&decoded).unwrap();
    assert_eq!(decoded, json!([{"op": "add", "path": "/spec/x", "value": 1}]));
}

#[test]
fn the_response_has_the_message_of_the_best_rank() {
    let both = |text: &str| (text.to_owned(), text.to_owned());
    let arbitrary = || CallError::Arbitrary { message: both("a").0, display: both("a").1 };
    let temporary = || CallError::Temporary { message: both("t").0, display: both("t").1, delay: None };
    let permanent = || CallError::Permanent { message: both("p").0, display: both("p").1 };
    let admission = |code| CallError::Denied { message: both("r").0, display: both("r").1, code };
    let table = [
        (vec![arbitrary()], "a", 500),
        (vec![arbitrary(), temporary()], "t", 500),
        (vec![temporary(), permanent(), arbitrary()], "p", 500),
        (vec![permanent(), admission(Some(418)), admission(Some(400))], "r", 418),
        (vec![admission(None)], "r", 500),
    ];
    for (errors, message, code) in table {
        let denials: Vec<Denial> = errors.into_iter().map(refused).collect();
        let answer = parsed(json!({})).answer(&denials, &[], &[]);
        assert_eq!(answer["response"]["allowed"], json!(false));
        assert_eq!(answer["response"]["status"], json!({"message": message, "code": code}));
    }
}

proptest! {
    /// Whatever comes, there is an answer or an error, and never a panic.
    #[test]
    fn garbage_is_refused(keys in proptest::collection::vec("[a-zA-Z]{1,12}", 0..6), text in "\\PC{0,20}") {
        let mut request = json!({});
        for key in keys {
            request[key] = json!(text);
        }
        let _ = AdmissionReview::parse(&json!({"request": request}));
        let _ = AdmissionReview::parse(&request);
    }

    /// A handler in the path is called only if it would be called without the path as well.
    #[test]
    fn paths_only_narrow(operation in "CREATE|UPDATE|DELETE|CONNECT", mutating: bool, own in "CREATE|DELETE") {
        let review = parsed(json!({"operation": operation}));
        let kind = if mutating { "mutating" } else { "validating" };
        let handlers = [handler(json!({"type": kind, "operations": [own]}), json!({}))];
        let by_path = review.candidates(&handlers, Some("fn")).len();
        prop_assert_eq!(by_path, review.candidates(&handlers, None).len());
        prop_assert_eq!(review.candidates(&handlers, Some("other")).len(), 0);
    }
}
