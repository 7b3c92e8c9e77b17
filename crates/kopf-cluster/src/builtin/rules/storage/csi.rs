//! Drivers of volumes: what they can do, on which nodes they run, what they have attached.

use serde_json::{Value, json};

use super::volume_spec;
use crate::builtin::rules::evaluate::Errors;
use crate::builtin::rules::selectors::LABEL_SELECTOR;
use crate::builtin::rules::{Condition, Location, Rule, Rules, ValueCheck};
use crate::go::quantity::Quantity;
use crate::go::struct_text::{self, FieldShape, StructFields};
use crate::go::{FieldError, FieldErrorKind};
use crate::values::names;
use Rule::{Code, Each, Frozen, Given, If, Immutable, In, Is, Must, Needs, Required, Within};
use ValueCheck::{NonNegative, OneOf, Text};

const DRIVER_NAME_LENGTH: usize = 63;
const NODE_ID_LENGTH: usize = 256;
const MINUTES_10: i64 = 600;

pub(crate) const DRIVER: Rules = &[
    Within(
        "spec",
        &[
            Is("fsGroupPolicy", OneOf(&["File", "None", "ReadWriteOnceWithFSType"])),
            Each("tokenRequests", &[Code(token_request)]),
            Code(lifecycle),
            Code(update_period),
            Code(tokens_in_secrets),
        ],
    ),
    Code(attachment),
    Immutable("spec.volumeLifecycleModes"),
];

fn lifecycle(spec: &Location<'_>, errors: &mut Errors) {
    let supported = ["Persistent", "Ephemeral"];
    for mode in spec.list("volumeLifecycleModes") {
        if !mode.as_str().is_some_and(|mode| supported.contains(&mode)) {
            let supported = supported.map(str::to_owned);
            errors.push(FieldError::not_supported(spec.at("volumeLifecycleModes"), mode.clone(), &supported));
        }
    }
}

fn token_request(request: &Location<'_>, errors: &mut Errors) {
    let name = request.text("audience");
    if request.earlier().iter().any(|other| other["audience"].as_str().unwrap_or_default() == name) {
        errors.push(FieldError::duplicate(request.at("audience"), json!(name)));
        return;
    }
    let seconds = request.number("expirationSeconds");
    if seconds.is_some_and(|seconds| seconds < MINUTES_10) {
        errors.push(request.invalid("expirationSeconds", "may not specify a duration less than 10 minutes"));
    }
    if seconds.is_some_and(|seconds| seconds > 1 << 32) {
        errors.push(request.invalid("expirationSeconds", "may not specify a duration larger than 2^32 seconds"));
    }
}

fn update_period(spec: &Location<'_>, errors: &mut Errors) {
    if spec.number("nodeAllocatableUpdatePeriodSeconds").is_some_and(|seconds| seconds < 10) {
        let detail = "must be greater than or equal to 10 seconds";
        errors.push(spec.invalid("nodeAllocatableUpdatePeriodSeconds", detail));
    }
}

fn tokens_in_secrets(spec: &Location<'_>, errors: &mut Errors) {
    if spec.get("serviceAccountTokenInSecrets").is_some() && spec.list("tokenRequests").is_empty() {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.push(spec.invalid("serviceAccountTokenInSecrets", detail));
    }
}

fn attachment(driver: &Location<'_>, errors: &mut Errors) {
    if driver.changes("spec.attachRequired") {
        let value = driver.get("spec.attachRequired").cloned().unwrap_or_default();
        errors.push(FieldError::invalid("spec.attachedRequired", value, "field is immutable"));
    }
}

pub(crate) const NODE: Rules = &[
    Within(
        "spec",
        &[Each(
            "drivers",
            &[
                Code(|driver, errors| driver_name(driver, "name", errors)),
                Required("nodeID"),
                Code(node_id),
                In("allocatable", &[Given("count", NonNegative)]),
                Code(known_driver),
                Code(topology_keys),
            ],
        )],
    ),
    Code(driver_changes),
];

/// The name of a driver, in a field of something else.
fn driver_name(place: &Location<'_>, field: &str, errors: &mut Errors) {
    let name = place.text(field);
    if name.is_empty() {
        errors.push(FieldError::required(place.at(field), ""));
        return;
    }
    if name.len() > DRIVER_NAME_LENGTH {
        errors.push(FieldError::too_long(place.at(field), DRIVER_NAME_LENGTH as i64));
    }
    for problem in names::check_subdomain(&name.to_lowercase()) {
        errors.push(place.invalid(field, problem));
    }
}

fn node_id(driver: &Location<'_>, errors: &mut Errors) {
    if driver.text("nodeID").len() > NODE_ID_LENGTH {
        errors.push(driver.invalid("nodeID", format!("must be {NODE_ID_LENGTH} characters or less")));
    }
}

fn known_driver(driver: &Location<'_>, errors: &mut Errors) {
    let name = driver.text("name");
    if driver.earlier().iter().any(|other| other["name"].as_str().unwrap_or_default() == name) {
        errors.push(FieldError::duplicate(driver.at("name"), json!(name)));
    }
}

fn topology_keys(driver: &Location<'_>, errors: &mut Errors) {
    let keys = driver.list("topologyKeys");
    for (index, key) in keys.iter().enumerate() {
        let text = key.as_str().unwrap_or_default();
        if text.is_empty() {
            errors.push(FieldError::required(driver.path.clone(), ""));
        }
        if keys.iter().take(index).any(|earlier| earlier == key) {
            errors.push(FieldError::duplicate(driver.path.clone(), key.clone()));
        }
        for problem in names::check_qualified_name(text) {
            errors.push(FieldError::invalid(driver.path.clone(), key.clone(), problem));
        }
    }
}

/// A driver on a node is immutable, except for its number of attachable volumes.
fn driver_changes(node: &Location<'_>, errors: &mut Errors) {
    const DRIVER: StructFields = &[
        ("name", "Name", FieldShape::Plain),
        ("nodeID", "NodeID", FieldShape::Plain),
        ("topologyKeys", "TopologyKeys", FieldShape::Plain),
    ];
    let old = node.old.and_then(|old| old["spec"]["drivers"].as_array()).into_iter().flatten();
    for before in old {
        for after in node.list("spec.drivers").iter().filter(|after| after["name"] == before["name"]) {
            if before["nodeID"] != after["nodeID"] || before["topologyKeys"] != after["topologyKeys"] {
                let quoted = struct_text::quote(after, DRIVER);
                let quoted = format!("{},\"Allocatable\":null}}", quoted.trim_end_matches('}'));
                let detail = "field is immutable";
                errors.push(FieldError::quoting(FieldErrorKind::Invalid, "spec.drivers", &quoted, detail));
            }
        }
    }
}

pub(crate) const CAPACITY: Rules = &[
    In("nodeTopology", LABEL_SELECTOR),
    Must("storageClassName", Text(names::check_subdomain)),
    Code(|capacity, errors| amount(capacity, "capacity", errors)),
    Immutable("nodeTopology"),
    Immutable("storageClassName"),
];

fn amount(capacity: &Location<'_>, field: &str, errors: &mut Errors) {
    if let Some(size) = capacity.get(field).and_then(Quantity::of).filter(|size| size.is_negative()) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(capacity.at(field), json!(size.to_string()), detail));
    }
}

pub(crate) const ATTACHMENT: Rules = &[
    Within(
        "spec",
        &[
            Code(|spec, errors| driver_name(spec, "attacher", errors)),
            Within("source", &[Code(source)]),
            Must("nodeName", Text(names::check_subdomain)),
        ],
    ),
    If(
        Condition::Has("spec.source.persistentVolumeName"),
        &[Must("spec.source.persistentVolumeName", Text(names::check_subdomain))],
    ),
    Code(attachment_changes),
];

/// Limits the size of the attachment metadata.
pub(crate) const ATTACHMENT_STATUS: Rules =
    &[Within("status", &[Code(metadata), In("attachError", VOLUME_ERROR), In("detachError", VOLUME_ERROR)])];

const METADATA_BYTES: usize = 256 * 1024;
const MESSAGE_BYTES: i64 = 1024;
const VOLUME_ERROR: Rules = &[Code(error_message), Given("errorCode", ValueCheck::Between(0, i32::MAX as i64))];

fn metadata(status: &Location<'_>, errors: &mut Errors) {
    let entries = status.get("attachmentMetadata").and_then(Value::as_object).into_iter().flatten();
    let bytes: usize = entries.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if bytes > METADATA_BYTES {
        errors.push(FieldError::too_long(status.at("attachmentMetadata"), METADATA_BYTES as i64));
    }
}

fn error_message(error: &Location<'_>, errors: &mut Errors) {
    if error.text("message").len() as i64 > MESSAGE_BYTES {
        // The message shows another limit than the one that is enforced.
        errors.push(FieldError::too_long(error.at("message"), METADATA_BYTES as i64));
    }
}

fn source(source: &Location<'_>, errors: &mut Errors) {
    const DETAIL: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (source.enter("inlineVolumeSpec"), source.get("persistentVolumeName")) {
        (None, None) => errors.push(FieldError::required(source.path.clone(), DETAIL)),
        (Some(_), Some(_)) => errors.push(FieldError::forbidden(source.path.clone(), DETAIL)),
        (None, Some(name)) => {
            if name.as_str().is_none_or(str::is_empty) {
                let detail = "must specify non empty persistentVolumeName";
                errors.push(FieldError::required(source.at("persistentVolumeName"), detail));
            }
        }
        (Some(inline), None) => volume_spec(&inline, true, errors),
    }
}

fn attachment_changes(attachment: &Location<'_>, errors: &mut Errors) {
    const SPEC: StructFields = &[
        ("attacher", "Attacher", FieldShape::Plain),
        (
            "source",
            "Source",
            FieldShape::Struct(&[
                ("persistentVolumeName", "PersistentVolumeName", FieldShape::Plain),
                ("inlineVolumeSpec", "InlineVolumeSpec", FieldShape::Plain),
            ]),
        ),
        ("nodeName", "NodeName", FieldShape::Plain),
    ];
    if attachment.changes("spec") {
        let quoted = struct_text::quote(&attachment.value["spec"], SPEC);
        errors.push(FieldError::quoting(FieldErrorKind::Invalid, "spec", &quoted, "field is immutable"));
    }
}

pub(crate) const ATTRIBUTES_CLASS: Rules = &[
    Frozen("driverName", "updates to driverName are forbidden."),
    Frozen("parameters", "updates to parameters are forbidden."),
    Required("driverName"),
    Code(|class, errors| qualified(class, "driverName", errors)),
    Code(parameters),
    Needs("parameters", "must contain at least one key/value pair"),
];

/// A provisioner or a driver by its name, however that is written.
pub(crate) fn qualified(class: &Location<'_>, field: &str, errors: &mut Errors) {
    let name = class.text(field).to_lowercase();
    for problem in names::check_qualified_name(&name).into_iter().filter(|_| !name.is_empty()) {
        errors.push(FieldError::invalid(class.at(field), json!(name), problem));
    }
}

const MAX_PARAMETERS: usize = 512;

pub(crate) fn parameters(class: &Location<'_>, errors: &mut Errors) {
    let Some(Value::Object(parameters)) = class.get("parameters") else { return };
    if parameters.len() > MAX_PARAMETERS {
        errors.push(FieldError::too_long("parameters", MAX_PARAMETERS as i64));
        return;
    }
    if parameters.contains_key("") {
        errors.push(FieldError::invalid("parameters", json!(""), "field can not be empty."));
    }
    let bytes: usize = parameters.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if bytes > METADATA_BYTES {
        errors.push(FieldError::too_long("parameters", METADATA_BYTES as i64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::rules::evaluate::run;

    /// The errors of an object that is created, or updated from another one.
    fn errors_of(rules: Rules, object: &Value, old: Option<&Value>) -> String {
        run(rules, object, old).iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn new_objects() {
        for (rules, object, expected) in [
            (DRIVER, json!({"spec": {"volumeLifecycleModes": ["Persistent"]}}), ""),
            (
                DRIVER,
                json!({"spec": {"tokenRequests": [{"audience": "a"}, {"audience": "a"}],
                    "nodeAllocatableUpdatePeriodSeconds": 5}}),
                "spec.tokenRequests[1].audience: Duplicate value: \"a\"; \
                 spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 5: must be greater than or equal to 10 seconds",
            ),
            (NODE, json!({"spec": {"drivers": [{"name": "d.x", "nodeID": "n", "topologyKeys": ["a.b/c"]}]}}), ""),
            (
                NODE,
                json!({"spec": {"drivers": [{"name": "d"}, {"name": "d", "nodeID": "n"}]}}),
                "spec.drivers[0].nodeID: Required value; spec.drivers[1].name: Duplicate value: \"d\"",
            ),
            (
                ATTACHMENT,
                json!({"spec": {"attacher": "a.b", "nodeName": "n", "source": {"persistentVolumeName": ""}}}),
                "spec.source.persistentVolumeName: Required value: must specify non empty persistentVolumeName; \
                 spec.source.persistentVolumeName: Invalid value: \"\": a lowercase RFC 1123 subdomain must consist of \
                 lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character \
                 (e.g. 'example.com', regex used for validation is \
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ),
            (CAPACITY, json!({"storageClassName": "s", "capacity": "1Gi"}), ""),
            (
                CAPACITY,
                json!({"storageClassName": "s", "capacity": "-1"}),
                "capacity: Invalid value: \"-1\": must be greater than or equal to 0",
            ),
            (
                ATTRIBUTES_CLASS,
                json!({"driverName": "d.x"}),
                "parameters: Required value: must contain at least one key/value pair",
            ),
        ] {
            assert_eq!(errors_of(rules, &object, None), expected);
        }
    }

    #[test]
    fn changes() {
        let node = |id: &str, count: i64| {
            json!({"spec": {"drivers": [{"name": "d", "nodeID": id, "topologyKeys": null,
            "allocatable": {"count": count}}]}})
        };
        assert_eq!(errors_of(NODE, &node("n", 2), Some(&node("n", 1))), "");
        assert_eq!(
            errors_of(NODE, &node("m", 1), Some(&node("n", 1))),
            "spec.drivers: Invalid value: {\"Name\":\"d\",\"NodeID\":\"m\",\"TopologyKeys\":null,\"Allocatable\":null}: \
             field is immutable"
        );
        let class = |value: &str| json!({"driverName": "d.x", "parameters": {"a": value}});
        assert_eq!(
            errors_of(ATTRIBUTES_CLASS, &class("c"), Some(&class("b"))),
            "parameters: Forbidden: updates to parameters are forbidden."
        );
    }
}
