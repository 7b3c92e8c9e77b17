//! The tests of `catalog.rs`.

use super::*;

#[test]
fn built_in_resources_are_known() {
    let catalog = Catalog::built_in();
    let deployments = catalog.get("apps", "v1", "deployments").unwrap();
    assert_eq!(deployments.qualified(), "deployments.apps");
    assert_eq!(deployments.api_version(), "apps/v1");
    assert!(deployments.has_status() && deployments.namespaced);
    assert_eq!(deployments.subresource("scale").map(|scale| scale.group.as_str()), Some("autoscaling"));
    assert!(deployments.schema().is_some());
    let core = catalog.get("", "v1", "events").unwrap();
    assert_eq!(core.storage, catalog.get("events.k8s.io", "v1", "events").unwrap().storage);
    assert!(catalog.get("", "v1", "nope").is_none());
    assert!(catalog.has_group("apps") && !catalog.has_group("nope"));
}

#[test]
fn versions_are_ordered() {
    let mut versions = vec!["v1alpha1", "foo", "v2", "v1beta2", "v10", "v1", "v1beta1"];
    versions.sort_by_key(|version| std::cmp::Reverse(version_priority(version)));
    assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]);
}
