//! The rules of a webhook: which requests it is called for.

use serde_json::Value;

/// One rule of a webhook: it matches any combination of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleWithOperations {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: Scope,
}

/// The scope of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    All,
    /// Only objects in namespaces.
    Namespaced,
    /// Only objects outside of namespaces, and namespaces themselves.
    Cluster,
}

/// A request, as rules match it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subject<'a> {
    pub operation: &'a str,
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub in_namespace: bool,
}

impl RuleWithOperations {
    pub(crate) fn parse(rule: &Value) -> Self {
        let texts = |field: &str| -> Vec<String> {
            rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources"),
            scope: match rule["scope"].as_str() {
                Some("Namespaced") => Scope::Namespaced,
                Some("Cluster") => Scope::Cluster,
                _ => Scope::All,
            },
        }
    }

    pub(crate) fn matches(&self, subject: &Subject<'_>) -> bool {
        let any = |list: &[String], wanted: &str| list.iter().any(|one| one == "*" || one == wanted);
        let in_scope = match self.scope {
            Scope::All => true,
            Scope::Namespaced => subject.in_namespace,
            Scope::Cluster => !subject.in_namespace,
        };
        in_scope
            && any(&self.operations, subject.operation)
            && any(&self.groups, subject.group)
            && any(&self.versions, subject.version)
            && self.resources.iter().any(|resource| {
                let (name, part) = resource.split_once('/').unwrap_or((resource, ""));
                (name == "*" || name == subject.resource) && (part == "*" || part == subject.subresource)
            })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(rule: Value, subject: &str, expected: bool) {
        let mut words = subject.split(' ');
        let mut next = || words.next().unwrap_or_default();
        let (operation, group_version, path, scope) = (next(), next(), next(), next());
        let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
        let (resource, subresource) = path.split_once('/').unwrap_or((path, ""));
        let in_namespace = scope == "namespaced";
        let subject = Subject { operation, group, version, resource, subresource, in_namespace };
        let mut full = json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]});
        for (field, value) in rule.as_object().unwrap() {
            full[field] = value.clone();
        }
        assert_eq!(RuleWithOperations::parse(&full).matches(&subject), expected, "{full} on {subject:?}");
    }

    #[test]
    fn rules_match_as_in_a_real_server() {
        let pods = "CREATE v1 pods namespaced";
        for (rule, subject, expected) in [
            (json!({}), pods, true),
            (json!({"operations": ["CREATE", "UPDATE"]}), pods, true),
            (json!({"operations": ["UPDATE"]}), pods, false),
            (json!({"operations": []}), pods, false),
            (json!({"apiGroups": [""]}), pods, true),
            (json!({"apiGroups": ["apps"]}), pods, false),
            (json!({"apiGroups": ["apps", ""]}), pods, true),
            (json!({"apiVersions": ["v2"]}), pods, false),
            (json!({"resources": ["pods"]}), pods, true),
            (json!({"resources": ["*"]}), pods, true),
            (json!({"resources": ["pods/status"]}), pods, false),
            (json!({"resources": ["pods/*"]}), pods, true),
            (json!({"resources": ["*/status"]}), pods, false),
            (json!({"resources": ["pods"]}), "UPDATE v1 pods/status namespaced", false),
            (json!({"resources": ["*"]}), "UPDATE v1 pods/status namespaced", false),
            (json!({"resources": ["*/status"]}), "UPDATE v1 pods/status namespaced", true),
            (json!({"resources": ["pods/*"]}), "UPDATE v1 pods/status namespaced", true),
            (json!({"resources": ["pods/scale"]}), "UPDATE v1 pods/status namespaced", false),
            (json!({"scope": "Namespaced"}), pods, true),
            (json!({"scope": "Cluster"}), pods, false),
            (json!({"scope": "Cluster"}), "CREATE v1 namespaces cluster", true),
            (json!({"scope": "Namespaced"}), "CREATE v1 namespaces cluster", false),
            (json!({"scope": "*"}), "CREATE apps/v1 deployments namespaced", true),
        ] {
            check(rule, subject, expected);
        }
    }
}
