//! The query parameters of a request, and the options that verbs read from them.
//!
//! `http/service.rs` parses them once per request; the verbs reject what the server rejects.

use std::num::{IntErrorKind, ParseIntError};

use serde_json::json;

use super::status::StatusError;
use crate::go::FieldError;
use crate::values::selector::{FieldSelector, LabelSelector};

/// The parameters of a request, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        // The server drops malformed parameters.
        let pairs = text.split('&').filter(|pair| !pair.contains(';') && is_well_encoded(pair));
        Self { pairs: pairs.flat_map(|pair| form_urlencoded::parse(pair.as_bytes()).into_owned()).collect() }
    }

    /// The first value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The first non-empty value of a parameter.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.pairs.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
    }

    /// A flag is set unless its value is false.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !value.eq_ignore_ascii_case("false") && value != "0")
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, StatusError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let refuse =
            |error| StatusError::bad_request(format!("strconv.ParseInt: parsing {text:?}: {}", go_error(&error)));
        text.parse().map(Some).map_err(refuse)
    }
}

/// Whether every percent sign is followed by two hexadecimal digits.
fn is_well_encoded(pair: &str) -> bool {
    let digits = |part: &[u8]| part.len() >= 2 && part[..2].iter().all(u8::is_ascii_hexdigit);
    pair.as_bytes().split(|byte| *byte == b'%').skip(1).all(digits)
}

/// Why a number is malformed, in the words of the server.
fn go_error(error: &ParseIntError) -> &'static str {
    match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    }
}

/// Which objects of a resource a request selects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selectors {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
}

impl Selectors {
    pub(crate) fn parse(query: &Query) -> Result<Self, StatusError> {
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default());
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default());
        Ok(Self {
            labels: labels.map_err(|error| StatusError::bad_request(error.to_string()))?,
            fields: fields.map_err(|error| StatusError::bad_request(error.to_string()))?,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}

/// How to interpret the `resourceVersion` of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    /// Any state that is not older.
    NotOlderThan,
    /// Exactly that state.
    Exact,
}

/// The options of lists and watches.
#[derive(Clone, Debug)]
pub(crate) struct ListOptions {
    pub selectors: Selectors,
    /// None if the parameter is missing or empty.
    pub version: Option<u64>,
    pub version_match: Option<VersionMatch>,
    /// How many objects at most; None for all.
    pub limit: Option<usize>,
    pub continue_token: Option<String>,
    pub timeout_seconds: Option<u64>,
    pub bookmarks: bool,
    pub send_initial_events: Option<bool>,
}

/// The `resourceVersion` of a request for a single object.
pub(crate) fn version_of(query: &Query) -> Result<Option<u64>, StatusError> {
    let version =
        query.text("resourceVersion").map(|text| text.parse().map_err(|error| invalid_version(text, &error, true)));
    version.transpose()
}

impl ListOptions {
    pub(crate) fn parse(query: &Query, watching: bool) -> Result<Self, StatusError> {
        let version_text = query.text("resourceVersion");
        let mut match_text = query.text("resourceVersionMatch");
        let mut send_initial_events = query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents"));
        // A watch without a version is the older way to ask for initial events.
        let from_anywhere = watching && version_text.is_none_or(|version| version == "0");
        if from_anywhere && send_initial_events.is_none() && match_text.is_none() {
            (send_initial_events, match_text) = (Some(true), Some("NotOlderThan"));
        }
        let limit = query.number("limit")?;
        let timeout_seconds = query.number("timeoutSeconds")?;
        check_list(watching, version_text, match_text, query.text("continue"), send_initial_events)?;
        let selectors = Selectors::parse(query)?;
        let version =
            version_text.map(|text| text.parse::<u64>().map_err(|error| invalid_version(text, &error, watching)));
        Ok(Self {
            selectors,
            version: version.transpose()?,
            version_match: match match_text {
                Some("Exact") => Some(VersionMatch::Exact),
                Some(_) => Some(VersionMatch::NotOlderThan),
                None => None,
            },
            limit: limit.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0),
            continue_token: query.text("continue").map(str::to_owned),
            timeout_seconds: timeout_seconds.and_then(|seconds| u64::try_from(seconds).ok()).filter(|value| *value > 0),
            bookmarks: query.flag("allowWatchBookmarks"),
            send_initial_events,
        })
    }
}

/// Only lists report this as a client error.
fn invalid_version(text: &str, error: &ParseIntError, is_internal: bool) -> StatusError {
    let why = go_error(error);
    let why = format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: {why}");
    match is_internal {
        true => StatusError::bare(why),
        false => StatusError::bad_request(format!("invalid resource version: {why}")),
    }
}

/// Checks which options exclude each other.
fn check_list(
    watching: bool,
    version: Option<&str>,
    version_match: Option<&str>,
    continue_token: Option<&str>,
    send_initial_events: Option<bool>,
) -> Result<(), StatusError> {
    let field = "resourceVersionMatch";
    let mut errors = Vec::new();
    if watching {
        if send_initial_events.is_some() && version_match != Some("NotOlderThan") {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(field, detail));
        }
        if version_match.is_some() && send_initial_events.is_none() {
            let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(field, detail));
        }
        if let Some(other) = version_match.filter(|other| *other != "NotOlderThan") {
            errors.push(FieldError::not_supported(field, json!(other), &["NotOlderThan".to_owned()]));
        }
    } else if version_match.is_some() && version.is_none() {
        let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
        errors.push(FieldError::forbidden(field, detail));
    }
    if version_match.is_some() && continue_token.is_some() {
        let detail = "resourceVersionMatch is forbidden when continue is provided";
        errors.push(FieldError::forbidden(field, detail));
    }
    if let (false, Some(version_match)) = (watching, version_match) {
        if !matches!(version_match, "Exact" | "NotOlderThan") {
            let supported = ["Exact", "NotOlderThan", ""].map(str::to_owned);
            errors.push(FieldError::not_supported(field, json!(version_match), &supported));
        }
        if version_match == "Exact" && version == Some("0") {
            let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(field, detail));
        }
    }
    if !watching && send_initial_events.is_some() {
        errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(StatusError::invalid_options("ListOptions", &errors)),
    }
}

/// What the server does about unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// It drops them silently.
    Ignore,
    /// It drops them with a warning.
    #[default]
    Warn,
    /// It rejects the request.
    Strict,
}

/// The options of writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteOptions {
    /// Whether the server does everything but the write.
    pub dry_run: bool,
    pub field_validation: FieldValidation,
    /// The field manager; taken from the user agent if the client does not name one.
    pub field_manager: Option<String>,
    /// Whether apply takes over fields of other managers.
    pub force: bool,
}

impl WriteOptions {
    /// `kind` is the kind of the options in messages: `CreateOptions`, `PatchOptions`, …
    pub(crate) fn parse(query: &Query, kind: &str) -> Result<Self, StatusError> {
        let dry_run = check_dry_run(&query.all("dryRun"), kind)?;
        let field_validation = match query.text("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let supported: Vec<String> = ["", "Ignore", "Strict", "Warn"].map(str::to_owned).to_vec();
                let error = FieldError::not_supported("fieldValidation", json!(other), &supported);
                return Err(StatusError::invalid_options(kind, &[error]));
            }
        };
        let field_manager = query.text("fieldManager").map(str::to_owned);
        if let Some((position, character)) = field_manager
            .iter()
            .flat_map(|manager| manager.char_indices())
            .find(|(_, character)| character.is_control())
        {
            let detail = format!("invalid character U+{:04X} (at position {position})", u32::from(character));
            let error = FieldError::invalid("fieldManager", json!(field_manager), &detail);
            return Err(StatusError::invalid_options(kind, &[error]));
        }
        if field_manager.as_ref().is_some_and(|manager| manager.len() > 128) {
            return Err(StatusError::invalid_options(kind, &[FieldError::too_long("fieldManager", 128)]));
        }
        Ok(Self { dry_run, field_validation, field_manager, force: query.flag("force") })
    }
}

/// Whether the values of `dryRun` ask for a dry run; all of them must be known.
pub(crate) fn check_dry_run(values: &[&str], kind: &str) -> Result<bool, StatusError> {
    match values.iter().any(|value| *value != "All") {
        true => {
            let error = FieldError::not_supported("dryRun", json!(values), &["All".to_owned()]);
            Err(StatusError::invalid_options(kind, &[error]))
        }
        false => Ok(!values.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_lists() {
        let check = |query: &str, watching: bool, expected: Result<(), &str>| {
            let parsed = ListOptions::parse(&Query::parse(query), watching);
            assert_eq!(
                parsed.map(|_| ()).map_err(|status_error| status_error.message),
                expected.map_err(str::to_owned),
                "{query}"
            );
        };
        check("limit=5&resourceVersion=7", false, Ok(()));
        check("limit=abc", false, Err("strconv.ParseInt: parsing \"abc\": invalid syntax"));
        check(
            "resourceVersion=abc",
            false,
            Err("invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \
                 \"abc\": invalid syntax"),
        );
        check(
            "resourceVersionMatch=Exact",
            false,
            Err("ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is \
                 forbidden unless resourceVersion is provided"),
        );
        check(
            "resourceVersion=1&resourceVersionMatch=Foo",
            false,
            Err(
                "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Unsupported value: \"Foo\": supported \
                 values: \"Exact\", \"NotOlderThan\", \"\"",
            ),
        );
        check(
            "sendInitialEvents=true",
            true,
            Err(
                "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires \
                 setting resourceVersionMatch to NotOlderThan",
            ),
        );
        check(
            "sendInitialEvents=true&resourceVersionMatch=Exact",
            true,
            Err("ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: sendInitialEvents \
                 requires setting resourceVersionMatch to NotOlderThan, resourceVersionMatch: Unsupported value: \
                 \"Exact\": supported values: \"NotOlderThan\"]"),
        );
        check(
            "continue=abc",
            true,
            Err("ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is \
                 forbidden when continue is provided"),
        );
        check("limit=", false, Err("strconv.ParseInt: parsing \"\": invalid syntax"));
    }

    #[test]
    fn flags() {
        for (text, expected) in
            [("watch=1", true), ("watch", true), ("watch=0", false), ("watch=False", false), ("", false)]
        {
            assert_eq!(Query::parse(text).flag("watch"), expected, "{text}");
        }
    }
}
