//! The tests of `job.rs`.

use super::*;

#[test]
fn indexes_are_shown_in_ranges() {
    let check = |indexes: &[i64], shown: &str| {
        assert_eq!(show_indexes(indexes), shown);
        assert_eq!(read_indexes(shown), indexes);
    };
    check(&[0, 1, 2], "0-2");
    check(&[0, 2, 3, 5, 6, 7], "0,2,3,5-7");
    check(&[], "");
}

fn job(spec: Value) -> Value {
    let mut job = json!({
        "metadata": {"name": "job", "namespace": "default", "uid": "j"},
        "spec": {"parallelism": 1, "completions": 1, "backoffLimit": 1,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}},
        "status": {},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        job["spec"][field] = value.clone();
    }
    job
}

/// Runs a job against pods that end as listed; returns the statuses on the way.
fn reconciler(mut job: Value, outcomes: &[&str]) -> (Value, i64) {
    let mut outcomes = outcomes.iter();
    let mut pods: Vec<Value> = Vec::new();
    let mut now = Timestamp::UNIX_EPOCH;
    let mut made = 0;
    for _ in 0..100 {
        let plan = reconcile(now, &job, &pods);
        let idle = plan.actions.is_empty();
        for action in plan.actions {
            match action {
                Action::Create { mut object, .. } => {
                    made += 1;
                    object["metadata"]["uid"] = json!(format!("p{made}"));
                    object["metadata"]["name"] = json!(format!("p{made}"));
                    object["status"] = json!({"phase": "Running"});
                    pods.push(object);
                }
                Action::UpdateStatus { object, .. } => job = object,
                Action::Update { object, .. } => {
                    let found = pods.iter_mut().find(|pod| uid(pod) == uid(&object)).unwrap();
                    *found = object;
                }
                Action::Delete { object, .. } => pods.retain(|pod| uid(pod) != uid(&object)),
                _ => {}
            }
        }
        if idle {
            match (pods.iter_mut().find(|pod| is_active(pod)), plan.wake) {
                (Some(pod), _) => {
                    let Some(outcome) = outcomes.next() else { break };
                    let end = json!({"state": {"terminated": {"finishedAt": timestamp(now)}}});
                    pod["status"] = json!({"phase": outcome, "containerStatuses": [end]});
                }
                (None, Some(wake)) => now = wake,
                (None, None) => break,
            }
        }
    }
    (job["status"].clone(), now.as_second())
}

fn check(spec: Value, outcomes: &[&str], expected: (&str, i64, i64), took: i64) {
    let (status, seconds) = reconciler(job(spec.clone()), outcomes);
    let last = status["conditions"].as_array().and_then(|list| list.last()).map(|last| text(last, "/reason"));
    let counts = (last.unwrap_or_default(), number(&status, "/succeeded"), number(&status, "/failed"));
    assert_eq!(counts, expected, "{spec} {status:#}");
    assert_eq!(seconds, took, "{spec} {status:#}");
    assert_eq!(status["uncountedTerminatedPods"], json!({}), "{status:#}");
}

#[test]
fn jobs_end() {
    check(json!({}), &["Succeeded"], ("CompletionsReached", 1, 0), 0);
    let three = json!({"completions": 3, "parallelism": 2});
    check(three, &["Succeeded"; 3], ("CompletionsReached", 3, 0), 0);
    let indexed = json!({"completions": 3, "parallelism": 2, "completionMode": "Indexed"});
    check(indexed, &["Succeeded", "Failed", "Succeeded", "Succeeded"], ("CompletionsReached", 3, 1), 10);
    check(json!({}), &["Failed", "Succeeded"], ("CompletionsReached", 1, 1), 10);
    check(json!({}), &["Failed", "Failed"], ("BackoffLimitExceeded", 0, 2), 10);
    check(json!({"suspend": true}), &[], ("JobSuspended", 0, 0), 0);
}
