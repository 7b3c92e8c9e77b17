//! The names of annotations in which the state of handlers is stored.
//!
//! The storages use the keys of a handler id to read, write or purge its record. There are
//! two schemes of shortening long ids, and both are kept for switching between versions: v2
//! limits the name after the slash to 63 characters, as Kubernetes does; v1 limited the whole
//! key. Lengths count characters, as Python does, not bytes.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet::Alphabet;
use base64::engine::{GeneralPurpose, general_purpose};
use blake2::digest::consts::U4;
use blake2::{Blake2b, Digest};
use serde_json::Value;

use crate::identity::metadata_field;

/// What kubectl keeps on objects for itself; it repeats the rest of the object.
pub const KUBECTL_LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The longest name of an annotation, not counting its prefix.
const MAX_NAME_LENGTH: usize = 63;

/// The name that marks all annotations of a prefix as those of a Kopf-based operator.
const MANAGED_MARKER: &str = "kopf-managed";

/// The prefix that needs no marker, nor do its subdomains.
const KNOWN_PREFIX: &str = "kopf.zalando.org";

/// All annotations for one handler id, the one to prefer first.
///
/// The `body` decides about the collision-evading variation of the id, see [`mark_key`]. With `v1`,
/// the key of the old scheme follows where it differs.
///
/// ```
/// let keys = kopf_object::keys::keys("kopf.zalando.org", "create/sub", true, None);
/// assert_eq!(keys, ["kopf.zalando.org/create.sub"]);
/// ```
pub fn keys(prefix: &str, key: &str, v1: bool, body: Option<&Value>) -> Vec<String> {
    let key = match body {
        Some(body) => mark_key(key, body),
        None => Cow::Borrowed(key),
    };
    let mut keys = vec![v2_key(prefix, &key)];
    // A key that is short enough for the old scheme is shortened in neither.
    let is_short = prefix.len() + "/".len() + key.len() <= MAX_NAME_LENGTH;
    if v1 && !is_short {
        let v1_key = v1_key(prefix, &key);
        if !keys.contains(&v1_key) {
            keys.push(v1_key);
        }
    }
    keys
}

/// Adds a mark for ReplicaSets of Deployments, since Kubernetes copies the annotations of
/// a Deployment to its ReplicaSets and would overwrite their state.
pub fn mark_key<'a>(key: &'a str, body: &Value) -> Cow<'a, str> {
    let is_replica_set = || body.get("kind").is_some_and(|kind| kind == "ReplicaSet");
    let owners = || metadata_field(body, "ownerReferences").and_then(Value::as_array).into_iter().flatten();
    let is_of_deployment = |owner: &Value| owner.get("kind").is_some_and(|kind| kind == "Deployment");
    if is_replica_set() && owners().any(is_of_deployment) {
        Cow::Owned(format!("{key}-ofDRS"))
    } else {
        Cow::Borrowed(key)
    }
}

/// The key in the current scheme: at most 63 characters after the prefix.
pub fn v2_key(prefix: &str, key: &str) -> String {
    if key.len() <= MAX_NAME_LENGTH {
        let mut whole = String::with_capacity(prefix.len() + "/".len() + key.len());
        whole.push_str(prefix);
        if !prefix.is_empty() {
            whole.push('/');
        }
        whole.extend(key.chars().map(safe_character));
        return whole;
    }
    let suffix = if character_count(key) > MAX_NAME_LENGTH { make_suffix(key) } else { String::new() };
    let limit = MAX_NAME_LENGTH.saturating_sub(suffix.len());
    let name: String = make_safe_key(key).chars().take(limit).collect();
    format!("{}{name}{suffix}", with_slash(prefix))
}

/// The key in the old scheme: at most 63 characters with the prefix included.
///
/// For prefixes that exceed the limit alone, the excess is cut off the end of the name: this
/// is how such keys have always been stored.
pub fn v1_key(prefix: &str, key: &str) -> String {
    let prefix = with_slash(prefix);
    let safe_key = make_safe_key(key);
    let length = character_count(&safe_key);
    let available = MAX_NAME_LENGTH.checked_sub(character_count(&prefix));
    let suffix = match available {
        Some(available) if length <= available => String::new(),
        _ => make_suffix(&safe_key),
    };
    let taken = character_count(&prefix) + suffix.len();
    let limit = match MAX_NAME_LENGTH.checked_sub(taken) {
        Some(limit) => limit,
        None => length.saturating_sub(taken - MAX_NAME_LENGTH),
    };
    let name: String = safe_key.chars().take(limit).collect();
    format!("{prefix}{name}{suffix}")
}

/// Replaces the characters of handler ids that Kubernetes does not allow in annotations.
pub fn make_safe_key(key: &str) -> String {
    key.chars().map(safe_character).collect()
}

fn safe_character(character: char) -> char {
    match character {
        '/' => '.',
        '<' | '>' => '_',
        other => other,
    }
}

/// The annotation by which an operator marks its own prefix, or `None` where none is needed.
pub fn marker_key(prefix: &str) -> Option<String> {
    let is_needed = !prefix.is_empty() && !prefix.starts_with("kopf.");
    is_needed.then(|| format!("{prefix}/{MANAGED_MARKER}"))
}

/// The prefixes of annotations that belong to Kopf-based operators, this one or others.
pub fn detect_marked_prefixes<'a>(annotations: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut prefixes = Vec::new();
    for (prefix, name) in annotations.filter_map(|key| key.split_once('/')) {
        let is_marked = name == MANAGED_MARKER || is_known_prefix(prefix);
        if is_marked && !prefixes.contains(&prefix) {
            prefixes.push(prefix);
        }
    }
    prefixes
}

/// Whether the annotation is one of those with the prefix.
pub fn is_under(key: &str, prefix: &str) -> bool {
    !prefix.is_empty() && key.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'))
}

fn is_known_prefix(prefix: &str) -> bool {
    prefix.strip_suffix(KNOWN_PREFIX).is_some_and(|subdomain| subdomain.is_empty() || subdomain.ends_with('.'))
}

/// A hash to tell shortened keys apart; it ends with a letter or a digit.
fn make_suffix(key: &str) -> String {
    let digest = Blake2b::<U4>::digest(key.as_bytes());
    let mut suffix = String::from("-");
    hash_encoding().encode_string(digest, &mut suffix);
    let length = suffix.trim_end_matches(['=', '-', '.']).len();
    suffix.truncate(length);
    suffix
}

/// Base64 with the two last letters allowed in names of annotations.
fn hash_encoding() -> GeneralPurpose {
    const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-.";
    const ALPHABET: Alphabet = match Alphabet::new(LETTERS) {
        Ok(alphabet) => alphabet,
        Err(_) => base64::alphabet::STANDARD,
    };
    GeneralPurpose::new(&ALPHABET, general_purpose::NO_PAD)
}

fn with_slash(prefix: &str) -> String {
    if prefix.is_empty() { String::new() } else { format!("{prefix}/") }
}

fn character_count(text: &str) -> usize {
    text.chars().count()
}
