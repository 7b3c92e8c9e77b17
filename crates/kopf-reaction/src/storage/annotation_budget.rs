//! The budget of the annotation with the last handled essence: what Kubernetes' limit leaves for it.

use kopf_object::MergePatch;
use serde_json::Value;

use super::fields::annotations_of;

/// The limit of Kubernetes for all annotations of an object together, in bytes.
const ANNOTATIONS_AT_MOST: usize = 256 * 1024;

/// Reserved for the progress of handlers during the next change.
const LEFT_FOR_PROGRESS: usize = 16 * 1024;

/// How many bytes the value of each of these annotations may have, given the patched annotations of the object.
pub fn remaining_annotation_budget(keys: &[String], body: &Value, patch: &MergePatch) -> usize {
    let patched = annotations_of(patch.as_value());
    let is_other = |key: &String| !keys.contains(key);
    let is_kept = |key: &String| patched.is_none_or(|patched| !patched.contains_key(key));
    let length = |(key, value): (&String, &Value)| key.len() + value.as_str().map_or(0, str::len);
    let kept = annotations_of(body).into_iter().flatten().filter(|(key, _)| is_other(key) && is_kept(key));
    let added = patched.into_iter().flatten().filter(|(key, value)| is_other(key) && !value.is_null());
    let taken: usize = kept.chain(added).map(length).sum();
    let own: usize = keys.iter().map(String::len).sum();
    ANNOTATIONS_AT_MOST.saturating_sub(LEFT_FOR_PROGRESS + taken + own) / keys.len().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn other_annotations_reduce_the_budget() {
        let key = "kopf.zalando.org/last-handled-configuration".to_owned();
        let whole = ANNOTATIONS_AT_MOST - LEFT_FOR_PROGRESS - key.len();
        let check = |annotations: Value, added: &[(&str, Option<&str>)], taken: usize| {
            let body = json!({"metadata": {"annotations": annotations}});
            let mut patch = MergePatch::new();
            added.iter().for_each(|(key, value)| patch.set_annotation(key, *value));
            assert_eq!(
                remaining_annotation_budget(std::slice::from_ref(&key), &body, &patch),
                whole.saturating_sub(taken),
                "{body}"
            );
        };
        check(json!({}), &[], 0);
        check(json!({"kopf.zalando.org/last-handled-configuration": "x".repeat(1000)}), &[], 0);
        check(json!({"a": "bc"}), &[], 3);
        check(json!({"a": "bc"}), &[("d", Some("ef"))], 6);
        check(json!({"a": "bc"}), &[("a", Some("b"))], 2);
        check(json!({"a": "bc"}), &[("a", None)], 0);
        check(json!({"a": "b".repeat(300_000)}), &[], 300_001);
        let keys = [key.clone(), key.clone()];
        assert_eq!(remaining_annotation_budget(&keys, &json!({}), &MergePatch::new()), (whole - key.len()) / 2);
    }
}
