//! The cells of kinds that belong to the system more than to its users: storage, quotas,
//! admission, fairness of the API, certificates, scaling by metrics.

use serde_json::{Value, json};

use super::human_duration;

/// The cell of a column; None if it is not special to these kinds.
pub(super) fn cell(kind: &str, title: &str, object: &Value) -> Option<Value> {
    let spec = &object["spec"];
    let text = |value: &Value| json!(value.as_str().unwrap_or_default());
    let count = |list: &Value| json!(list.as_array().map_or(0, Vec::len));
    let or_none = |value: &Value| if value.is_null() { json!("<none>") } else { value.clone() };
    Some(match (kind, title) {
        ("resourcequotas", "Request") => json!(quotas(object, false)),
        ("resourcequotas", "Limit") => json!(quotas(object, true)),

        ("servicecidrs.networking.k8s.io", "CIDRs") => json!(joined(&spec["cidrs"])),
        ("ipaddresses.networking.k8s.io", "ParentRef") => json!(parent(&spec["parentRef"])),

        ("csidrivers.storage.k8s.io", "AttachRequired") => json!(spec["attachRequired"] != false),
        ("csidrivers.storage.k8s.io", "PodInfoOnMount") => json!(spec["podInfoOnMount"] == true),
        ("csidrivers.storage.k8s.io", "StorageCapacity") => json!(spec["storageCapacity"] == true),
        ("csidrivers.storage.k8s.io", "RequiresRepublish") => json!(spec["requiresRepublish"] == true),
        ("csidrivers.storage.k8s.io", "TokenRequests") => match spec["tokenRequests"].as_array() {
            Some(requests) => {
                let audiences = requests.iter().map(|request| request["audience"].as_str().unwrap_or_default());
                json!(audiences.collect::<Vec<_>>().join(","))
            }
            None => json!("<unset>"),
        },
        ("csidrivers.storage.k8s.io", "Modes") => match joined(&spec["volumeLifecycleModes"]) {
            modes if modes.is_empty() => json!("<none>"),
            modes => json!(modes),
        },
        ("csinodes.storage.k8s.io", "Drivers") => count(&spec["drivers"]),
        ("volumeattachments.storage.k8s.io", "Attacher") => text(&spec["attacher"]),
        ("volumeattachments.storage.k8s.io", "PV") => text(&spec["source"]["persistentVolumeName"]),
        ("volumeattachments.storage.k8s.io", "Node") => text(&spec["nodeName"]),
        ("volumeattachments.storage.k8s.io", "Attached") => json!(object["status"]["attached"] == true),
        ("volumeattributesclasses.storage.k8s.io", "DriverName") => text(&object["driverName"]),

        ("flowschemas.flowcontrol.apiserver.k8s.io", "PriorityLevel") => {
            text(&spec["priorityLevelConfiguration"]["name"])
        }
        ("flowschemas.flowcontrol.apiserver.k8s.io", "MatchingPrecedence") => {
            json!(spec["matchingPrecedence"].as_i64().unwrap_or_default())
        }
        ("flowschemas.flowcontrol.apiserver.k8s.io", "DistinguisherMethod") => {
            or_none(&spec["distinguisherMethod"]["type"])
        }
        ("flowschemas.flowcontrol.apiserver.k8s.io", "MissingPL") => {
            let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
            let dangling = conditions.into_iter().find(|condition| condition["type"] == "Dangling");
            dangling.map_or_else(|| json!("?"), |condition| text(&condition["status"]))
        }
        ("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", title) => {
            let limited = &spec["limited"];
            let queuing = &limited["limitResponse"]["queuing"];
            match title {
                "Type" => text(&spec["type"]),
                "NominalConcurrencyShares" => or_none(&limited["nominalConcurrencyShares"]),
                "Queues" => or_none(&queuing["queues"]),
                "HandSize" => or_none(&queuing["handSize"]),
                "QueueLengthLimit" => or_none(&queuing["queueLengthLimit"]),
                _ => return None,
            }
        }

        (_, "Validations") => count(&spec["validations"]),
        (_, "Mutations") => count(&spec["mutations"]),
        (_, "ParamKind") => match &spec["paramKind"] {
            Value::Null => json!("<unset>"),
            kind => json!(format!(
                "{}/{}",
                kind["apiVersion"].as_str().unwrap_or_default(),
                kind["kind"].as_str().unwrap_or_default()
            )),
        },
        (_, "PolicyName") => text(&spec["policyName"]),
        (_, "ParamRef") => match spec["paramRef"]["name"].as_str().filter(|name| !name.is_empty()) {
            Some(name) => json!(format!("{}/{name}", spec["paramRef"]["namespace"].as_str().unwrap_or("*"))),
            None => json!("<unset>"),
        },

        ("certificatesigningrequests.certificates.k8s.io", "SignerName") => or_none(&spec["signerName"]),
        ("certificatesigningrequests.certificates.k8s.io", "Requestor") => text(&spec["username"]),
        ("certificatesigningrequests.certificates.k8s.io", "RequestedDuration") => {
            spec["expirationSeconds"].as_i64().map_or_else(|| json!("<none>"), |seconds| json!(human_duration(seconds)))
        }
        ("certificatesigningrequests.certificates.k8s.io", "Condition") => json!(certificate_status(object)),

        ("horizontalpodautoscalers.autoscaling", "Targets") => json!(targets(object)),
        _ => return None,
    })
}

fn joined(list: &Value) -> String {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// What is used of each limit, or of the rest.
fn quotas(quota: &Value, of_limits: bool) -> String {
    let mut hard: Vec<(&String, &Value)> = quota["status"]["hard"].as_object().into_iter().flatten().collect();
    hard.sort_by_key(|(name, _)| *name);
    let shown = hard.into_iter().filter(|(name, _)| name.starts_with("limits.") == of_limits).map(|(name, most)| {
        let used = quota["status"]["used"].get(name).map_or_else(|| "0".to_owned(), plain);
        format!("{name}: {used}/{}", plain(most))
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn parent(reference: &Value) -> String {
    if !reference.is_object() {
        return "<none>".to_owned();
    }
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let resource = match text("group") {
        "" => text("resource").to_owned(),
        group => format!("{}.{group}", text("resource")),
    };
    match text("namespace") {
        "" => format!("{}/{}", resource.to_lowercase(), text("name")),
        namespace => format!("{}/{namespace}/{}", resource.to_lowercase(), text("name")),
    }
}

fn certificate_status(request: &Value) -> String {
    let conditions = request["status"]["conditions"].as_array();
    let has = |kind: &str| conditions.into_iter().flatten().any(|condition| condition["type"] == kind);
    let mut status = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        status.push_str(",Failed");
    }
    if request["status"]["certificate"].as_str().is_some_and(|certificate| !certificate.is_empty()) {
        status.push_str(",Issued");
    }
    status
}

/// How many metrics are shown.
const SHOWN_METRICS: usize = 2;

/// The metrics of an autoscaler: what they are, and what they should be.
fn targets(autoscaler: &Value) -> String {
    // The older API knows one metric only.
    if let Some(target) = autoscaler["spec"]["targetCPUUtilizationPercentage"].as_i64() {
        let current = &autoscaler["status"]["currentCPUUtilizationPercentage"];
        return format!("cpu: {}/{target}%", percent(current));
    }
    let statuses = autoscaler["status"]["currentMetrics"].as_array().map(Vec::as_slice).unwrap_or_default();
    let metrics = autoscaler["spec"]["metrics"].as_array().map(Vec::as_slice).unwrap_or_default();
    if metrics.is_empty() {
        return "<none>".to_owned();
    }
    let shown = metrics.iter().enumerate().map(|(index, metric)| target(metric, statuses.get(index)));
    let shown: Vec<String> = shown.take(SHOWN_METRICS).collect();
    match metrics.len().saturating_sub(SHOWN_METRICS) {
        0 => shown.join(", "),
        more => format!("{} + {more} more...", shown.join(", ")),
    }
}

fn target(metric: &Value, status: Option<&Value>) -> String {
    let (field, is_named) = match metric["type"].as_str().unwrap_or_default() {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let wanted = &metric[field]["target"];
    let current = status.map(|status| &status[field]["current"]).unwrap_or(&Value::Null);
    let known = |value: &Value| if value.is_null() { "<unknown>".to_owned() } else { plain(value) };
    let name = if is_named { format!("{}: ", plain(&metric[field]["name"])) } else { String::new() };
    match &wanted["averageValue"] {
        Value::Null if is_named => {
            let target = match wanted["averageUtilization"].as_i64() {
                Some(target) => format!("{target}%"),
                None => "<auto>".to_owned(),
            };
            format!("{name}{}/{target}", percent(&current["averageUtilization"]))
        }
        Value::Null => format!("{}/{}", known(&current["value"]), plain(&wanted["value"])),
        average => {
            let suffix = if matches!(field, "external" | "object") { " (avg)" } else { "" };
            format!("{name}{}/{}{suffix}", known(&current["averageValue"]), plain(average))
        }
    }
}

fn percent(value: &Value) -> String {
    value.as_i64().map_or_else(|| "<unknown>".to_owned(), |value| format!("{value}%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_as_a_real_server_prints_them() {
        let quota = json!({"status": {"hard": {"secrets": "100", "limits.cpu": "2"}, "used": {"secrets": "2"}}});
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}});
        let current = json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 5}}}]);
        for (kind, title, object, expected) in [
            ("resourcequotas", "Request", quota.clone(), json!("secrets: 2/100")),
            ("resourcequotas", "Limit", quota, json!("limits.cpu: 0/2")),
            (
                "ipaddresses.networking.k8s.io",
                "ParentRef",
                json!({"spec": {"parentRef": {"resource": "services", "namespace": "a", "name": "s"}}}),
                json!("services/a/s"),
            ),
            ("csidrivers.storage.k8s.io", "AttachRequired", json!({"spec": {}}), json!(true)),
            ("flowschemas.flowcontrol.apiserver.k8s.io", "MissingPL", json!({}), json!("?")),
            (
                "horizontalpodautoscalers.autoscaling",
                "Targets",
                json!({"spec": {"metrics": [metric, metric, metric]}, "status": {"currentMetrics": current}}),
                json!("cpu: 5%/80%, cpu: <unknown>/80% + 1 more..."),
            ),
            (
                "certificatesigningrequests.certificates.k8s.io",
                "Condition",
                json!({"status": {"conditions": [{"type": "Approved"}], "certificate": "eA=="}}),
                json!("Approved,Issued"),
            ),
        ] {
            assert_eq!(cell(kind, title, &object), Some(expected), "{kind} {title} {object}");
        }
        assert_eq!(cell("pods", "Name", &json!({})), None);
    }
}
