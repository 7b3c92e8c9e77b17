//! Certificate signing requests. No signer runs here, so signatures are not verified.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::evaluate::Errors;
use super::{Location, Rule, Rules, ValueCheck};
use crate::go::FieldError;
use crate::values::names;
use Rule::{Code, Each, Required, Within};

pub(super) const SIGNING_REQUEST: Rules = &[
    Within("spec", &[Code(request), Required("usages"), Code(usages), Code(signer), Code(expiration)]),
    Within("status", &[Each("conditions", &[Code(condition)]), Code(decisions)]),
    Code(kept_conditions),
];

const REQUEST: &str = "CERTIFICATE REQUEST";
const MIN_SECONDS: i64 = 600;

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

fn request(spec: &Location<'_>, errors: &mut Errors) {
    let bytes = STANDARD.decode(spec.text("request")).unwrap_or_default();
    let problem = match first_block(&String::from_utf8_lossy(&bytes)) {
        Some((label, content)) if label == REQUEST => der_problem(&content),
        _ => Some("PEM block type must be CERTIFICATE REQUEST"),
    };
    if let Some(problem) = problem {
        let shown = spec.get("request").cloned().unwrap_or_default();
        errors.push(FieldError::invalid(spec.at("request"), shown, problem));
    }
}

/// The first block of PEM that can be read: its label and its content.
fn first_block(text: &str) -> Option<(String, Vec<u8>)> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("-----BEGIN ") {
        rest = after;
        let (label, body) = after.split_once("-----")?;
        let end = format!("-----END {label}-----");
        let Some((body, _)) = body.split_once(&end) else { continue };
        // Headers stand in front of an empty line.
        let body = body.rsplit_once("\n\n").map_or(body, |(_, body)| body);
        let digits: String = body.chars().filter(|character| !character.is_whitespace()).collect();
        if let Ok(content) = STANDARD.decode(digits) {
            return Some((label.to_owned(), content));
        }
    }
    None
}

/// The errors in the structure of a request: the subject, the algorithm, the signature.
fn der_problem(bytes: &[u8]) -> Option<&'static str> {
    const SEQUENCE: u8 = 0x30;
    const BITS: u8 = 0x03;
    const CUT: &str = "asn1: syntax error: data truncated";
    let Some((SEQUENCE, mut inner, rest)) = element(bytes) else { return Some(CUT) };
    if !rest.is_empty() {
        return Some("asn1: syntax error: trailing data");
    }
    for tag in [SEQUENCE, SEQUENCE, BITS] {
        match element(inner) {
            None => return Some(CUT),
            Some((found, _, rest)) if found == tag => inner = rest,
            Some(_) => return Some("asn1: structure error: tags don't match"),
        }
    }
    None
}

/// The first element: its tag, its content, and what follows.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, bytes) = bytes.split_first()?;
    let (first, bytes) = bytes.split_first()?;
    let (length, bytes) = match first {
        0..0x80 => (usize::from(*first), bytes),
        _ => {
            let (digits, bytes) = bytes.split_at_checked(usize::from(first & 0x7f))?;
            if digits.is_empty() || digits.len() > 4 {
                return None;
            }
            (digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit)), bytes)
        }
    };
    let (content, rest) = bytes.split_at_checked(length)?;
    Some((*tag, content, rest))
}

fn usages(spec: &Location<'_>, errors: &mut Errors) {
    let list = spec.list("usages");
    let path = |index: usize| format!("{}[{index}]", spec.at("usages"));
    for (index, usage) in list.iter().enumerate() {
        if !usage.as_str().is_some_and(|usage| USAGES.contains(&usage)) {
            errors.push(FieldError::not_supported(path(index), usage.clone(), &USAGES.map(str::to_owned)));
        }
    }
    for (index, usage) in list.iter().enumerate() {
        if list.iter().take(index).any(|earlier| earlier == usage) {
            errors.push(FieldError::duplicate(path(index), usage.clone()));
        }
    }
}

fn signer(spec: &Location<'_>, errors: &mut Errors) {
    let name = spec.text("signerName");
    let field = spec.at("signerName");
    let mut refuse =
        |value: &str, detail: String| errors.push(FieldError::invalid(field.clone(), json!(value), detail));
    if name == "kubernetes.io/legacy-unknown" {
        return refuse(name, "the legacy signerName is not allowed via this API version".to_owned());
    }
    if name.is_empty() {
        errors.push(FieldError::required(field, ""));
        return;
    }
    let Some((domain, path)) = name.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        let form = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return refuse(name, form.to_owned());
    };
    let wrong_label = domain.split('.').find_map(|label| {
        let problems = names::check_label(label);
        (!problems.is_empty()).then_some((label, problems))
    });
    for problem in wrong_label.iter().flat_map(|(_, problems)| problems) {
        let label = wrong_label.as_ref().map(|(label, _)| *label).unwrap_or_default();
        refuse(domain, format!("validating label \"{label}\": {problem}"));
    }
    if !domain.contains('.') {
        refuse(domain, "should be a domain with at least two segments separated by dots".to_owned());
    }
    for label in path.split('.') {
        let problems = names::check_subdomain(label);
        if !problems.is_empty() {
            for problem in problems {
                refuse(path, format!("validating label \"{label}\": {problem}"));
            }
            break;
        }
    }
}

fn expiration(spec: &Location<'_>, errors: &mut Errors) {
    if spec.number("expirationSeconds").is_some_and(|seconds| seconds < MIN_SECONDS) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(spec.invalid("expirationSeconds", detail));
    }
}

fn condition(condition: &Location<'_>, errors: &mut Errors) {
    const DECISIONS: [&str; 3] = ["Approved", "Denied", "Failed"];
    let kind = condition.text("type");
    let status: ValueCheck = match DECISIONS.contains(&kind) {
        true => ValueCheck::OneOf(&["True"]),
        false => ValueCheck::OneOf(&["False", "True", "Unknown"]),
    };
    condition.check(&[Required("type"), Required("status")], errors);
    if let Some(value) = condition.get("status").filter(|status| *status != "") {
        super::value_checks::test(status, &condition.at("status"), value, errors);
    }
    if condition.earlier().iter().any(|other| other["type"] == kind) {
        errors.push(FieldError::duplicate(condition.at("type"), json!(kind)));
    }
}

fn decisions(status: &Location<'_>, errors: &mut Errors) {
    let decided: Vec<&Value> = status
        .list("conditions")
        .iter()
        .map(|condition| &condition["type"])
        .filter(|kind| *kind == "Approved" || *kind == "Denied")
        .collect();
    if let [first, .., last] = decided[..]
        && first != last
    {
        let detail = "Approved and Denied conditions are mutually exclusive";
        errors.push(FieldError::invalid(status.at("conditions"), last.clone(), detail));
    }
}

/// Decided conditions are immutable.
fn kept_conditions(request: &Location<'_>, errors: &mut Errors) {
    let has = |object: &Value, kind: &str| {
        let conditions = object["status"]["conditions"].as_array();
        conditions.is_some_and(|list| list.iter().any(|condition| condition["type"] == kind))
    };
    let Some(old) = request.old else { return };
    for kind in ["Approved", "Denied", "Failed"] {
        if has(old, kind) && !has(request.value, kind) {
            let detail = format!("updates may not remove a condition of type \"{kind}\"");
            errors.push(FieldError::forbidden("status.conditions", detail));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::rules::evaluate::run;

    fn pem(label: &str, content: &[u8]) -> String {
        STANDARD.encode(format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(content)))
    }

    fn errors_of(spec: Value) -> String {
        let object = json!({"spec": spec});
        run(SIGNING_REQUEST, &object, None).iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn requests() {
        // A sequence of two empty sequences and an empty text of bits.
        let content = [0x30, 0x06, 0x30, 0x00, 0x30, 0x00, 0x03, 0x00];
        let good = pem(REQUEST, &content);
        let spec = |request: &str| json!({"request": request, "usages": ["any"], "signerName": "a.b/c"});
        assert_eq!(errors_of(spec(&good)), "");
        for (request, problem) in [
            ("", "PEM block type must be CERTIFICATE REQUEST"),
            (pem("CERTIFICATE", &content).as_str(), "PEM block type must be CERTIFICATE REQUEST"),
            (pem(REQUEST, &content[..5]).as_str(), "asn1: syntax error: data truncated"),
            (pem(REQUEST, &[0x30, 0x02, 0x02, 0x00]).as_str(), "asn1: structure error: tags don't match"),
        ] {
            assert_eq!(errors_of(spec(request)), format!("spec.request: Invalid value: \"{request}\": {problem}"));
        }
    }

    #[test]
    fn usages_and_signers() {
        let good = pem(REQUEST, &[0x30, 0x06, 0x30, 0x00, 0x30, 0x00, 0x03, 0x00]);
        for (usages, signer, expected) in [
            (json!([]), "a.b/c", "spec.usages: Required value"),
            (json!(["any", "any"]), "a.b/c", "spec.usages[1]: Duplicate value: \"any\""),
            (json!(["any"]), "", "spec.signerName: Required value"),
            (
                json!(["any"]),
                "a.b",
                "spec.signerName: Invalid value: \"a.b\": must be a fully qualified domain and path of the form \
                 'example.com/signer-name'",
            ),
            (
                json!(["any"]),
                "a/b",
                "spec.signerName: Invalid value: \"a\": should be a domain with at least two segments separated by dots",
            ),
        ] {
            assert_eq!(errors_of(json!({"request": good, "usages": usages, "signerName": signer})), expected);
        }
    }
}
