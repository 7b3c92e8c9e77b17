//! A cluster in a data directory: after a restart it continues where it was, also after a hard end.

// Helpers of tests may panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use kopf_cluster::{Cluster, OpenError, Options};
use serde_json::{Value, json};

use crate::common::{CRDS, Probe, WIDGETS, widget, widget_crd};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The environment variable with the data directory, for the test that runs as a child process.
const CHILD_DIRECTORY: &str = "KOPF_TEST_DATA_DIRECTORY";

/// A temporary directory, removed when the value is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("data-{}-{number}", std::process::id()));
        Self(path)
    }

    fn options(&self) -> Options {
        Options { data_dir: Some(self.0.clone()), data_log_limit: 20_000, ..Options::default() }
    }

    fn open(&self) -> Probe {
        Probe::of(Cluster::open(self.options()).unwrap())
    }

    fn open_error(&self) -> OpenError {
        Cluster::open(self.options()).unwrap_err()
    }

    fn files(&self) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn file(&self, prefix: &str) -> PathBuf {
        self.0.join(self.files().iter().rfind(|name| name.starts_with(prefix)).unwrap())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn map(name: &str, value: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": name}}, "data": {"value": value}})
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn all_objects_are_there_after_a_restart() {
    let directory = Directory::new();
    let probe = directory.open();
    probe.create(CRDS, widget_crd()).await;
    probe.create(WIDGETS, widget("w", json!({"color": "red"}))).await;
    let early = probe.create(MAPS, map("a", "1")).await;
    probe.patch(&format!("{MAPS}/a"), json!({"data": {"value": "2"}})).await;
    probe.create(MAPS, map("b", "1")).await;
    probe.expect(200, "DELETE", &format!("{MAPS}/b"), Value::Null).await;
    let before = probe.get(MAPS).await;
    drop(probe);

    let probe = directory.open();
    assert_eq!(probe.get(MAPS).await, before);
    assert_eq!(probe.get(&format!("{WIDGETS}/w")).await["spec"], json!({"color": "red", "size": 3}));
    let selected = probe.get(&format!("{MAPS}?labelSelector=app%3Da")).await;
    assert_eq!(selected["items"][0]["metadata"]["name"], "a", "{selected:#}");
    assert_eq!(selected["items"].as_array().unwrap().len(), 1, "{selected:#}");
    // Old versions cannot be watched after the restart; current ones can.
    let mut old = probe.watch(&format!("{MAPS}?watch=1&resourceVersion={}", version(&early))).await;
    assert_eq!(old.next().await.unwrap()["object"]["code"], 410);
    let mut current = probe.watch(&format!("{MAPS}?watch=1&resourceVersion={}", version(&before))).await;
    let next = probe.create(MAPS, map("c", "1")).await;
    assert_eq!(version(&next), version(&before) + 1);
    assert_eq!(current.short().await, "ADDED c");
}

#[tokio::test]
async fn clients_need_no_new_kubeconfig() {
    let directory = Directory::new();
    let serve = async |directory: &Directory| {
        let cluster = Cluster::open(directory.options()).unwrap();
        let server = cluster.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
        let certificate =
            Probe::of(cluster.clone()).get("/api/v1/namespaces/default/configmaps/kube-root-ca.crt").await;
        let kubeconfig = server.kubeconfig();
        server.stop().await;
        cluster.close();
        (kubeconfig, certificate)
    };
    let (first, certificate) = serve(&directory).await;
    let (second, same_certificate) = serve(&directory).await;
    assert_eq!(first, second);
    assert_eq!(certificate, same_certificate);
    // A token in the options replaces the stored one.
    let given = Options { token: Some("given".into()), ..directory.options() };
    let cluster = Cluster::open(given).unwrap();
    assert_eq!(cluster.serve(([127, 0, 0, 1], 0).into()).await.unwrap().token(), "given");
    cluster.close();
    let (code, answer) = Probe::of(cluster).ask("POST", MAPS, map("late", "1")).await;
    assert_eq!((code, &answer["reason"]), (500, &json!("InternalError")), "{answer:#}");
    let cluster = Cluster::open(directory.options()).unwrap();
    assert_eq!(cluster.serve(([127, 0, 0, 1], 0).into()).await.unwrap().token(), "given");
}

#[tokio::test]
async fn snapshots_keep_the_files_small() {
    let directory = Directory::new();
    let size = || -> u64 {
        let names = directory.files();
        // The sync thread creates and removes files at the same time.
        names.iter().filter_map(|name| Some(fs::metadata(directory.0.join(name)).ok()?.len())).sum()
    };
    let probe = directory.open();
    probe.create(MAPS, map("a", "0")).await;
    let filler = "x".repeat(1000);
    for round in 0..500 {
        probe.patch(&format!("{MAPS}/a"), json!({"data": {"value": format!("{round}{filler}")}})).await;
    }
    drop(probe);
    assert!(size() < 150_000, "{} bytes in {:?}", size(), directory.files());
    assert!(!directory.files().contains(&"log-0".to_owned()), "{:?}", directory.files());
    let probe = directory.open();
    assert_eq!(probe.get(&format!("{MAPS}/a")).await["data"]["value"], format!("499{filler}"));
    drop(probe);
    assert_eq!(directory.files().len(), 4, "{:?}", directory.files());
}

#[tokio::test]
async fn only_one_process_can_open_a_directory() {
    let directory = Directory::new();
    let probe = directory.open();
    let open_error = directory.open_error().to_string();
    assert!(open_error.contains("is in use by another process"), "{open_error}");
    assert!(open_error.contains(&std::process::id().to_string()), "{open_error}");
    drop(probe);
    directory.open();
}

#[tokio::test]
#[cfg(unix)]
async fn other_users_cannot_read_the_files() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new();
    let probe = directory.open();
    for round in 0..100 {
        probe.create(MAPS, map(&format!("m{round}"), &"x".repeat(500))).await;
    }
    drop(probe);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory.0), 0o700);
    for name in directory.files() {
        assert_eq!(mode(&directory.0.join(&name)), 0o600, "{name}");
    }
}

#[tokio::test]
async fn a_truncated_record_is_dropped_and_damage_is_an_error() {
    let directory = Directory::new();
    let probe = directory.open();
    for name in ["a", "b", "c"] {
        probe.create(MAPS, map(name, "1")).await;
    }
    drop(probe);
    let log = directory.file("log-");
    let whole = fs::read(&log).unwrap();

    // A truncated last record counts as not written.
    fs::write(&log, &whole[..whole.len() - 5]).unwrap();
    let probe = directory.open();
    let names = probe.get(MAPS).await;
    assert_eq!(names["items"].as_array().unwrap().len(), 3, "a, b and the certificate: {names:#}");
    probe.create(MAPS, map("d", "1")).await;
    drop(probe);
    directory.open().get(&format!("{MAPS}/d")).await;

    // A flipped bit before other records is an error.
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 4;
    fs::write(&log, &damaged).unwrap();
    match directory.open_error() {
        OpenError::Unreadable { path, source } => {
            assert_eq!(path, log);
            assert!(source.to_string().contains("damaged at byte"), "{source}");
        }
        other => panic!("{other}"),
    }
    assert_eq!(fs::read(&log).unwrap(), damaged, "the file must stay unchanged");
    let mut other_format = whole.clone();
    other_format[8] = 2;
    fs::write(&log, &other_format).unwrap();
    assert!(directory.open_error().to_string().contains("it has the format 2"), "{}", directory.open_error());
    fs::write(&log, &whole).unwrap();
    directory.open().get(&format!("{MAPS}/c")).await;
}

#[tokio::test]
async fn a_missing_file_is_an_error() {
    let directory = Directory::new();
    let probe = directory.open();
    for round in 0..200 {
        probe.create(MAPS, map(&format!("m{round}"), &"x".repeat(200))).await;
    }
    drop(probe);
    let snapshot = directory.file("snapshot-");
    let content = fs::read(&snapshot).unwrap();
    fs::remove_file(&snapshot).unwrap();
    assert!(matches!(directory.open_error(), OpenError::Missing { .. }), "{}", directory.open_error());
    fs::write(&snapshot, &content[..content.len() - 1]).unwrap();
    assert!(
        directory.open_error().to_string().contains("the end of the snapshot is missing"),
        "{}",
        directory.open_error()
    );
    fs::write(&snapshot, &content).unwrap();
    fs::rename(directory.file("log-"), directory.0.join("elsewhere")).unwrap();
    assert!(matches!(directory.open_error(), OpenError::Missing { .. }), "{}", directory.open_error());
}

/// Deletes an object, truncates the log after the first record of the deletion, and opens the cluster again, as if
/// the process had ended right after that record.
async fn check_finished(deleted: &str, gone: &[&str]) {
    let directory = Directory::new();
    let options = Options { data_log_limit: u64::MAX, ..directory.options() };
    let probe = Probe::of(Cluster::open(options.clone()).unwrap());
    let owner = probe.create(MAPS, map("owner", "1")).await;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]});
    let mut owned = map("owned", "1");
    owned["metadata"]["ownerReferences"] = json!([reference]);
    probe.create(MAPS, owned).await;
    probe.create("/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await;
    let log = directory.file("log-");
    let before = fs::metadata(&log).unwrap().len() as usize;
    probe.expect(200, "DELETE", deleted, Value::Null).await;
    probe.cluster.close();
    let bytes = fs::read(&log).unwrap();
    let length = u32::from_le_bytes(bytes[before + 4..before + 8].try_into().unwrap());
    let first = before + 12 + length as usize;
    assert!(first < bytes.len(), "{deleted} had no further effects");
    fs::write(&log, &bytes[..first]).unwrap();
    let probe = Probe::of(Cluster::open(options).unwrap());
    for path in gone {
        assert_eq!(probe.ask("GET", path, Value::Null).await.0, 404, "{path}");
    }
}

#[tokio::test]
async fn an_interrupted_deletion_is_finished_after_a_restart() {
    check_finished("/api/v1/namespaces/n", &["/api/v1/namespaces/n"]).await;
    check_finished(&format!("{MAPS}/owner"), &[&format!("{MAPS}/owner"), &format!("{MAPS}/owned")]).await;
}

#[test]
fn answered_writes_survive_a_killed_process() {
    let directory = Directory::new();
    // The last response to the child process, by the name of the object; None if it was deleted.
    let mut responses: BTreeMap<String, Option<String>> = BTreeMap::new();
    for round in 0..4 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["persistence::writes_until_it_is_killed", "--exact", "--ignored", "--nocapture"])
            .env(CHILD_DIRECTORY, &directory.0)
            .env("KOPF_TEST_ROUND", round.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut read = |count: usize| -> usize {
            let answered = lines.by_ref().map_while(Result::ok).filter_map(|line| {
                let (name, value) = line.strip_prefix("answered ")?.split_once(' ')?;
                responses.insert(name.to_owned(), (value != "deleted").then(|| value.to_owned()));
                Some(())
            });
            answered.take(count).count()
        };
        // Long enough for some snapshots, and each time at another position.
        assert_eq!(read(600 + 137 * round), 600 + 137 * round);
        child.kill().unwrap();
        child.wait().unwrap();
        read(usize::MAX);

        let cluster = Cluster::open(directory.options()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let found = runtime.block_on(Probe::of(cluster).get(MAPS));
        let found: BTreeMap<&str, &str> = found["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| (item["metadata"]["name"].as_str().unwrap(), item["data"]["value"].as_str().unwrap_or("")))
            .collect();
        for (name, value) in &responses {
            match (value, found.get(name.as_str())) {
                (Some(value), Some(found)) => {
                    // One more write may have been made without a response.
                    let (value, found): (u64, u64) = (value.parse().unwrap(), found.parse().unwrap());
                    assert!(found == value || found == value + 1, "{name}: {value} was answered, {found} is there");
                }
                (None, None) => {}
                (None, Some(found)) => panic!("{name}: its end was answered, {found} is there"),
                // The last write of its task may have been the deletion.
                (Some(value), None) => assert_eq!(value, "2", "{name} is not there"),
            }
        }
        // The next round checks only objects that are there.
        responses.retain(|name, _| found.contains_key(name.as_str()));
    }
}

/// Runs in the process that is killed: several tasks create objects, change them twice, and delete every other one.
#[test]
#[ignore = "another test runs it in a child process"]
fn writes_until_it_is_killed() {
    let Ok(path) = std::env::var(CHILD_DIRECTORY) else { return };
    let round = std::env::var("KOPF_TEST_ROUND").unwrap();
    let options = Options { data_dir: Some(path.into()), data_log_limit: 20_000, ..Options::default() };
    let probe = Probe::of(Cluster::open(options).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let answered = |name: &str, value: &str| println!("answered {name} {value}");
        let probe = &probe;
        let task = |task: usize| {
            let round = round.clone();
            async move {
                for count in 0_usize.. {
                    let name = format!("r{round}-t{task}-{count}");
                    let path = format!("{MAPS}/{name}");
                    probe.create(MAPS, map(&name, "0")).await;
                    answered(&name, "0");
                    for value in ["1", "2"] {
                        probe.patch(&path, json!({"data": {"value": value}})).await;
                        answered(&name, value);
                    }
                    if count % 2 == 0 {
                        probe.expect(200, "DELETE", &path, Value::Null).await;
                        answered(&name, "deleted");
                    }
                    tokio::task::yield_now().await;
                }
            }
        };
        tokio::join!(task(0), task(1), task(2), task(3));
    });
}
