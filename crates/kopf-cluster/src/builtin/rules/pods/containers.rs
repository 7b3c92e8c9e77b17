//! Containers: names, images, ports, environment, mounts.

use serde_json::{Value, json};

use super::{probes, resources, security};
use crate::builtin::rules::evaluate::Errors;
use crate::builtin::rules::{Condition, Location, Rule, Rules, ValueCheck, value_checks as values};
use crate::go::FieldError;
use crate::go::quantity::Quantity;
use crate::values::names;
use Rule::{Code, Each, Forbid, Given, If, In, Is, Must, Required, Unique};
use ValueCheck::{Between, OneOf, Text};

/// Containers that run all the time.
pub(crate) const CONTAINER: Rules = &[
    Code(common),
    In("lifecycle", probes::LIFECYCLE),
    In("livenessProbe", probes::LIVENESS),
    In("readinessProbe", probes::READINESS),
    In("startupProbe", probes::STARTUP),
    Given("restartPolicy", OneOf(&["Always", "Never", "OnFailure"])),
];

/// Containers that run before them.
pub(crate) const INIT_CONTAINER: Rules = &[
    Code(common),
    Given("restartPolicy", OneOf(&["Always", "Never", "OnFailure"])),
    If(
        Condition::Is("restartPolicy", "Always"),
        &[
            In("lifecycle", probes::LIFECYCLE),
            In("livenessProbe", probes::LIVENESS),
            In("readinessProbe", probes::READINESS),
            In("startupProbe", probes::STARTUP),
        ],
    ),
    If(
        Condition::IsNot("restartPolicy", "Always"),
        &[
            If(Condition::Has("lifecycle"), &[Forbid("lifecycle", NOT_BEFORE)]),
            If(Condition::Has("livenessProbe"), &[Forbid("livenessProbe", NOT_BEFORE)]),
            If(Condition::Has("readinessProbe"), &[Forbid("readinessProbe", NOT_BEFORE)]),
            If(Condition::Has("startupProbe"), &[Forbid("startupProbe", NOT_BEFORE)]),
        ],
    ),
    Code(unique_over_containers),
];

const NOT_BEFORE: &str = "may not be set for init containers without restartPolicy=Always";

const COMMON: Rules = &[
    Required("name"),
    Is("name", Text(names::check_label)),
    Unique("name"),
    Required("image"),
    Code(image_spaces),
    Is("terminationMessagePolicy", OneOf(&["File", "FallbackToLogsOnError"])),
    Each("ports", PORT),
    Each("env", ENVIRONMENT),
    Each("envFrom", ENVIRONMENT_FROM),
    Each("volumeMounts", MOUNT),
    Each("volumeDevices", DEVICE),
    Is("imagePullPolicy", OneOf(&["Always", "IfNotPresent", "Never"])),
    In("resources", resources::OF_CONTAINER),
    Each("resizePolicy", &[Code(resize)]),
    In("securityContext", security::OF_CONTAINER),
];

const PORT: Rules = &[
    Is("name", Text(values::port_name)),
    Unique("name"),
    Required("containerPort"),
    Is("containerPort", Between(1, 65535)),
    Is("hostPort", Between(1, 65535)),
    Code(host_network_port),
    Must("protocol", OneOf(&["SCTP", "TCP", "UDP"])),
    Code(host_port_taken),
];

const ENVIRONMENT: Rules = &[Required("name"), Is("name", Text(values::environment_name)), In("valueFrom", VALUE_FROM)];

const VALUE_FROM: Rules = &[
    In("fieldRef", &[Code(field_reference)]),
    In("resourceFieldRef", &[Code(resource_reference)]),
    In("configMapKeyRef", KEY),
    In("secretKeyRef", KEY),
    Code(one_source),
];

const KEY: Rules = &[Must("name", Text(names::check_subdomain)), Required("key"), Is("key", Text(values::config_key))];

const ENVIRONMENT_FROM: Rules = &[
    Is("prefix", Text(values::environment_name)),
    In("configMapRef", NAMED),
    In("secretRef", NAMED),
    Code(one_environment_source),
];

const NAMED: Rules = &[Required("name"), Is("name", Text(names::check_subdomain))];

const MOUNT: Rules =
    &[Required("name"), Code(mounted_volume), Required("mountPath"), Code(mount_path_taken), Code(mount_details)];

const DEVICE: Rules = &[Required("name"), Code(device)];

fn common(container: &Location<'_>, errors: &mut Errors) {
    container.check(COMMON, errors);
}

/// Init containers share their names with the others.
fn unique_over_containers(container: &Location<'_>, errors: &mut Errors) {
    let others = container.parent.map(|pod| pod.list("containers")).unwrap_or_default();
    let name = container.text("name");
    if !name.is_empty() && others.iter().any(|other| other["name"] == name) {
        errors.push(FieldError::duplicate(container.at("name"), json!(name)));
    }
}

fn image_spaces(container: &Location<'_>, errors: &mut Errors) {
    let image = container.text("image");
    // Templates may be completed later, so that only pods are checked.
    let in_template = container.path.contains("template");
    if !in_template && !image.is_empty() && image.trim() != image {
        errors.push(container.invalid("image", "must not have leading or trailing whitespace"));
    }
}

fn host_network_port(port: &Location<'_>, errors: &mut Errors) {
    let on_host = port.around("hostNetwork") == Some(&Value::Bool(true));
    let given = port.number("hostPort").unwrap_or_default();
    if on_host && given != 0 && Some(given) != port.number("containerPort") {
        errors.push(port.invalid("hostPort", "must match `containerPort` when `hostNetwork` is true"));
    }
}

/// Two containers cannot have the same port of the node.
fn host_port_taken(port: &Location<'_>, errors: &mut Errors) {
    let key = |port: &Value| {
        let text = |field: &str| port[field].as_str().unwrap_or_default().to_owned();
        let number = port["hostPort"].as_i64().filter(|number| *number != 0)?;
        Some(format!("{}/{}/{number}", text("protocol"), text("hostIP")))
    };
    let Some(own) = key(port.value) else { return };
    let container = port.parent;
    let before = container.map(Location::earlier).unwrap_or_default();
    let earlier = before.iter().flat_map(|other| other["ports"].as_array().into_iter().flatten());
    if earlier.chain(port.earlier()).any(|other| key(other).as_ref() == Some(&own)) {
        errors.push(FieldError::duplicate(port.at("hostPort"), json!(own)));
    }
}

const ENVIRONMENT_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

const VOLUME_FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

fn field_reference(reference: &Location<'_>, errors: &mut Errors) {
    pod_field(reference, ENVIRONMENT_FIELDS, errors);
}

/// The same in a volume, where other fields can be named.
pub(crate) fn volume_field_reference(reference: &Location<'_>, errors: &mut Errors) {
    pod_field(reference, VOLUME_FIELDS, errors);
}

fn pod_field(reference: &Location<'_>, supported: &[&str], errors: &mut Errors) {
    let (version, path) = (reference.text("apiVersion"), reference.text("fieldPath"));
    if version.is_empty() {
        errors.push(FieldError::required(reference.at("apiVersion"), ""));
        return;
    }
    if path.is_empty() {
        errors.push(FieldError::required(reference.at("fieldPath"), ""));
        return;
    }
    if version != "v1" {
        let detail = format!("error converting fieldPath: unsupported pod version: {version}");
        errors.push(reference.invalid("fieldPath", detail));
        return;
    }
    let subscript = path.strip_suffix("']").and_then(|path| path.split_once("['"));
    match subscript {
        Some((map @ ("metadata.labels" | "metadata.annotations"), key)) => {
            let lower = key.to_lowercase();
            let key = if map == "metadata.labels" { key } else { &lower };
            for problem in names::check_qualified_name(key) {
                errors.push(FieldError::invalid(reference.path.clone(), json!(key), problem));
            }
        }
        Some((map, _)) => {
            let detail = format!("error converting fieldPath: field label does not support subscript: {map}");
            errors.push(reference.invalid("fieldPath", detail));
        }
        None if supported.contains(&path) => {}
        None if ENVIRONMENT_FIELDS.contains(&path) || VOLUME_FIELDS.contains(&path) => {
            let supported: Vec<String> = supported.iter().map(|field| (*field).to_owned()).collect();
            errors.push(FieldError::not_supported(reference.at("fieldPath"), json!(path), &supported));
        }
        None => {
            let detail = format!("error converting fieldPath: field label not supported: {path}");
            errors.push(reference.invalid("fieldPath", detail));
        }
    }
}

const RESOURCE_FIELDS: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

fn resource_reference(reference: &Location<'_>, errors: &mut Errors) {
    let resource = reference.text("resource");
    let in_volume = reference.path.contains(".volumes[");
    if in_volume && reference.text("containerName").is_empty() {
        errors.push(FieldError::required(reference.at("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(FieldError::required(reference.at("resource"), ""));
    } else if resource.contains(".hugepages-") {
    } else if !RESOURCE_FIELDS.contains(&resource) {
        let supported: Vec<String> = RESOURCE_FIELDS.iter().map(|field| (*field).to_owned()).collect();
        errors.push(FieldError::not_supported(reference.at("resource"), json!(resource), &supported));
    }
    let divisor = reference.get("divisor").and_then(Quantity::of).filter(|divisor| !divisor.is_zero());
    let Some(divisor) = divisor else { return };
    let (cpu, memory) =
        (["1", "1m"], ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"]);
    let allowed = |units: &[&str]| units.iter().any(|unit| Quantity::parse(unit) == Some(divisor));
    let mut refuse = |detail: &str| {
        errors.push(FieldError::invalid(reference.at("divisor"), json!(resource), detail));
    };
    match resource.rsplit('.').next() {
        Some("cpu") if !allowed(&cpu) => refuse("only divisor's values 1m and 1 are supported with the cpu resource"),
        Some("memory") if !allowed(&memory) => refuse(
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the \
             memory resource",
        ),
        Some("ephemeral-storage") if !allowed(&memory) => refuse(
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the \
             local ephemeral storage resource",
        ),
        _ => {}
    }
}

/// The same rule for a volume.
pub(crate) fn volume_resource_reference(reference: &Location<'_>, errors: &mut Errors) {
    resource_reference(reference, errors);
}

fn one_source(from: &Location<'_>, errors: &mut Errors) {
    const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    let given = SOURCES.iter().filter(|source| from.get(source).is_some()).count();
    let mut refuse = |detail: &str| errors.push(FieldError::invalid(from.path.clone(), json!(""), detail));
    let has_value = from.parent.is_some_and(|variable| !variable.text("value").is_empty());
    match given {
        0 => refuse(
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        ),
        _ if has_value => refuse("may not be specified when `value` is not empty"),
        1 => {}
        _ => refuse("may not have more than one field specified at a time"),
    }
}

fn one_environment_source(source: &Location<'_>, errors: &mut Errors) {
    let list = source.list_path();
    let given = ["configMapRef", "secretRef"].iter().filter(|field| source.get(field).is_some()).count();
    match given {
        0 => errors.push(FieldError::invalid(list, json!(""), "must specify one of: `configMapRef` or `secretRef`")),
        1 => {}
        _ => errors.push(FieldError::invalid(list, json!(""), "may not have more than one field specified at a time")),
    }
}

fn volumes_of<'a>(mount: &Location<'a>) -> &'a [Value] {
    mount.around("volumes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Volumes of stateful sets are also those that they claim for each pod.
fn claims_of<'a>(mount: &Location<'a>) -> &'a [Value] {
    mount.around("volumeClaimTemplates").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn mounted_volume(mount: &Location<'_>, errors: &mut Errors) {
    let name = mount.text("name");
    let known = volumes_of(mount).iter().any(|volume| volume["name"] == name && !name.is_empty())
        || claims_of(mount).iter().any(|claim| claim["metadata"]["name"] == name);
    if !known {
        errors.push(mount.not_found("name", json!(name), ""));
    }
}

fn mount_path_taken(mount: &Location<'_>, errors: &mut Errors) {
    let path = mount.text("mountPath");
    if mount.earlier().iter().any(|earlier| earlier["mountPath"] == path) {
        errors.push(mount.invalid("mountPath", "must be unique"));
    }
}

fn mount_details(mount: &Location<'_>, errors: &mut Errors) {
    // The server reports these at the list, not at the item.
    let list = mount.list_path();
    let (sub_path, expression) = (mount.text("subPath"), mount.text("subPathExpr"));
    for problem in values::relative_path(sub_path) {
        errors.push(FieldError::invalid(format!("{list}.subPath"), json!(sub_path), problem));
    }
    if !expression.is_empty() {
        if !sub_path.is_empty() {
            errors.push(mount.invalid("subPathExpr", "subPathExpr and subPath are mutually exclusive"));
        }
        for problem in values::relative_path(expression) {
            errors.push(FieldError::invalid(format!("{list}.subPathExpr"), json!(expression), problem));
        }
    }
    let propagation = mount.text("mountPropagation");
    let path = format!("{list}.mountPropagation");
    let privileged = mount.parent.and_then(|container| container.get("securityContext.privileged"));
    match propagation {
        "Bidirectional" if privileged != Some(&Value::Bool(true)) => errors.push(FieldError::forbidden(
            path,
            "Bidirectional mount propagation is available only to privileged containers",
        )),
        "" | "None" | "HostToContainer" | "Bidirectional" => {}
        other => {
            let supported = ["Bidirectional", "HostToContainer", "None"].map(str::to_owned);
            errors.push(FieldError::not_supported(path, json!(other), &supported));
        }
    }
    let recursive = mount.text("recursiveReadOnly");
    let path = format!("{list}.recursiveReadOnly");
    let read_only = mount.get("readOnly") == Some(&Value::Bool(true));
    match recursive {
        "" | "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !read_only {
                errors.push(FieldError::forbidden(path, "may only be specified when readOnly is true"));
            }
        }
        other => {
            let supported = ["Disabled", "Enabled", "IfPossible"].map(str::to_owned);
            errors.push(FieldError::not_supported(path, json!(other), &supported));
        }
    }
}

fn device(device: &Location<'_>, errors: &mut Errors) {
    let name = device.text("name");
    match volumes_of(device).iter().find(|volume| volume["name"] == name) {
        _ if name.is_empty() => {}
        Some(volume) if volume.get("persistentVolumeClaim").is_none() && volume.get("ephemeral").is_none() => {
            let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
            errors.push(device.invalid("name", detail));
        }
        Some(_) => {}
        None if claims_of(device).iter().any(|claim| claim["metadata"]["name"] == name) => {}
        None => errors.push(device.not_found("name", json!(name), "")),
    }
    let path = device.text("devicePath");
    if path.is_empty() {
        errors.push(FieldError::required(device.at("devicePath"), ""));
    } else if device.earlier().iter().any(|earlier| earlier["devicePath"] == path) {
        errors.push(device.invalid("devicePath", "must be unique"));
    }
    for problem in values::no_way_up(path) {
        errors.push(device.invalid("devicePath", problem));
    }
}

fn resize(policy: &Location<'_>, errors: &mut Errors) {
    let list = policy.list_path();
    for (field, supported) in
        [("resourceName", ["cpu", "memory"]), ("restartPolicy", ["NotRequired", "RestartContainer"])]
    {
        let given = policy.text(field);
        if !supported.contains(&given) {
            errors.push(FieldError::not_supported(list.clone(), json!(given), &supported.map(str::to_owned)));
        }
    }
}
