//! One resource of the API, as discovery finds it: its names, scope, verbs and paths.
//!
//! Selectors choose among resources; the engine takes the path of every request from here. Two resources are equal if
//! all their facts are; a [`ResourceId`] identifies a resource whatever its facts are.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One resource of one version of one API group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version, such as `v1` or `v1alpha1`.
    pub version: String,
    /// The name in the paths of the API, such as `pods`.
    pub plural: String,
    /// The kind of one object, such as `Pod`.
    pub kind: String,
    /// The singular name, such as `pod`.
    pub singular: String,
    /// Short names, such as `po`.
    pub shortcuts: Vec<String>,
    /// Categories, such as `all`.
    pub categories: Vec<String>,
    /// Names of the subresources, such as `status`.
    pub subresources: Vec<String>,
    /// Whether the objects live in namespaces.
    pub namespaced: bool,
    /// Whether this is the version that the group prefers.
    pub preferred: bool,
    /// The verbs that the API supports for it; they say nothing about permissions.
    pub verbs: Vec<String>,
}

/// Which resource it is. The same resource may change in its verbs, subresources and other facts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceId {
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The name in the paths of the API.
    pub plural: String,
}

impl Resource {
    /// Which resource it is.
    pub fn id(&self) -> ResourceId {
        ResourceId { group: self.group.clone(), version: self.version.clone(), plural: self.plural.clone() }
    }

    /// Whether both have the same [`Resource::id`].
    pub fn is_same(&self, other: &Self) -> bool {
        self.group == other.group && self.version == other.version && self.plural == other.plural
    }

    /// The `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The path of the list of objects, of one object, or of its subresource.
    ///
    /// Without a namespace it is the path over all namespaces. The namespace is ignored for
    /// cluster-scoped resources, the subresource without a name.
    pub fn path(&self, namespace: Option<&str>, name: Option<&str>, subresource: Option<&str>) -> String {
        let mut path = String::with_capacity(96);
        path.push_str(if self.group.is_empty() { "/api" } else { "/apis" });
        if !self.group.is_empty() {
            push_segment(&mut path, &self.group);
        }
        push_segment(&mut path, &self.version);
        if let Some(namespace) = namespace.filter(|_| self.namespaced) {
            path.push_str("/namespaces");
            push_segment(&mut path, namespace);
        }
        push_segment(&mut path, &self.plural);
        if let Some(name) = name {
            push_segment(&mut path, name);
            if let Some(subresource) = subresource {
                push_segment(&mut path, subresource);
            }
        }
        path
    }

    /// Whether the status of its objects is a subresource, with a separate path.
    pub fn has_status_subresource(&self) -> bool {
        self.subresources.iter().any(|name| name == "status")
    }

    /// Whether the API supports the verb for this resource at all.
    pub fn supports(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }
}

/// The text for logs: `plural.version.group`, without the group for the core.
impl fmt::Display for Resource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.plural, self.version)?;
        if self.group.is_empty() { Ok(()) } else { write!(formatter, ".{}", self.group) }
    }
}

/// Appends `/segment`, percent-encoded where needed.
fn push_segment(path: &mut String, segment: &str) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    path.push('/');
    for byte in segment.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' | b'@' => {
                path.push(char::from(byte));
            }
            _ => {
                path.push('%');
                path.push(char::from(HEX[usize::from(byte >> 4)]));
                path.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(group: &str, version: &str, plural: &str, namespaced: bool) -> Resource {
        Resource {
            group: group.into(),
            version: version.into(),
            plural: plural.into(),
            namespaced,
            ..Resource::default()
        }
    }

    #[test]
    fn paths_of_lists_objects_and_subresources() {
        let pods = resource("", "v1", "pods", true);
        let nodes = resource("", "v1", "nodes", false);
        let examples = resource("kopf.dev", "v1", "kopfexamples", true);
        type Case<'a> = (&'a Resource, Option<&'a str>, Option<&'a str>, Option<&'a str>, &'a str);
        let cases: &[Case<'_>] = &[
            (&pods, None, None, None, "/api/v1/pods"),
            (&pods, Some("ns"), None, None, "/api/v1/namespaces/ns/pods"),
            (&pods, Some("ns"), Some("a"), Some("status"), "/api/v1/namespaces/ns/pods/a/status"),
            (&nodes, Some("ns"), Some("a"), None, "/api/v1/nodes/a"),
            (&examples, None, None, Some("status"), "/apis/kopf.dev/v1/kopfexamples"),
            (&examples, Some("ns"), Some("a"), None, "/apis/kopf.dev/v1/namespaces/ns/kopfexamples/a"),
            (&nodes, None, Some("a b/c?d%é"), None, "/api/v1/nodes/a%20b%2Fc%3Fd%25%C3%A9"),
            (&nodes, None, Some("system:x"), None, "/api/v1/nodes/system:x"),
        ];
        for (resource, namespace, name, subresource, expected) in cases {
            assert_eq!(resource.path(*namespace, *name, *subresource), *expected);
        }
    }

    #[test]
    fn logs_name_a_resource_by_plural_version_and_group() {
        let pods = resource("", "v1", "pods", true);
        let examples = resource("kopf.dev", "v1beta1", "kopfexamples", true);
        assert_eq!((pods.to_string(), pods.api_version()), ("pods.v1".into(), "v1".into()));
        assert_eq!(examples.to_string(), "kopfexamples.v1beta1.kopf.dev");
        assert_eq!(examples.api_version(), "kopf.dev/v1beta1");
    }

    #[test]
    fn the_same_resource_may_have_other_facts() {
        let one = resource("g", "v1", "things", true);
        let same = Resource { kind: "Thing".into(), ..resource("g", "v1", "things", false) };
        assert_eq!(one.id(), same.id());
        assert_ne!(one, same);
        assert_ne!(one.id(), resource("g", "v2", "things", true).id());
    }
}
