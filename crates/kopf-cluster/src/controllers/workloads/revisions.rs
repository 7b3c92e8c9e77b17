//! The templates that a stateful set or a daemon set has had, kept as controller revisions.

use serde_json::{Value, json};

use super::objects::{controller_reference, name, namespace, number, template_hash};
use super::plan::{Action, Api, CONTROLLER_REVISIONS, CONTROLLERS, STATEFUL_SETS};

/// The revisions of an owner after its current template was recorded.
pub(super) struct Revisions {
    /// All of them, the oldest first.
    pub all: Vec<Value>,
    /// The one of the current template.
    pub update: Value,
    /// The object to write for it.
    pub actions: Vec<Action>,
}

/// Records the current template of an owner, if that was not done yet.
pub(super) fn record(api: Api, owner: &Value, mut known: Vec<Value>) -> Revisions {
    known.sort_by_key(|revision| (number(revision, "/revision"), name(revision).to_owned()));
    let data = data_of(owner);
    let newest = known.last().map(|last| number(last, "/revision")).unwrap_or_default();
    let mut actions = Vec::new();
    let update = match known.iter().rposition(|revision| revision["data"] == data) {
        Some(index) if index + 1 == known.len() => known[index].clone(),
        Some(index) => {
            // Going back to an old template makes it the newest.
            let mut revision = known.remove(index);
            revision["revision"] = json!(newest + 1);
            known.push(revision.clone());
            actions.push(Action::Update { api: CONTROLLER_REVISIONS, object: revision.clone(), manager: CONTROLLERS });
            revision
        }
        None => {
            let revision = new_revision(api, owner, data, newest + 1);
            known.push(revision.clone());
            actions.push(Action::Create { api: CONTROLLER_REVISIONS, object: revision.clone(), manager: CONTROLLERS });
            revision
        }
    };
    Revisions { all: known, update, actions }
}

impl Revisions {
    /// Deletes unused revisions beyond the history limit.
    pub(super) fn forget(&mut self, owner: &Value, is_used: impl Fn(&Value) -> bool) {
        let limit = usize::try_from(owner["spec"]["revisionHistoryLimit"].as_i64().unwrap_or(10)).unwrap_or_default();
        let unused: Vec<&Value> = self.all.iter().filter(|revision| !is_used(revision)).collect();
        let over = unused.len().saturating_sub(limit);
        for revision in unused.into_iter().take(over) {
            let object = revision.clone();
            self.actions.push(Action::Delete { api: CONTROLLER_REVISIONS, object, grace_period_seconds: None });
        }
    }
}

/// The template of a revision.
pub(super) fn template_of(revision: &Value) -> Value {
    let mut template = revision["data"]["spec"]["template"].clone();
    super::objects::remove_field(&mut template, "$patch");
    template
}

/// The hash in the name of a revision.
pub(super) fn hash_of(revision: &Value) -> &str {
    name(revision).rsplit('-').next().unwrap_or_default()
}

fn data_of(owner: &Value) -> Value {
    let mut template = owner["spec"]["template"].clone();
    template["$patch"] = json!("replace");
    json!({"spec": {"template": template}})
}

fn new_revision(api: Api, owner: &Value, data: Value, number: i64) -> Value {
    let hash = template_hash(&data, owner["status"]["collisionCount"].as_i64().filter(|count| *count > 0));
    let mut labels = owner["spec"]["template"]["metadata"]["labels"].clone();
    if !labels.is_object() {
        labels = json!({});
    }
    let key = if api == STATEFUL_SETS { "controller.kubernetes.io/hash" } else { "controller-revision-hash" };
    labels[key] = json!(hash);
    let mut metadata = json!({
        "name": format!("{}-{hash}", name(owner)), "namespace": namespace(owner), "labels": labels,
        "ownerReferences": [controller_reference(api, owner)],
    });
    if let Some(annotations) = owner["metadata"].get("annotations") {
        metadata["annotations"] = annotations.clone();
    }
    json!({"metadata": metadata, "data": data, "revision": number})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_recorded_once_and_move_to_the_end() {
        let owner = |image: &str| {
            json!({"metadata": {"name": "db", "namespace": "default", "uid": "u"},
                "spec": {"template": {"metadata": {"labels": {"app": "db"}}, "spec": {"image": image}}}})
        };
        let first = record(STATEFUL_SETS, &owner("one"), Vec::new());
        assert_eq!((first.all.len(), first.actions.len(), first.update["revision"].as_i64()), (1, 1, Some(1)));
        assert_eq!(template_of(&first.update), owner("one")["spec"]["template"]);
        let again = record(STATEFUL_SETS, &owner("one"), first.all);
        assert_eq!((again.all.len(), again.actions.len()), (1, 0));
        let second = record(STATEFUL_SETS, &owner("two"), again.all);
        assert_eq!((second.all.len(), second.update["revision"].as_i64()), (2, Some(2)));
        let back = record(STATEFUL_SETS, &owner("one"), second.all);
        assert_eq!((back.all.len(), back.update["revision"].as_i64()), (2, Some(3)));
        assert!(matches!(back.actions[..], [Action::Update { .. }]));
    }
}
