//! YAML as the server reads it: another notation for JSON.
//!
//! Only the first document counts; of duplicate keys, the last one wins. A budget stops documents whose
//! aliases would expand without bound.

use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error, options};

/// The nesting limit, as for JSON.
const MAX_DEPTH: usize = 128;

/// How many values a document may have after its aliases are expanded.
const MAX_NODES: usize = 250_000;

/// Parses YAML; the error is the server's message, as far as the libraries agree.
pub(crate) fn parse(body: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(body).map_err(|_| "yaml: invalid leading UTF-8 octet")?;
    let options = options! {
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH, max_nodes: MAX_NODES },
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(first_document(text), options).map_err(|error| message(&error))
}

/// Everything before the marker of a second document.
fn first_document(text: &str) -> &str {
    let mut begun = false;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let marker = line.starts_with("---") && line[3..].chars().next().is_none_or(char::is_whitespace);
        if marker && begun {
            return &text[..offset];
        }
        begun |= !line.trim().is_empty() && !line.starts_with('#') && !line.starts_with('%');
        offset += line.len();
    }
    text
}

/// The library wraps its errors where aliases are involved, so that only their texts distinguish them.
fn message(error: &Error) -> String {
    let line = error.location().map_or(0, |location| location.line());
    let reason = match error.to_string() {
        text if text.contains("budget breached: Depth") || text.contains("recursion limit") => {
            "exceeded max depth of 10000".to_owned()
        }
        text if text.contains("budget breached") => return "yaml: document contains excessive aliasing".to_owned(),
        text => text,
    };
    match line {
        0 => format!("yaml: {reason}"),
        line => format!("yaml: line {line}: {reason}"),
    }
}
