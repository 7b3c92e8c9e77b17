//! JSON as the server reads it: what it rejects, with its messages, and what it repairs.
//!
//! All JSON from clients passes here. Valid JSON takes the fast path through serde; only invalid JSON is
//! scanned again, for the message. Like the server, this replaces invalid UTF-8 and lone surrogates
//! instead of rejecting them.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::fmt::{self, Write};

use serde::Deserializer;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The nesting limit that a real server reports.
///
/// serde stops at 128 levels; the message is the same. Most code recurses once per level, and must not
/// exhaust the stack.
const MAX_DEPTH: usize = 10_000;

/// Parses JSON; the error is the server's message.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, String> {
    parse_noting_repeats(bytes).map(|(value, _)| value)
}

/// Also returns whether any object has a duplicate field; the last one wins.
pub(crate) fn parse_noting_repeats(bytes: &[u8]) -> Result<(Value, bool), String> {
    let error = match read(bytes) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    Scanner { bytes, position: 0 }.document()?;
    // It is valid, but serde cannot represent something in it.
    let repaired = repair(bytes);
    read(&repaired).map_err(|second| {
        match error.to_string().contains("recursion limit") || second.to_string().contains("recursion limit") {
            true => too_deep(deepest(bytes)),
            false => format!("json: cannot unmarshal number into Go value: {second}"),
        }
    })
}

/// Serializes a value.
pub(crate) fn to_bytes(value: &Value) -> Vec<u8> {
    // Serializing a JSON value cannot fail.
    serde_json::to_vec(value).unwrap_or_default()
}

fn read(bytes: &[u8]) -> serde_json::Result<(Value, bool)> {
    let repeats = Cell::new(false);
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    let value = JsonVisitor { repeats: &repeats }.deserialize(&mut parser)?;
    parser.end()?;
    Ok((value, repeats.get()))
}

/// Reads a value as serde does, and records whether fields are duplicated.
#[derive(Clone, Copy)]
struct JsonVisitor<'a> {
    repeats: &'a Cell<bool>,
}

impl<'de> DeserializeSeed<'de> for JsonVisitor<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonVisitor<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            let value = access.next_value_seed(self)?;
            if fields.insert(name, value).is_some() {
                self.repeats.set(true);
            }
        }
        Ok(Value::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }
}

/// Writes whole floats as integers: `2.0` becomes `2`, as in a real server.
pub(crate) fn normalize_numbers(value: &mut Value) {
    /// Above this, a real server writes an exponent.
    const LIMIT: f64 = 1e15;
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < LIMIT) {
                *value = Value::from(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize_numbers),
        Value::Object(fields) => fields.values_mut().for_each(normalize_numbers),
        _ => {}
    }
}

/// The beginning of a body, as messages quote it.
pub(crate) fn summary(body: &[u8]) -> String {
    const LIMIT: usize = 30;
    let shown = &body[..body.len().min(LIMIT)];
    let mut text = match body.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(shown).into_owned(),
        Some(_) => shown.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if body.len() > LIMIT {
        text.push_str(" ...");
    }
    text
}

/// Checks the syntax, and reports errors like Go's `encoding/json`.
struct Scanner<'a> {
    bytes: &'a [u8],
    position: usize,
}

/// A bracket that the scanner has not closed yet.
#[derive(Clone, Copy)]
enum OpenBracket {
    Array,
    Object,
}

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), String> {
        let mut open: Vec<OpenBracket> = Vec::new();
        loop {
            // A value begins here.
            match self.next_token()? {
                byte @ (b'{' | b'[') => {
                    if open.len() >= MAX_DEPTH {
                        return Err(too_deep(byte));
                    }
                    let kind = if byte == b'{' { OpenBracket::Object } else { OpenBracket::Array };
                    let close = if byte == b'{' { b'}' } else { b']' };
                    if self.peek_token()? != close {
                        open.push(kind);
                        if byte == b'{' {
                            self.key()?;
                        }
                        continue;
                    }
                    self.next_token()?;
                }
                byte => self.scalar(byte)?,
            }
            // A value has ended here.
            loop {
                let Some(kind) = open.last().copied() else { return self.end() };
                match (kind, self.next_token()?) {
                    (OpenBracket::Array, b',') => break,
                    (OpenBracket::Object, b',') => {
                        self.key()?;
                        break;
                    }
                    (OpenBracket::Array, b']') | (OpenBracket::Object, b'}') => {
                        open.pop();
                    }
                    (OpenBracket::Array, other) => return Err(invalid(other, "after array element")),
                    (OpenBracket::Object, other) => return Err(invalid(other, "after object key:value pair")),
                }
            }
        }
    }

    fn key(&mut self) -> Result<(), String> {
        match self.next_token()? {
            b'"' => self.string()?,
            other => return Err(invalid(other, "looking for beginning of object key string")),
        }
        match self.next_token()? {
            b':' => Ok(()),
            other => Err(invalid(other, "after object key")),
        }
    }

    fn scalar(&mut self, first: u8) -> Result<(), String> {
        match first {
            b'"' => self.string(),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            b'-' => match self.next()? {
                digit @ b'0'..=b'9' => self.number(digit),
                other => Err(invalid(other, "in numeric literal")),
            },
            digit @ b'0'..=b'9' => self.number(digit),
            other => Err(invalid(other, "looking for beginning of value")),
        }
    }

    fn string(&mut self) -> Result<(), String> {
        loop {
            match self.next()? {
                b'"' => return Ok(()),
                b'\\' => match self.next()? {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let digit = self.next()?;
                            if !digit.is_ascii_hexdigit() {
                                return Err(invalid(digit, "in \\u hexadecimal character escape"));
                            }
                        }
                    }
                    other => return Err(invalid(other, "in string escape code")),
                },
                control @ ..0x20 => return Err(invalid(control, "in string literal")),
                _ => {}
            }
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for expected in word.bytes().skip(1) {
            let found = self.next()?;
            if found != expected {
                let place = format!("in literal {word} (expecting '{}')", char::from(expected));
                return Err(invalid(found, &place));
            }
        }
        Ok(())
    }

    /// The rest of a number after its first digit.
    fn number(&mut self, first: u8) -> Result<(), String> {
        if first != b'0' {
            self.skip_digits();
        }
        if self.peek() == Some(b'.') {
            self.position += 1;
            self.digit("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.position += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.position += 1;
            }
            self.digit("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn digit(&mut self, place: &str) -> Result<(), String> {
        let found = self.next()?;
        if !found.is_ascii_digit() {
            return Err(invalid(found, place));
        }
        self.skip_digits();
        Ok(())
    }

    fn skip_digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.position += 1;
        }
    }

    fn end(&mut self) -> Result<(), String> {
        match self.next_token() {
            Ok(other) => Err(invalid(other, "after top-level value")),
            Err(_) => Ok(()),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.position).copied()
    }

    fn next(&mut self) -> Result<u8, String> {
        let byte = self.peek().ok_or("unexpected end of JSON input")?;
        self.position += 1;
        Ok(byte)
    }

    fn peek_token(&mut self) -> Result<u8, String> {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.position += 1;
        }
        self.peek().ok_or_else(|| "unexpected end of JSON input".to_owned())
    }

    fn next_token(&mut self) -> Result<u8, String> {
        self.peek_token()?;
        self.next()
    }
}

fn invalid(byte: u8, place: &str) -> String {
    let character = char::from(byte);
    let shown = match character {
        '\'' => "\\'".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        _ if byte < 0x20 || byte == 0x7f => format!("\\x{byte:02x}"),
        _ if (0x80..0xa1).contains(&byte) || byte == 0xad => format!("\\u{:04x}", u32::from(character)),
        _ => character.to_string(),
    };
    format!("invalid character '{shown}' {place}")
}

fn too_deep(byte: u8) -> String {
    invalid(byte, "exceeded max depth")
}

/// The innermost bracket at the deepest level; only for the message.
fn deepest(bytes: &[u8]) -> u8 {
    let brackets = bytes.iter().filter(|byte| **byte == b'[').count();
    let braces = bytes.iter().filter(|byte| **byte == b'{').count();
    if brackets >= braces { b'[' } else { b'{' }
}

/// Valid JSON with replacement characters in place of invalid Unicode.
fn repair(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let mut repaired = String::with_capacity(text.len());
    let mut rest = &*text;
    while let Some(at) = rest.find('\\') {
        repaired.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = match (unit(rest), rest.get(6..).and_then(unit)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => 12,
            (Some(0xd800..0xe000), _) => {
                // Writing into a string cannot fail.
                let _ = write!(repaired, "{}", char::REPLACEMENT_CHARACTER);
                rest = &rest[6..];
                continue;
            }
            (Some(_), _) => 6,
            (None, _) => rest.chars().take(2).map(char::len_utf8).sum(),
        };
        repaired.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    repaired.push_str(rest);
    repaired.into_bytes()
}

/// The number of an escape such as `\ud83d` at the start of a text.
fn unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}
