//! Which resources a handler is for: by a type, a name, or a function.

use std::sync::Arc;

pub use kopf_reaction::{Resource, Selector};

use crate::filter::ResourceCallback;

/// The resource of a type, such as `of::<Deployment>()` or of a custom resource.
///
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use kopf::{of, on};
///
/// let registration = on::create(of::<Deployment>());
/// # drop(registration);
/// ```
pub fn of<K: kube::Resource<DynamicType = ()>>() -> Selector {
    Selector {
        group: Some(K::group(&()).into_owned()),
        version: Some(K::version(&()).into_owned()),
        plural: Some(K::plural(&()).into_owned()),
        ..Selector::default()
    }
}

/// The resource of this name, written as in [`IntoSelector`].
pub fn named(text: &str) -> Selector {
    parse(text)
}

/// Every resource in the cluster, except events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Everything;

/// What can select resources: [`of::<T>()`](of), a name, a [`Selector`], [`Everything`], or a closure that takes a
/// `&Resource`.
///
/// A name is written as `group/version/name`, `group/name`, `v1/name` for the core group, `name.version.group`,
/// or just `name`, where `name` is the plural, the singular, the kind, or a short name.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not select resources",
    note = "use `of::<T>()`, a name such as \"kopf.dev/v1/kopfexamples\", `Everything`, or a closure that takes a `&Resource`"
)]
pub trait IntoSelector {
    #[doc(hidden)]
    fn into_parts(self) -> (Selector, Option<ResourceCallback>);
}

impl IntoSelector for Selector {
    fn into_parts(self) -> (Selector, Option<ResourceCallback>) {
        (self, None)
    }
}

impl IntoSelector for Everything {
    fn into_parts(self) -> (Selector, Option<ResourceCallback>) {
        (Selector { everything: true, ..Selector::default() }, None)
    }
}

impl IntoSelector for &str {
    fn into_parts(self) -> (Selector, Option<ResourceCallback>) {
        (parse(self), None)
    }
}

impl IntoSelector for String {
    fn into_parts(self) -> (Selector, Option<ResourceCallback>) {
        (parse(&self), None)
    }
}

impl<F: Fn(&Resource) -> bool + Send + Sync + 'static> IntoSelector for F {
    fn into_parts(self) -> (Selector, Option<ResourceCallback>) {
        (Selector { callback: true, ..Selector::default() }, Some(Arc::new(self)))
    }
}

fn parse(text: &str) -> Selector {
    let named = |group: Option<&str>, version: Option<&str>, name: &str| Selector {
        group: group.map(str::to_owned),
        version: version.map(str::to_owned),
        any_name: Some(name.to_owned()),
        ..Selector::default()
    };
    if let Some((place, name)) = text.rsplit_once('/') {
        return match place.rsplit_once('/') {
            Some((group, version)) => named(Some(group), Some(version), name),
            None if is_version(place) => named(Some(""), Some(place), name),
            None => named(Some(place), None, name),
        };
    }
    let Some((name, rest)) = text.split_once('.') else { return named(None, None, text) };
    match rest.split_once('.') {
        Some((version, group)) if is_version(version) => named(Some(group), Some(version), name),
        None if is_version(rest) => named(None, Some(rest), name),
        _ => named(Some(rest), None, name),
    }
}

/// Such as `v1`, `v2beta1`, `v1alpha3`.
fn is_version(text: &str) -> bool {
    let digits_only = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let Some(rest) = text.strip_prefix('v') else { return false };
    match rest.split_once("alpha").or_else(|| rest.split_once("beta")) {
        Some((major, minor)) => digits_only(major) && digits_only(minor),
        None => digits_only(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed() {
        let check = |text: &str, expected: (Option<&str>, Option<&str>, &str)| {
            let (selector, _) = text.into_parts();
            let parts = (selector.group.as_deref(), selector.version.as_deref(), selector.any_name.as_deref());
            assert_eq!(parts, (expected.0, expected.1, Some(expected.2)), "{text}");
        };
        check("kopfexamples", (None, None, "kopfexamples"));
        check("kopf.dev/v1/kopfexamples", (Some("kopf.dev"), Some("v1"), "kopfexamples"));
        check("kopf.dev/kopfexamples", (Some("kopf.dev"), None, "kopfexamples"));
        check("v1/pods", (Some(""), Some("v1"), "pods"));
        check("kopfexamples.v1beta1.kopf.dev", (Some("kopf.dev"), Some("v1beta1"), "kopfexamples"));
        check("kopfexamples.kopf.dev", (Some("kopf.dev"), None, "kopfexamples"));
        check("pods.v1", (None, Some("v1"), "pods"));
    }

    #[test]
    fn types_select_by_group_version_and_plural() {
        let selector = of::<k8s_openapi::api::apps::v1::Deployment>();
        assert_eq!(selector.to_string(), "Selector(group='apps', version='v1', plural='deployments')");
    }
}
