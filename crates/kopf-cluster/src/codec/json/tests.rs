//! The tests of `json.rs`.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Recorded from a real server.
#[test]
fn syntax_errors_match_the_server() {
    for (text, expected) in [
        ("", "unexpected end of JSON input"),
        ("  ", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        (r#"{"a": {"b": 1}"#, "unexpected end of JSON input"),
        ("{}}", "invalid character '}' after top-level value"),
        ("{}{}", "invalid character '{' after top-level value"),
        ("{}x", "invalid character 'x' after top-level value"),
        ("{\"a\":\"\0\"}", "invalid character '\\x00' in string literal"),
        (r#"{"a":"\x41"}"#, "invalid character 'x' in string escape code"),
        ("{'a':1}", "invalid character '\\'' looking for beginning of object key string"),
        (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string"),
        (r#"{"a":NaN}"#, "invalid character 'N' looking for beginning of value"),
        ("\u{feff}{}", "invalid character 'ï' looking for beginning of value"),
        ("garbage", "invalid character 'g' looking for beginning of value"),
        (&"[".repeat(20_000), "invalid character '[' exceeded max depth"),
        (&"{\"a\":".repeat(20_000), "invalid character '{' exceeded max depth"),
        // By the library's own words for the rest of its states.
        (r#"{"a" 1}"#, "invalid character '1' after object key"),
        (r#"{"a":1 "b"}"#, "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ("1ex", "invalid character 'x' in exponent of numeric literal"),
        ("01", "invalid character '1' after top-level value"),
        ("trux", "invalid character 'x' in literal true (expecting 'e')"),
        (r#""\u12x4""#, "invalid character 'x' in \\u hexadecimal character escape"),
    ] {
        assert_eq!(parse(text.as_bytes()), Err(expected.to_owned()), "{text:.40}");
    }
}

#[test]
fn what_is_not_unicode_is_replaced() {
    for (bytes, expected) in [
        (&b"{\"a\":\"\xff\"}"[..], json!({"a": "\u{fffd}"})),
        (br#""\ud800""#, json!("\u{fffd}")),
        (br#""\ud800\ud83d\ude00\udc00\\ud800""#, json!("\u{fffd}\u{1f600}\u{fffd}\\ud800")),
    ] {
        assert_eq!(parse(bytes), Ok(expected), "{}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn the_start_of_a_body_is_shown() {
    assert_eq!(summary(b""), "<empty>");
    assert_eq!(summary(b"{"), "{");
    assert_eq!(summary(b"  "), "2020");
    assert_eq!(summary(&[b'{'; 31]), format!("{} ...", "{".repeat(30)));
}

proptest! {
    /// The scanner and serde agree on what is well-formed.
    #[test]
    fn nothing_is_refused_without_a_reason(text in "[\\[\\]{}\",:0-9.eE+\\-truefalsn\\\\ u]{0,24}") {
        let scanned = Scanner { bytes: text.as_bytes(), position: 0 }.document();
        let read = serde_json::from_str::<Value>(&text);
        match &read {
            Ok(_) => prop_assert!(scanned.is_ok(), "{:?} {:?}", text, scanned),
            Err(error) => {
                let out_of_range = error.to_string().contains("out of range") || text.contains("\\u");
                prop_assert!(scanned.is_err() || out_of_range, "{:?} {}", text, error);
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = parse(&bytes);
        let _ = summary(&bytes);
    }
}
