//! Discovery: what is served at the start, and what follows the cluster later.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kopf_engine::{
    Discovery, Insight, NamespacePattern, NoSelectorCallbacks, SchemaBook, SelectorCallbacks, Settings, Wanted,
};
use kopf_reaction::{Resource, ServedSelector};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::fake::{Answer, Fake, Seen, Step, status};

struct Running {
    fake: Fake,
    insights: watch::Receiver<Arc<Insight>>,
    schemas: SchemaBook,
    start: Instant,
}

fn run_with(
    settings: &Settings,
    wanted: Wanted,
    selector_callbacks: Arc<dyn SelectorCallbacks>,
    fake: Fake,
) -> Running {
    let api = fake.api_with(&settings.networking);
    let (discovery, insights) =
        Discovery::new(api, settings, fake.clock.clone(), fake.log.clone(), wanted, selector_callbacks);
    let schemas = discovery.schemas();
    tokio::spawn(discovery.run());
    Running { fake, insights, schemas, start: Instant::now() }
}

fn run(wanted: Wanted, respond: impl FnMut(&Seen) -> Answer + Send + 'static) -> Running {
    run_with(&Settings::default(), wanted, Arc::new(NoSelectorCallbacks), Fake::new(respond))
}

impl Running {
    /// Waits until the insight has these resources and namespaces.
    async fn expect(&mut self, resources: &[&str], namespaces: &[&str]) {
        let fits = |insight: &Arc<Insight>| insight.ready && texts(insight) == to_texts(resources, namespaces);
        let found = tokio::time::timeout(Duration::from_secs(1000), self.insights.wait_for(fits)).await.is_ok();
        if !found {
            panic!("expected {resources:?} {namespaces:?}, got {:?}", texts(&self.insights.borrow()));
        }
    }
}

fn texts(insight: &Insight) -> (Vec<String>, Vec<String>) {
    let resources = insight.resources.iter().map(ToString::to_string).collect();
    let namespaces = insight.namespaces.iter().map(|name| name.as_deref().unwrap_or("*").to_owned()).collect();
    (resources, namespaces)
}

fn to_texts(resources: &[&str], namespaces: &[&str]) -> (Vec<String>, Vec<String>) {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    (owned(resources), owned(namespaces))
}

fn wanted(selectors: &[Value], namespaces: &[&str]) -> Wanted {
    let selectors = selectors
        .iter()
        .map(|selector| ServedSelector { selector: serde_json::from_value(selector.clone()).unwrap(), patching: true });
    Wanted {
        passive: Vec::new(),
        selectors: selectors.collect(),
        namespaces: namespaces.iter().map(|name| NamespacePattern::Globs((*name).to_owned())).collect(),
        groups: Vec::new(),
        clusterwide: namespaces.is_empty(),
    }
}

const VERBS: [&str; 3] = ["list", "watch", "patch"];
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NAMESPACES: &str = "/api/v1/namespaces";

/// All of the API at once: the core with pods, and the groups with things.
fn aggregated(seen: &Seen, groups: &[&str]) -> Option<Answer> {
    let resource = |plural: &str, kind: &str| {
        json!({
            "resource": plural, "responseKind": {"kind": kind}, "scope": "Namespaced", "verbs": VERBS,
            "subresources": [{"subresource": "status"}],
        })
    };
    let item = |group: &str, resource: Value| json!({"metadata": {"name": group}, "versions": [{"version": "v1", "resources": [resource]}]});
    let items: Vec<Value> = match seen.path.as_str() {
        "/api" => vec![item("", resource("pods", "Pod"))],
        "/apis" => groups.iter().map(|group| item(group, resource("things", "Thing"))).collect(),
        _ => return None,
    };
    assert!(seen.headers["accept"].to_str().unwrap().contains("as=APIGroupDiscoveryList"));
    Some(Answer::Json(200, json!({"kind": "APIGroupDiscoveryList", "items": items})))
}

/// One group, for the requests after a change of its CRDs.
fn plain_group(seen: &Seen, group: &str, served: bool) -> Option<Answer> {
    let answer = if seen.path == format!("/apis/{group}") {
        json!({"name": group, "versions": [{"version": "v1"}], "preferredVersion": {"version": "v1"}})
    } else if seen.path == format!("/apis/{group}/v1") {
        json!({"resources": [
            {"name": "things", "kind": "Thing", "namespaced": true, "verbs": VERBS},
            {"name": "things/status", "kind": "Thing", "namespaced": true, "verbs": ["patch"]},
        ]})
    } else {
        return None;
    };
    Some(if served { Answer::Json(200, answer) } else { status(404) })
}

fn list(items: &[Value]) -> Answer {
    Answer::Json(200, json!({"metadata": {"resourceVersion": "1"}, "items": items}))
}

fn event(kind: &str, object: &Value) -> Step {
    Step::Line(json!({"type": kind, "object": object}))
}

fn definition(group: &str, established: &str) -> Value {
    json!({
        "metadata": {"name": format!("things.{group}"), "resourceVersion": "2"},
        "spec": {
            "group": group, "names": {"plural": "things"},
            "versions": [{"name": "v1", "served": true, "schema": {"openAPIV3Schema": {"properties": {
                "status": {"type": "object", "properties": {"nodes": {"type": "array"}}},
            }}}}],
        },
        "status": {"conditions": [{"type": "Established", "status": established}]},
    })
}

fn namespace(name: &str) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": "2"}})
}

/// What exists for good: everything is listed as empty, and nothing ever happens.
fn quiet(seen: &Seen) -> Answer {
    if seen.is_watch() { Answer::Stream(Vec::new()) } else { list(&[]) }
}

#[tokio::test(start_paused = true)]
async fn the_whole_cluster_takes_two_requests() {
    let mut running =
        run(wanted(&[json!({"any_name": "pods"}), json!({"group": "g.io", "kind": "Thing"})], &[]), |seen| {
            aggregated(seen, &["g.io", "h.io"]).unwrap_or_else(|| quiet(seen))
        });
    running.expect(&["pods.v1", "things.v1.g.io"], &["*"]).await;
    let insight = Arc::clone(&running.insights.borrow());
    assert_eq!(insight.selectors_of(&insight.resources[1]), [1]);
    assert!(insight.resources[1].has_status_subresource());
    assert_eq!(insight.known.len(), 3);
    let urls = running.fake.urls();
    assert_eq!(urls.iter().filter(|url| ["/api", "/apis"].contains(&url.as_str())).count(), 2, "{urls:?}");
    assert!(urls.iter().all(|url| !url.starts_with(NAMESPACES)), "{urls:?}");
    assert!(running.fake.warnings().is_empty(), "{:?}", running.fake.warnings());
}

#[tokio::test(start_paused = true)]
async fn a_broken_part_of_the_api_is_skipped_until_it_works() {
    let start = Instant::now();
    let mut running = run(wanted(&[json!({"any_name": "things"})], &[]), move |seen| match seen.path.as_str() {
        "/api" => Answer::Json(200, json!({"kind": "APIVersions", "versions": []})),
        "/apis" => Answer::Json(
            200,
            json!({"kind": "APIGroupList", "groups": [
                {"name": "bad.io", "versions": [{"version": "v1"}]},
                {"name": "g.io", "versions": [{"version": "v1"}]},
            ]}),
        ),
        "/apis/bad.io" => Answer::Json(200, json!({"name": "bad.io", "versions": [{"version": "v1"}]})),
        "/apis/bad.io/v1" if start.elapsed() < Duration::from_secs(100) => status(503),
        "/apis/bad.io/v1" => Answer::Json(200, json!({"resources": []})),
        _ => plain_group(seen, "g.io", true).unwrap_or_else(|| quiet(seen)),
    });
    running.expect(&["things.v1.g.io"], &["*"]).await;
    let warnings = running.fake.warnings();
    let skipped = |text: &&String| text.starts_with("The API bad.io/v1 does not work and is skipped until it does: ");
    assert_eq!(warnings.iter().filter(skipped).count(), 1, "{warnings:?}");
    let scans = |running: &Running| running.fake.urls().iter().filter(|url| *url == "/apis/bad.io").count();
    tokio::time::sleep(Duration::from_secs(1000)).await;
    assert_eq!(scans(&running), 2);
    assert_eq!(running.fake.warnings().iter().filter(skipped).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn definitions_come_and_go_while_running() {
    let start = Instant::now();
    let mut running = run(wanted(&[json!({"group": "g.io", "any_name": "things"})], &[]), move |seen| {
        // The API follows the CRD a second late, in both directions.
        let now = start.elapsed().as_secs_f64();
        let served = (101.0..201.0).contains(&now);
        if seen.path == DEFINITIONS && seen.is_watch() {
            return Answer::Stream(vec![
                Step::Wait(Duration::from_secs(50)),
                event("ADDED", &definition("unrelated.io", "True")),
                Step::Wait(Duration::from_secs(50)),
                event("ADDED", &definition("g.io", "False")),
                event("MODIFIED", &definition("g.io", "True")),
                Step::Wait(Duration::from_secs(50)),
                Step::Line(json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "3"}}})),
                Step::Wait(Duration::from_secs(50)),
                event("DELETED", &definition("g.io", "True")),
            ]);
        }
        let aggregated = aggregated(seen, &[]);
        aggregated.or_else(|| plain_group(seen, "g.io", served)).unwrap_or_else(|| quiet(seen))
    });
    running.expect(&[], &["*"]).await;
    let unresolved =
        "Unresolved resources cannot be served (try creating their CRDs): Selector(group='g.io', any_name='things')";
    assert_eq!(running.fake.warnings(), [unresolved]);
    assert!(running.fake.urls().iter().all(|url| url != "/api"), "only the named groups are scanned");

    running.expect(&["things.v1.g.io"], &["*"]).await;
    let served_after = running.start.elapsed().as_secs_f64();
    assert!((101.0..104.0).contains(&served_after), "{served_after}");
    let resource = Arc::clone(&running.insights.borrow().resources[0]);
    assert!(resource.has_status_subresource());
    let schema = running.schemas.status_schema(&resource).expect("a schema");
    assert!(schema["properties"]["nodes"].is_object(), "{schema}");

    running.expect(&[], &["*"]).await;
    let gone_after = running.start.elapsed().as_secs_f64();
    assert!((201.0..204.0).contains(&gone_after), "{gone_after}");
    assert!(running.schemas.status_schema(&resource).is_none());
    assert!(running.fake.urls().iter().all(|url| !url.contains("unrelated.io")));
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_is_being_deleted_is_served_to_its_end() {
    let dying = || {
        let mut definition = definition("g.io", "True");
        definition["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
        definition
    };
    let mut running = run(wanted(&[json!({"group": "g.io", "any_name": "things"})], &[]), move |seen| {
        match (seen.path.as_str(), seen.is_watch()) {
            (DEFINITIONS, false) => list(&[definition("g.io", "True")]),
            (DEFINITIONS, true) => {
                Answer::Stream(vec![Step::Wait(Duration::from_secs(10)), event("MODIFIED", &dying())])
            }
            // The API names no verbs for changes from then on.
            ("/apis/g.io/v1", _) => Answer::Json(
                200,
                json!({"resources": [{"name": "things", "kind": "Thing", "namespaced": true, "verbs": ["list", "watch"]}]}),
            ),
            _ => {
                let aggregated = aggregated(seen, &["g.io"]);
                aggregated.or_else(|| plain_group(seen, "g.io", true)).unwrap_or_else(|| quiet(seen))
            }
        }
    });
    running.expect(&["things.v1.g.io"], &["*"]).await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(running.fake.urls().contains(&"/apis/g.io/v1".to_owned()), "it was scanned again");
    running.expect(&["things.v1.g.io"], &["*"]).await;
    assert!(running.fake.warnings().is_empty(), "{:?}", running.fake.warnings());
}

#[tokio::test(start_paused = true)]
async fn the_first_insight_knows_the_schemas() {
    let mut running = run(wanted(&[json!({"group": "g.io", "any_name": "things"})], &[]), move |seen| {
        if seen.path == DEFINITIONS && !seen.is_watch() {
            return list(&[definition("g.io", "True")]);
        }
        aggregated(seen, &["g.io"]).unwrap_or_else(|| quiet(seen))
    });
    running.expect(&["things.v1.g.io"], &["*"]).await;
    let resource = Arc::clone(&running.insights.borrow().resources[0]);
    assert!(running.schemas.status_schema(&resource).is_some());
    let urls = running.fake.urls();
    assert!(!urls.contains(&"/apis/g.io".to_owned()), "what was scanned already is not scanned again: {urls:?}");
}

#[tokio::test(start_paused = true)]
async fn without_permissions_there_is_one_warning_each_and_it_goes_on() {
    let selectors = [json!({"group": "g.io", "any_name": "things"})];
    let mut running = run(wanted(&selectors, &["one", "t*", "two"]), |seen| match seen.path.as_str() {
        DEFINITIONS | NAMESPACES => status(403),
        _ => aggregated(seen, &["g.io"]).unwrap_or_else(|| quiet(seen)),
    });
    running.expect(&["things.v1.g.io"], &["one", "two"]).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let mut warnings = running.fake.warnings();
    warnings.sort();
    assert_eq!(
        warnings,
        [
            "Not enough permissions to list namespaces. \
             Falling back to a list of namespaces which are assumed to exist: {'one', 'two'}",
            "Not enough permissions to watch for resources: changes (creation/deletion/updates) will not be noticed; \
             the resources are only refreshed on operator restarts.",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn namespaces_that_cannot_be_watched_are_kept_as_listed() {
    let selectors = [json!({"group": "g.io", "any_name": "things"})];
    let mut running = run(wanted(&selectors, &["*"]), |seen| match (seen.path.as_str(), seen.is_watch()) {
        (NAMESPACES, true) => status(403),
        (NAMESPACES, false) => list(&[namespace("a"), namespace("b")]),
        _ => aggregated(seen, &["g.io"]).unwrap_or_else(|| quiet(seen)),
    });
    running.expect(&["things.v1.g.io"], &["a", "b"]).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    running.expect(&["things.v1.g.io"], &["a", "b"]).await;
    let expected = "Not enough permissions to watch for namespaces: changes (deletion/creation) will not be noticed; \
                    the namespaces are only refreshed on operator restarts.";
    assert_eq!(running.fake.warnings(), [expected]);
}

#[tokio::test(start_paused = true)]
async fn namespaces_come_and_go_while_running() {
    let selectors = [json!({"group": "g.io", "any_name": "things"})];
    let mut running =
        run(wanted(&selectors, &["app-*, !app-x", "other"]), |seen| match (seen.path.as_str(), seen.is_watch()) {
            (NAMESPACES, true) => Answer::Stream(vec![
                Step::Wait(Duration::from_secs(10)),
                event("ADDED", &namespace("app-x")),
                event("ADDED", &namespace("app-b")),
                Step::Wait(Duration::from_secs(10)),
                event("DELETED", &namespace("app-a")),
            ]),
            (NAMESPACES, false) => list(&[namespace("app-a"), namespace("default")]),
            _ => aggregated(seen, &["g.io"]).unwrap_or_else(|| quiet(seen)),
        });
    running.expect(&["things.v1.g.io"], &["app-a"]).await;
    running.expect(&["things.v1.g.io"], &["app-a", "app-b"]).await;
    running.expect(&["things.v1.g.io"], &["app-b"]).await;
}

#[tokio::test(start_paused = true)]
async fn without_scanning_nothing_is_observed() {
    let mut settings = Settings::default();
    settings.scanning.disabled = true;
    let fake = Fake::new(|seen| aggregated(seen, &["g.io"]).unwrap_or_else(|| status(500)));
    let wanted = wanted(&[json!({"group": "g.io", "any_name": "things"})], &["one", "t*"]);
    let mut running = run_with(&settings, wanted, Arc::new(NoSelectorCallbacks), fake);
    running.expect(&["things.v1.g.io"], &["one"]).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(running.fake.urls(), ["/apis"]);
}

#[tokio::test(start_paused = true)]
async fn ambiguous_names_are_refused() {
    let mut running = run(wanted(&[json!({"any_name": "things"}), json!({"any_name": "pods"})], &[]), |seen| {
        aggregated(seen, &["g.io", "h.io"]).unwrap_or_else(|| quiet(seen))
    });
    running.expect(&["pods.v1"], &["*"]).await;
    assert_eq!(
        running.fake.warnings()[0],
        "Ambiguous resources will not be served (try specifying API groups): \
         Selector(any_name='things') => {things.v1.g.io, things.v1.h.io}"
    );
}

/// Wants what is in the group `h.io`, and namespaces that begin with `n`.
struct Picky;

impl SelectorCallbacks for Picky {
    fn resource(&self, selector: usize, resource: Arc<Resource>) -> BoxFuture<'_, bool> {
        Box::pin(async move { selector == 0 && resource.group == "h.io" })
    }

    fn setting(&self, _: usize, _: Arc<Resource>) -> BoxFuture<'_, bool> {
        Box::pin(async { false })
    }

    fn namespace(&self, pattern: usize, name: String) -> BoxFuture<'_, bool> {
        Box::pin(async move { pattern == 0 && name.starts_with('n') })
    }
}

#[tokio::test(start_paused = true)]
async fn the_functions_of_the_user_are_asked() {
    let fake = Fake::new(|seen| match (seen.path.as_str(), seen.is_watch()) {
        (NAMESPACES, false) => list(&[namespace("name"), namespace("other")]),
        _ => aggregated(seen, &["g.io", "h.io"]).unwrap_or_else(|| quiet(seen)),
    });
    let wanted =
        Wanted { namespaces: vec![NamespacePattern::Callback], ..wanted(&[json!({"callback": true})], &["x"]) };
    let mut running = run_with(&Settings::default(), wanted, Arc::new(Picky), fake);
    running.expect(&["things.v1.h.io"], &["name"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_api_that_does_not_answer_is_awaited() {
    let start = Instant::now();
    let mut running = run(wanted(&[json!({"any_name": "pods"})], &[]), move |seen| {
        if start.elapsed() < Duration::from_secs(300) {
            return Answer::Broken;
        }
        aggregated(seen, &[]).unwrap_or_else(|| quiet(seen))
    });
    running.expect(&["pods.v1"], &["*"]).await;
}
