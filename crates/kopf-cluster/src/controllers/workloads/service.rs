//! The pods behind a service: its endpoint slices, and its endpoints for older clients.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::objects::{
    controller_reference, is_deleted, is_over, is_ready, name, namespace, remove_field, set_annotation, text, uid,
};
use super::plan::{Action, CONTROLLERS, ENDPOINT_SLICES, ENDPOINTS, Plan, SERVICES};
use crate::support::clock::timestamp;

const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";
const SLICE_MANAGER: &str = "endpointslice-controller.k8s.io";
/// How many endpoints a slice has at most.
const SLICE_SIZE: usize = 100;

/// Takes the pods that the service selects, its slices, and its endpoints.
pub(super) fn reconcile(
    now: Timestamp,
    service: &Value,
    pods: &[Value],
    slices: &[Value],
    endpoints: Option<&Value>,
) -> Plan {
    let mut plan = Plan::default();
    if is_deleted(service) || !has_selector(service) {
        return plan;
    }
    let mut pods: Vec<&Value> =
        pods.iter().filter(|pod| !is_over(pod) && !text(pod, "/status/podIP").is_empty()).collect();
    pods.sort_by_key(|pod| (text(pod, "/status/podIP").to_owned(), name(pod).to_owned()));
    let groups = groups(service, &pods);
    plan.actions.extend(slice_actions(now, service, &groups, slices));
    plan.actions.extend(endpoints_action(now, service, &groups, endpoints));
    plan
}

/// What goes with a service: its slices go by themselves, its endpoints have no owner.
pub(super) fn clean_up(endpoints: &Value) -> Plan {
    let managed = text(endpoints, "/metadata/labels/endpoints.kubernetes.io~1managed-by") == "endpoint-controller";
    let object = endpoints.clone();
    let action = Action::Delete { api: ENDPOINTS, object, grace_period_seconds: None };
    Plan { actions: managed.then_some(action).into_iter().collect(), wake: None }
}

pub(super) fn has_selector(service: &Value) -> bool {
    service["spec"]["selector"].as_object().is_some_and(|selector| !selector.is_empty())
        && service["spec"]["type"] != "ExternalName"
}

/// The pods by the ports that the service reaches on them.
struct Group<'a> {
    ports: Vec<Value>,
    pods: Vec<&'a Value>,
}

fn groups<'a>(service: &Value, pods: &[&'a Value]) -> Vec<Group<'a>> {
    let mut groups: BTreeMap<String, Group<'a>> = BTreeMap::new();
    for pod in pods {
        let ports = ports_on(service, pod);
        let key = Value::Array(ports.clone()).to_string();
        groups.entry(key).or_insert_with(|| Group { ports, pods: Vec::new() }).pods.push(pod);
    }
    groups.into_values().collect()
}

/// The ports of a service on a pod; named ones only if the pod has them.
fn ports_on(service: &Value, pod: &Value) -> Vec<Value> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    ports
        .filter_map(|port| {
            let target = match &port["targetPort"] {
                Value::String(wanted) => named_port(pod, wanted, text(port, "/protocol"))?,
                Value::Number(number) if number.as_i64() != Some(0) => Value::Number(number.clone()),
                _ => port["port"].clone(),
            };
            let mut shown = json!({"name": port["name"].as_str().unwrap_or_default(), "port": target,
                "protocol": port["protocol"].as_str().unwrap_or("TCP")});
            if let Some(protocol) = port.get("appProtocol") {
                shown["appProtocol"] = protocol.clone();
            }
            Some(shown)
        })
        .collect()
}

fn named_port(pod: &Value, wanted: &str, protocol: &str) -> Option<Value> {
    let containers = pod["spec"]["containers"].as_array()?.iter();
    let mut ports = containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    let same = |port: &&Value| {
        let protocols =
            (port["protocol"].as_str().unwrap_or("TCP"), if protocol.is_empty() { "TCP" } else { protocol });
        port["name"] == wanted && protocols.0 == protocols.1
    };
    ports.find(same).map(|port| port["containerPort"].clone())
}

fn target(pod: &Value) -> Value {
    json!({"kind": "Pod", "namespace": namespace(pod), "name": name(pod), "uid": uid(pod)})
}

/// Updates the slices, and creates missing ones.
fn slice_actions(now: Timestamp, service: &Value, groups: &[Group<'_>], slices: &[Value]) -> Vec<Action> {
    let publishes_all = service["spec"]["publishNotReadyAddresses"] == true;
    let mut wanted: Vec<(Value, Value)> = Vec::new();
    for group in groups {
        for portion in group.pods.chunks(SLICE_SIZE) {
            let endpoints: Vec<Value> = portion.iter().map(|pod| endpoint(service, pod, publishes_all)).collect();
            wanted.push((json!(endpoints), json!(group.ports)));
        }
    }
    if wanted.is_empty() {
        // A service without pods has an empty slice.
        wanted.push((Value::Null, Value::Null));
    }
    let mut old: Vec<&Value> = slices.iter().filter(|slice| !is_deleted(slice)).collect();
    let mut actions = Vec::new();
    let labels = slice_labels(service);
    for (endpoints, ports) in wanted {
        let same_ports = old.iter().position(|slice| slice["ports"] == ports);
        let Some(index) = same_ports.or(if old.is_empty() { None } else { Some(0) }) else {
            actions.push(Action::Create {
                api: ENDPOINT_SLICES,
                object: new_slice(now, service, &labels, &endpoints, &ports),
                manager: CONTROLLERS,
            });
            continue;
        };
        let slice = old.remove(index);
        if same_endpoints(&slice["endpoints"], &endpoints)
            && slice["ports"] == ports
            && slice["metadata"]["labels"] == labels
        {
            continue;
        }
        let mut object = slice.clone();
        object["endpoints"] = endpoints;
        object["ports"] = ports;
        object["metadata"]["labels"] = labels.clone();
        set_annotation(&mut object, TRIGGER, &timestamp(now));
        actions.push(Action::Update { api: ENDPOINT_SLICES, object, manager: CONTROLLERS });
    }
    actions.extend(old.into_iter().map(|slice| Action::Delete {
        api: ENDPOINT_SLICES,
        object: slice.clone(),
        grace_period_seconds: None,
    }));
    actions
}

fn same_endpoints(one: &Value, other: &Value) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    list(one) == list(other)
}

fn endpoint(service: &Value, pod: &Value, publishes_all: bool) -> Value {
    let serving = is_ready(pod);
    let terminating = is_deleted(pod);
    let ready = publishes_all || (serving && !terminating);
    let mut endpoint = json!({
        "addresses": [text(pod, "/status/podIP")],
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": target(pod), "nodeName": text(pod, "/spec/nodeName"),
    });
    let hostname = text(pod, "/spec/hostname");
    if !hostname.is_empty() && text(pod, "/spec/subdomain") == name(service) {
        endpoint["hostname"] = json!(hostname);
    }
    endpoint
}

fn slice_labels(service: &Value) -> Value {
    let mut labels = service["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    labels.insert("kubernetes.io/service-name".into(), json!(name(service)));
    labels.insert("endpointslice.kubernetes.io/managed-by".into(), json!(SLICE_MANAGER));
    if service["spec"]["clusterIP"] == "None" {
        labels.insert("service.kubernetes.io/headless".into(), json!(""));
    }
    Value::Object(labels)
}

fn new_slice(now: Timestamp, service: &Value, labels: &Value, endpoints: &Value, ports: &Value) -> Value {
    json!({
        "metadata": {
            "generateName": format!("{}-", name(service)), "namespace": namespace(service), "labels": labels,
            "annotations": {TRIGGER: timestamp(now)},
            "ownerReferences": [controller_reference(SERVICES, service)],
        },
        "addressType": "IPv4", "endpoints": endpoints, "ports": ports,
    })
}

fn endpoints_action(now: Timestamp, service: &Value, groups: &[Group<'_>], known: Option<&Value>) -> Option<Action> {
    let publishes_all = service["spec"]["publishNotReadyAddresses"] == true;
    let mut subsets = Vec::new();
    for group in groups {
        let (ready, unready): (Vec<&Value>, Vec<&Value>) =
            group.pods.iter().filter(|pod| !is_deleted(pod)).partition(|pod| publishes_all || is_ready(pod));
        let address = |pod: &&Value| json!({"ip": text(pod, "/status/podIP"), "nodeName": text(pod, "/spec/nodeName"), "targetRef": target(pod)});
        let mut subset = json!({});
        for (field, pods) in [("addresses", ready), ("notReadyAddresses", unready)] {
            if !pods.is_empty() {
                subset[field] = pods.iter().map(address).collect();
            }
        }
        let mut ports = group.ports.clone();
        for port in ports.iter_mut().filter(|port| port["name"] == "") {
            remove_field(port, "name");
        }
        if subset != json!({}) {
            if !ports.is_empty() {
                subset["ports"] = Value::Array(ports);
            }
            subsets.push(subset);
        }
    }
    let mut labels = service["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    labels.insert("endpoints.kubernetes.io/managed-by".into(), json!("endpoint-controller"));
    if service["spec"]["clusterIP"] == "None" {
        labels.insert("service.kubernetes.io/headless".into(), json!(""));
    }
    let mut object = match known {
        Some(known) => known.clone(),
        None => json!({"metadata": {"name": name(service), "namespace": namespace(service)}}),
    };
    object["metadata"]["labels"] = Value::Object(labels);
    match subsets.is_empty() {
        true => remove_field(&mut object, "subsets"),
        false => object["subsets"] = Value::Array(subsets),
    }
    if known == Some(&object) {
        return None;
    }
    set_annotation(&mut object, TRIGGER, &timestamp(now));
    Some(match known {
        Some(_) => Action::Update { api: ENDPOINTS, object, manager: CONTROLLERS },
        None => Action::Create { api: ENDPOINTS, object, manager: CONTROLLERS },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(pod_name: &str, address: &str, ready: &str) -> Value {
        json!({"metadata": {"name": pod_name, "namespace": "default", "uid": pod_name},
            "spec": {"nodeName": "n", "containers": [{"ports": [{"name": "http", "containerPort": 8080}]}]},
            "status": {"podIP": address, "phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}})
    }

    fn service() -> Value {
        json!({"metadata": {"name": "web", "namespace": "default", "uid": "s"},
            "spec": {"clusterIP": "10.0.0.7", "selector": {"app": "web"},
                "ports": [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}]}})
    }

    #[test]
    fn ready_pods_are_endpoints() {
        let pods = [pod("b", "10.244.0.2", "False"), pod("a", "10.244.0.1", "True"), pod("none", "", "False")];
        let plan = reconcile(Timestamp::UNIX_EPOCH, &service(), &pods, &[], None);
        let [Action::Create { object: slice, .. }, Action::Create { object: endpoints, .. }] = &plan.actions[..] else {
            panic!("{plan:?}")
        };
        let target = |name: &str| json!({"kind": "Pod", "namespace": "default", "name": name, "uid": name});
        let one = |address: &str, name: &str, ready: bool| {
            json!({"addresses": [address], "nodeName": "n", "targetRef": target(name),
                "conditions": {"ready": ready, "serving": ready, "terminating": false}})
        };
        assert_eq!(slice["endpoints"], json!([one("10.244.0.1", "a", true), one("10.244.0.2", "b", false)]));
        assert_eq!(slice["ports"], json!([{"name": "http", "port": 8080, "protocol": "TCP"}]));
        let address = |ip: &str, name: &str| json!({"ip": ip, "nodeName": "n", "targetRef": target(name)});
        assert_eq!(
            endpoints["subsets"],
            json!([{"addresses": [address("10.244.0.1", "a")], "notReadyAddresses": [address("10.244.0.2", "b")],
                "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]}])
        );
        // Nothing is written twice.
        let again = reconcile(Timestamp::UNIX_EPOCH, &service(), &pods, std::slice::from_ref(slice), Some(endpoints));
        assert_eq!(again, Plan::default());
    }

    #[test]
    fn services_without_pods_have_an_empty_slice() {
        let plan = reconcile(Timestamp::UNIX_EPOCH, &service(), &[], &[], None);
        let [Action::Create { object: slice, .. }, Action::Create { .. }] = &plan.actions[..] else {
            panic!("{plan:?}")
        };
        assert_eq!((slice["endpoints"].clone(), slice["ports"].clone()), (Value::Null, Value::Null));
        let mut without_selector = service();
        remove_field(&mut without_selector["spec"], "selector");
        assert_eq!(reconcile(Timestamp::UNIX_EPOCH, &without_selector, &[], &[], None), Plan::default());
    }

    #[test]
    fn many_pods_need_several_slices() {
        let pods: Vec<Value> =
            (0..250).map(|index| pod(&format!("p{index}"), &format!("10.244.1.{index}"), "True")).collect();
        let plan = reconcile(Timestamp::UNIX_EPOCH, &service(), &pods, &[], None);
        let sizes: Vec<usize> = plan
            .actions
            .iter()
            .filter_map(|action| match action {
                Action::Create { api, object, .. } if *api == ENDPOINT_SLICES => {
                    object["endpoints"].as_array().map(Vec::len)
                }
                _ => None,
            })
            .collect();
        assert_eq!(sizes, [100, 100, 50]);
    }
}
