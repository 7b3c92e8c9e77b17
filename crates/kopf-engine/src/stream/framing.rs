//! 2. Cuts the bytes of lists and watches into objects, without building trees or decoding anything twice.
//!
//! Pure functions; only the stream calls them.

use bytes::{Bytes, BytesMut};
use kopf_object::text::{Unsupported, members};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The longest line of a watch: no object is nearly as large, so that more is an endless line.
const LONGEST_LINE: usize = 64 * 1024 * 1024;

/// Cuts a stream of bytes into its lines.
#[derive(Debug, Default)]
pub(super) struct LineSplitter {
    /// What has come after the latest line end.
    rest: BytesMut,
    /// How much of the rest is known to have no line end.
    searched: usize,
}

/// The line is longer than anything sensible.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LineTooLong;

impl LineSplitter {
    /// Takes the next bytes, whose lines are then given by [`next_line`](Self::next_line).
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), LineTooLong> {
        self.rest.extend_from_slice(bytes);
        if self.rest.len() > LONGEST_LINE && memchr::memchr(b'\n', &self.rest).is_none() {
            Err(LineTooLong)
        } else {
            Ok(())
        }
    }

    /// The next whole line, without its end; empty lines are skipped.
    pub(super) fn next_line(&mut self) -> Option<BytesMut> {
        loop {
            let Some(found) = memchr::memchr(b'\n', &self.rest[self.searched..]) else {
                self.searched = self.rest.len();
                return None;
            };
            let mut line = self.rest.split_to(self.searched + found + 1);
            self.searched = 0;
            line.truncate(line.len() - 1);
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Some(line);
            }
        }
    }
}

/// One line of a watch: what has happened, and the object as it came.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WatchLine<'a> {
    pub kind: &'a str,
    /// Checked when it is decoded.
    pub object: &'a [u8],
}

/// Decodes the envelope of a line.
pub(super) fn decode_line(line: &[u8]) -> Result<WatchLine<'_>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    if let Some(line) = open_usual_envelope(line) {
        return Ok(line);
    }
    let envelope: Envelope<'_> = serde_json::from_slice(line)?;
    Ok(WatchLine { kind: envelope.kind, object: envelope.object.get().as_bytes() })
}

/// API servers write the type, then the object, and nothing else; so the object needs not be walked to find its end.
fn open_usual_envelope(line: &[u8]) -> Option<WatchLine<'_>> {
    let rest = line.strip_prefix(b"{\"type\":\"")?;
    let (kind, rest) = rest.split_at(memchr::memchr(b'"', rest)?);
    let object = rest.strip_prefix(b"\",\"object\":")?.strip_suffix(b"}")?;
    let is_object = object.starts_with(b"{") && object.ends_with(b"}");
    let kind = str::from_utf8(kind).ok().filter(|kind| !kind.contains('\\'))?;
    is_object.then_some(WatchLine { kind, object })
}

/// The version of an object, to go on from; the rest of it is skipped.
pub(super) fn resource_version(object: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: String,
    }
    serde_json::from_slice::<Object>(object).ok().map(|object| object.metadata.resource_version)
}

/// Whether a bookmark says that all initial events of a watch were sent before it. Other bookmarks may come earlier.
pub(super) fn ends_initial_events(bookmark: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        annotations: Annotations,
    }
    #[derive(Deserialize)]
    struct Annotations {
        #[serde(rename = "k8s.io/initial-events-end")]
        end: String,
    }
    serde_json::from_slice::<Object>(bookmark).is_ok_and(|object| object.metadata.annotations.end == "true")
}

/// One page of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// The objects, each with its `apiVersion` and `kind`, each in its own memory.
    pub objects: Vec<Bytes>,
    /// The version of the whole list.
    pub resource_version: String,
    /// Where the next page begins; None after the last one.
    pub continue_token: Option<String>,
}

/// Cuts a page into objects, and gives them what the API leaves out in lists.
pub(super) fn split_page(page: &[u8]) -> Result<Page, serde_json::Error> {
    match Pieces::cut(page) {
        Ok(pieces) => Ok(pieces.assemble()),
        // A full parser has no doubts, or tells them.
        Err(Unsupported) => Ok(serde_json::from_slice::<Pieces<'_>>(page)?.assemble()),
    }
}

/// The pieces of a page, as they are in its text.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pieces<'a> {
    #[serde(default)]
    api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(borrow, default, deserialize_with = "raw_items")]
    items: Vec<&'a [u8]>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ListMetadata {
    resource_version: String,
    #[serde(rename = "continue")]
    continue_token: Option<String>,
}

impl<'a> Pieces<'a> {
    /// Without looking into the objects: they are checked when they are parsed, if ever.
    fn cut(page: &'a [u8]) -> Result<Self, Unsupported> {
        let mut pieces = Self::default();
        let mut page = members(page);
        while let Some(name) = page.next_name() {
            match name? {
                "apiVersion" => pieces.api_version = parse(page.value()?)?,
                "kind" => pieces.kind = parse(page.value()?)?,
                "metadata" => pieces.metadata = parse(page.value()?)?,
                "items" if page.peek() == Some(b'[') => {
                    let mut items = page.enter_elements();
                    pieces.items = items.by_ref().collect::<Result<_, Unsupported>>()?;
                    page.leave(items.end()?);
                }
                "items" => return Err(Unsupported),
                _ => drop(page.value()?),
            }
        }
        Ok(pieces)
    }

    fn assemble(self) -> Page {
        let kind = self.kind.as_deref().map(|kind| kind.strip_suffix("List").unwrap_or(kind));
        let identity = Identity::new(self.api_version.as_deref(), kind);
        Page {
            objects: self.items.into_iter().map(|item| identity.give_to(item)).collect(),
            resource_version: self.metadata.resource_version,
            continue_token: self.metadata.continue_token.filter(|token| !token.is_empty()),
        }
    }
}

fn parse<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, Unsupported> {
    serde_json::from_slice(json).map_err(|_| Unsupported)
}

fn raw_items<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<&'de [u8]>, D::Error> {
    let items = Option::<Vec<&'de RawValue>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(items.into_iter().map(|item| item.get().as_bytes()).collect())
}

/// The members that items of a list may lack, as JSON text with a comma behind.
struct Identity {
    api_version: String,
    kind: String,
}

impl Identity {
    fn new(api_version: Option<&str>, kind: Option<&str>) -> Self {
        let member = |name: &str, value: Option<&str>| {
            value.map_or_else(String::new, |value| format!("\"{name}\":{},", serde_json::Value::from(value)))
        };
        Self { api_version: member("apiVersion", api_version), kind: member("kind", kind) }
    }

    fn give_to(&self, item: &[u8]) -> Bytes {
        // The items of one list come from one encoder: with the one member first, they have both.
        if item.starts_with(b"{\"apiVersion\":") {
            return Bytes::copy_from_slice(item);
        }
        let (mut has_api_version, mut has_kind) = (false, false);
        for member in members(item) {
            // What cannot be read here, is not improved.
            let Ok((name, value)) = member else { return Bytes::copy_from_slice(item) };
            has_api_version |= name == "apiVersion" && value != b"null";
            has_kind |= name == "kind" && value != b"null";
        }
        let Some(rest) = item.strip_prefix(b"{") else { return Bytes::copy_from_slice(item) };
        let mut object = Vec::with_capacity(item.len() + self.api_version.len() + self.kind.len());
        object.push(b'{');
        if !has_api_version {
            object.extend_from_slice(self.api_version.as_bytes());
        }
        if !has_kind {
            object.extend_from_slice(self.kind.as_bytes());
        }
        if rest.trim_ascii_start().starts_with(b"}") && object.ends_with(b",") {
            object.pop();
        }
        object.extend_from_slice(rest);
        Bytes::from(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&str]) -> Vec<String> {
        let mut splitter = LineSplitter::default();
        let mut lines = Vec::new();
        for chunk in chunks {
            splitter.push(chunk.as_bytes()).unwrap();
            while let Some(line) = splitter.next_line() {
                lines.push(String::from_utf8(line.to_vec()).unwrap());
            }
        }
        lines
    }

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        let cases: &[(&[&str], &[&str])] = &[
            (&[], &[]),
            (&["a\nb\n"], &["a", "b"]),
            (&["a", "b\nc", "\n"], &["ab", "c"]),
            (&["a\r\n\n  \nb\nunfinished"], &["a\r", "b"]),
            (&["", "\n", "x", "", "\n"], &["x"]),
        ];
        for (chunks, expected) in cases {
            assert_eq!(lines(chunks), *expected, "{chunks:?}");
        }
        let text = "{\"a\":1}\n{\"b\":2}\n";
        for cut in 0..text.len() {
            assert_eq!(lines(&[&text[..cut], &text[cut..]]), ["{\"a\":1}", "{\"b\":2}"], "{cut}");
        }
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut splitter = LineSplitter::default();
        let megabyte = vec![b'x'; 1024 * 1024];
        let pushed = (0..65).map(|_| splitter.push(&megabyte)).find(Result::is_err);
        assert_eq!(pushed, Some(Err(LineTooLong)));
    }

    #[test]
    fn envelopes() {
        let line = decode_line(br#"{"type":"ADDED","object":{"kind":"X", "metadata":{}}}"#).unwrap();
        assert_eq!(line, WatchLine { kind: "ADDED", object: br#"{"kind":"X", "metadata":{}}"# });
        // Any other valid JSON of the same meaning.
        for unusual in [
            r#"{"type": "ADDED", "object": {"a": 1}}"#,
            r#"{"object":{"a": 1},"type":"ADDED"}"#,
            r#" {"type":"ADDED","object":{"a": 1} } "#,
        ] {
            assert_eq!(decode_line(unusual.as_bytes()).unwrap(), WatchLine { kind: "ADDED", object: br#"{"a": 1}"# });
        }
        assert!(decode_line(br#"{"type":"ADDED"}"#).is_err());
    }

    #[test]
    fn versions() {
        assert_eq!(resource_version(br#"{"a":[1],"metadata":{"name":"n","resourceVersion":"12"}}"#), Some("12".into()));
        assert_eq!(resource_version(br#"{"metadata":{}}"#), None);
        assert_eq!(resource_version(b"nonsense"), None);
    }

    #[test]
    fn pages_give_objects_their_identity() {
        // The item in the list, and the object that comes out.
        let cases = [
            (r#"{"metadata":{"name":"a"}}"#, r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#),
            (r#"{}"#, r#"{"apiVersion":"v1","kind":"Pod"}"#),
            (r#"{ }"#, r#"{"apiVersion":"v1","kind":"Pod" }"#),
            (r#"{"kind":"Own"}"#, r#"{"apiVersion":"v1","kind":"Own"}"#),
            (r#"{"apiVersion":"own/v1","kind":"Own"}"#, r#"{"apiVersion":"own/v1","kind":"Own"}"#),
            (r#"{"x":{"kind":"Inner"}}"#, r#"{"apiVersion":"v1","kind":"Pod","x":{"kind":"Inner"}}"#),
        ];
        for (item, expected) in cases {
            let list = format!(
                r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"7","continue":"next"}},"items":[{item}]}}"#
            );
            let page = split_page(list.as_bytes()).unwrap();
            assert_eq!(page.objects, [expected], "{item}");
            assert_eq!((page.resource_version.as_str(), page.continue_token.as_deref()), ("7", Some("next")));
            serde_json::from_slice::<serde_json::Value>(&page.objects[0]).expect("valid JSON");
        }
    }

    #[test]
    fn pages_without_items() {
        let empty = |json: &str| {
            let page = split_page(json.as_bytes()).unwrap();
            (page.objects.len(), page.resource_version, page.continue_token)
        };
        assert_eq!(empty(r#"{"metadata":{"resourceVersion":"1","continue":""},"items":null}"#), (0, "1".into(), None));
        assert_eq!(empty("{}"), (0, String::new(), None));
        assert!(split_page(b"<html>").is_err());
    }
}
