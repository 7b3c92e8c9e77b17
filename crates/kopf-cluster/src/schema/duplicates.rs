//! Finding fields that occur twice in one object of a raw JSON document.
//!
//! Parsers silently keep the last of them; the server warns or rejects the request, depending on its
//! `fieldValidation`. `admit/decode.rs` runs this on the raw body, since a parsed value has lost the duplicates.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};

/// The paths of fields that occur more than once, in the order of the document, each once.
/// For a malformed document, the fields found before the error.
pub(crate) fn duplicate_fields(raw: &[u8]) -> Vec<String> {
    let found = RefCell::new(Vec::new());
    let mut parser = serde_json::Deserializer::from_slice(raw);
    // The document has been parsed once already: errors were reported there.
    let _ = Scan { path: String::new(), found: &found }.deserialize(&mut parser);
    found.into_inner()
}

/// The scan of one value: it is read and forgotten, only its repeated fields are noted.
struct Scan<'a> {
    /// Where the value is.
    path: String,
    /// The repeated fields of the whole document.
    found: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for Scan<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Scan<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut seen: HashSet<String> = HashSet::new();
        while let Some(name) = fields.next_key::<String>()? {
            let path = match self.path.is_empty() {
                true => name.clone(),
                false => format!("{}.{name}", self.path),
            };
            if !seen.insert(name) {
                let mut found = self.found.borrow_mut();
                if !found.contains(&path) {
                    found.push(path.clone());
                }
            }
            fields.next_value_seed(Scan { path, found: self.found })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut position = 0;
        while let Some(()) =
            items.next_element_seed(Scan { path: format!("{}[{position}]", self.path), found: self.found })?
        {
            position += 1;
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_fields_are_found_at_any_depth() {
        for (raw, expected) in [
            (r#"{"a": 1, "b": 2}"#, vec![]),
            (r#"{"a": 1, "a": 2, "a": 3}"#, vec!["a"]),
            (r#"{"spec": {"x": 1, "x": {"y": 1, "y": 2}}}"#, vec!["spec.x", "spec.x.y"]),
            (r#"{"list": [{"k": 1}, {"k": 1, "k": 2}]}"#, vec!["list[1].k"]),
            (r#"{"a": 1, "a": 2, "#, vec!["a"]),
            ("[[[", vec![]),
        ] {
            assert_eq!(duplicate_fields(raw.as_bytes()), expected, "{raw}");
        }
    }
}
