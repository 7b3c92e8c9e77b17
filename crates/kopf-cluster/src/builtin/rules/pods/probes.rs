//! Probes and hooks of containers.

use serde_json::{Value, json};

use crate::builtin::rules::evaluate::Errors;
use crate::builtin::rules::{Location, Rule, Rules, ValueCheck, value_checks as values};
use crate::go::FieldError;
use Rule::{Code, Given, Is, Must, Required};
use ValueCheck::{Between, NonNegative, OneOf, PortOrName, Positive};

pub(crate) const LIFECYCLE: Rules = &[Rule::In("postStart", &[Code(hook)]), Rule::In("preStop", &[Code(hook)])];

pub(crate) const LIVENESS: Rules = &[Code(probe), Code(grace), Code(success_of_one)];
pub(crate) const STARTUP: Rules = LIVENESS;
pub(crate) const READINESS: Rules = &[Code(probe), Code(no_grace)];

const TIMES: Rules = &[
    Given("initialDelaySeconds", NonNegative),
    Given("timeoutSeconds", NonNegative),
    Given("periodSeconds", NonNegative),
    Given("successThreshold", NonNegative),
    Given("failureThreshold", NonNegative),
];

const EXEC: Rules = &[Required("command")];
const HTTP: Rules = &[
    Required("path"),
    Must("port", PortOrName),
    Is("scheme", OneOf(&["HTTP", "HTTPS"])),
    Rule::Each("httpHeaders", &[Code(header)]),
];
const TCP: Rules = &[Must("port", PortOrName)];
const GRPC: Rules = &[Must("port", Between(1, 65535))];

/// What can be done, and how each is checked.
const HANDLERS: [(&str, Rules); 5] =
    [("exec", EXEC), ("httpGet", HTTP), ("tcpSocket", TCP), ("grpc", GRPC), ("sleep", &[Code(sleep)])];

fn probe(probe: &Location<'_>, errors: &mut Errors) {
    handler(probe, errors);
    probe.check(TIMES, errors);
}

fn hook(hook: &Location<'_>, errors: &mut Errors) {
    handler(hook, errors);
}

/// Exactly one of them.
fn handler(place: &Location<'_>, errors: &mut Errors) {
    let mut found = 0;
    for (field, rules) in HANDLERS {
        let Some(handler) = place.enter(field) else { continue };
        found += 1;
        match found {
            1 => handler.check(rules, errors),
            _ => errors.push(FieldError::forbidden(handler.path, "may not specify more than 1 handler type")),
        }
    }
    if found == 0 {
        errors.push(FieldError::required(place.path.clone(), "must specify a handler type"));
    }
}

fn header(header: &Location<'_>, errors: &mut Errors) {
    let list = header.list_path();
    let name = header.text("name");
    for problem in values::header_name(name) {
        errors.push(FieldError::invalid(list.clone(), json!(name), problem));
    }
}

fn sleep(sleep: &Location<'_>, errors: &mut Errors) {
    let seconds = sleep.number("seconds").unwrap_or_default();
    let grace = sleep.around("terminationGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(30);
    if seconds < 0 || seconds > grace {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.push(FieldError::invalid(sleep.path.clone(), json!(seconds), detail));
    }
}

fn grace(probe: &Location<'_>, errors: &mut Errors) {
    probe.check(&[Given("terminationGracePeriodSeconds", Positive("must be greater than 0"))], errors);
}

fn no_grace(probe: &Location<'_>, errors: &mut Errors) {
    if probe.get("terminationGracePeriodSeconds").is_some() {
        errors.push(probe.invalid("terminationGracePeriodSeconds", "must not be set for readinessProbes"));
    }
}

fn success_of_one(probe: &Location<'_>, errors: &mut Errors) {
    if probe.number("successThreshold").is_some_and(|threshold| threshold != 1) {
        errors.push(probe.invalid("successThreshold", "must be 1"));
    }
}
