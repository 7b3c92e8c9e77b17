//! Security contexts of pods and of containers.

use serde_json::{Value, json};

use crate::builtin::rules::evaluate::Errors;
use crate::builtin::rules::{Condition, Location, Rule, Rules, ValueCheck, value_checks as values};
use crate::go::struct_text::{self, FieldShape, StructFields};
use crate::go::{FieldError, FieldErrorKind};
use crate::values::names;
use Rule::{Code, Each, Forbid, Given, If, In, Is, Needs, Required, Unique};
use ValueCheck::{Between, OneOf, Text};

const IDENTIFIERS: ValueCheck = Between(0, 2_147_483_647);

pub(crate) const OF_POD: Rules = &[
    Given("fsGroup", IDENTIFIERS),
    Given("runAsUser", IDENTIFIERS),
    Given("runAsGroup", IDENTIFIERS),
    Each("supplementalGroups", &[Given("", IDENTIFIERS)]),
    Each("sysctls", &[Required("name"), Is("name", Text(values::sysctl_name)), Unique("name")]),
    Given("fsGroupChangePolicy", OneOf(&["Always", "OnRootMismatch"])),
    In("seccompProfile", SECCOMP),
    In("windowsOptions", WINDOWS),
    In("appArmorProfile", APP_ARMOR),
    Given("supplementalGroupsPolicy", OneOf(&["Merge", "Strict"])),
    Given("seLinuxChangePolicy", OneOf(&["MountOption", "Recursive"])),
];

pub(crate) const OF_CONTAINER: Rules = &[
    Given("runAsUser", IDENTIFIERS),
    Given("runAsGroup", IDENTIFIERS),
    Given("procMount", OneOf(&["Default", "Unmasked"])),
    If(Condition::Is("procMount", "Unmasked"), &[Code(unmasked)]),
    In("seccompProfile", SECCOMP),
    Code(escalation),
    In("windowsOptions", WINDOWS),
    In("appArmorProfile", APP_ARMOR),
];

const PROFILES: ValueCheck = OneOf(&["Localhost", "RuntimeDefault", "Unconfined"]);

const SECCOMP: Rules = &[
    Needs("type", "type is required when seccompProfile is set"),
    Is("type", PROFILES),
    If(
        Condition::Is("type", "Localhost"),
        &[
            Needs("localhostProfile", "must be set when seccomp type is Localhost"),
            Is("localhostProfile", Text(values::relative_path)),
        ],
    ),
    If(Condition::IsNot("type", "Localhost"), &[Code(stray_seccomp_profile)]),
];

const APP_ARMOR: Rules = &[
    Needs("type", "type is required when appArmorProfile is set"),
    Is("type", PROFILES),
    If(Condition::Is("type", "Localhost"), &[Needs("localhostProfile", "must be set when AppArmor type is Localhost")]),
    If(
        Condition::IsNot("type", "Localhost"),
        &[If(
            Condition::Has("localhostProfile"),
            &[Rule::Refuse("localhostProfile", "can only be set when AppArmor type is Localhost")],
        )],
    ),
];

const WINDOWS: Rules = &[Is("gmsaCredentialSpecName", Text(names::check_subdomain))];

/// A container that must not gain privileges must not be privileged.
fn escalation(context: &Location<'_>, errors: &mut Errors) {
    if context.get("allowPrivilegeEscalation") != Some(&Value::Bool(false)) {
        return;
    }
    let quoted = struct_text::quote(context.value, SHOWN);
    let mut refuse = |detail: &str| {
        errors.push(FieldError::quoting(FieldErrorKind::Invalid, context.path.clone(), &quoted, detail));
    };
    if context.get("privileged") == Some(&Value::Bool(true)) {
        refuse("cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
    }
    if context.list("capabilities.add").iter().any(|capability| capability == "CAP_SYS_ADMIN") {
        refuse("cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN");
    }
}

/// The security context as the server prints it: all fields of the Go struct, in their order.
const SHOWN: StructFields = &[
    (
        "capabilities",
        "Capabilities",
        FieldShape::Struct(&[("add", "Add", FieldShape::Plain), ("drop", "Drop", FieldShape::Plain)]),
    ),
    ("privileged", "Privileged", FieldShape::Plain),
    ("seLinuxOptions", "SELinuxOptions", FieldShape::Plain),
    ("windowsOptions", "WindowsOptions", FieldShape::Plain),
    ("runAsUser", "RunAsUser", FieldShape::Plain),
    ("runAsGroup", "RunAsGroup", FieldShape::Plain),
    ("runAsNonRoot", "RunAsNonRoot", FieldShape::Plain),
    ("readOnlyRootFilesystem", "ReadOnlyRootFilesystem", FieldShape::Plain),
    ("allowPrivilegeEscalation", "AllowPrivilegeEscalation", FieldShape::Plain),
    ("procMount", "ProcMount", FieldShape::Plain),
    ("seccompProfile", "SeccompProfile", FieldShape::Plain),
    ("appArmorProfile", "AppArmorProfile", FieldShape::Plain),
];

fn unmasked(context: &Location<'_>, errors: &mut Errors) {
    if context.around("hostUsers") != Some(&Value::Bool(false)) {
        errors.push(context.invalid("procMount", "`hostUsers` must be false to use `Unmasked`"));
    }
}

fn stray_seccomp_profile(profile: &Location<'_>, errors: &mut Errors) {
    const SHOWN: StructFields =
        &[("type", "Type", FieldShape::Plain), ("localhostProfile", "LocalhostProfile", FieldShape::Plain)];
    if profile.get("localhostProfile").is_some() {
        let quoted = struct_text::quote(profile.value, SHOWN);
        let detail = "can only be set when seccomp type is Localhost";
        let field = profile.at("localhostProfile");
        errors.push(FieldError::quoting(FieldErrorKind::Invalid, field, &quoted, detail));
    }
}

/// What pods for one system may not have of the other.
pub(crate) const OPERATING_SYSTEM: Rules = &[
    In("os", &[Required("name")]),
    If(Condition::Has("os.name"), &[Code(known_system)]),
    If(Condition::Is("os.name", "linux"), &[Code(for_linux)]),
    If(Condition::Is("os.name", "windows"), &[Code(for_windows)]),
];

fn known_system(pod: &Location<'_>, errors: &mut Errors) {
    let name = pod.text("os.name");
    if !name.is_empty() && !["linux", "windows"].contains(&name) {
        let supported = ["linux", "windows"].map(str::to_owned);
        errors.push(FieldError::not_supported(pod.at("os"), json!(name), &supported));
    }
}

fn for_linux(pod: &Location<'_>, errors: &mut Errors) {
    const LINUX: Rules = &[If(
        Condition::Has("securityContext.windowsOptions"),
        &[Forbid("securityContext.windowsOptions", "windows options cannot be set for a linux pod")],
    )];
    pod.check(LINUX, errors);
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        pod.items(list, |container| container.check(LINUX, errors));
    }
}

fn for_windows(pod: &Location<'_>, errors: &mut Errors) {
    const OF_PODS: [&str; 9] = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "sysctls",
        "runAsUser",
        "runAsGroup",
        "supplementalGroups",
    ];
    const OF_CONTAINERS: [&str; 10] = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    let detail = "cannot be set for a windows pod";
    for field in ["hostPID", "hostIPC"] {
        if pod.get(field) == Some(&Value::Bool(true)) {
            errors.push(FieldError::forbidden(pod.at(field), detail));
        }
    }
    let forbid = |location: &Location<'_>, fields: &[&str], errors: &mut Errors| {
        let Some(context) = location.enter("securityContext") else { return };
        for field in fields.iter().filter(|field| context.get(field).is_some()) {
            errors.push(FieldError::forbidden(context.at(field), detail));
        }
    };
    forbid(pod, &OF_PODS, errors);
    if pod.get("shareProcessNamespace").is_some() {
        errors.push(FieldError::forbidden(pod.at("shareProcessNamespace"), detail));
    }
    for list in ["containers", "initContainers"] {
        pod.items(list, |container| forbid(container, &OF_CONTAINERS, errors));
    }
}

/// Pod flags that exclude each other; errors report them in the security context.
pub(crate) fn host_flags(pod: &Location<'_>, errors: &mut Errors) {
    let is = |field: &str| pod.get(field) == Some(&Value::Bool(true));
    if is("hostPID") && is("shareProcessNamespace") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        let path = format!("{}.shareProcessNamespace", pod.at("securityContext"));
        errors.push(FieldError::invalid(path, json!(true), detail));
    }
    if pod.get("hostUsers") == Some(&Value::Bool(false)) {
        for field in ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|field| is(field)) {
            errors.push(FieldError::forbidden(pod.at(field), "when `hostUsers` is false"));
        }
    }
}
