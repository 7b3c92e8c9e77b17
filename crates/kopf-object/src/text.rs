//! Raw JSON, cut into pieces without parsing it.
//!
//! The engine needs only a few fields of most objects; the managed fields alone are half of an object. Finding the end
//! of a value takes a fraction of the time of parsing it. So this module only counts brackets and skips strings, and
//! leaves it to the caller to parse (and validate) single values. Unusual JSON, such as escapes in the names of members,
//! is [`Unsupported`]: the caller then uses a full parser, which also reports what is wrong.
//!
//! It is written by hand because it is on the path of every event of every object, and no crate skips values as fast.
//!
//! ```
//! use kopf_object::text::{Unsupported, members, plain_string};
//!
//! let found = members(br#"{"kind": "Pod", "spec": {"x": ["]"]}}"#).collect::<Result<Vec<_>, Unsupported>>()?;
//! assert_eq!(found, [("kind", &br#""Pod""#[..]), ("spec", &br#"{"x": ["]"]}"#[..])]);
//! assert_eq!(plain_string(found[0].1), Ok("Pod"));
//! # Ok::<(), Unsupported>(())
//! ```

use std::iter::FusedIterator;

use PieceState::{Before, Broken, Inside, Over};

/// The JSON is unusual, or not JSON at all: use a full parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unusual JSON, for a full parser only")]
pub struct Unsupported;

/// The names and values of the members of a JSON object, in their order.
pub fn members(json: &[u8]) -> Members<'_> {
    Members(Pieces::new(json, b'{', b'}'))
}

/// The elements of a JSON array, in their order.
pub fn elements(json: &[u8]) -> Elements<'_> {
    Elements(Pieces::new(json, b'[', b']'))
}

/// The content of a JSON string without escapes.
pub fn plain_string(json: &[u8]) -> Result<&str, Unsupported> {
    let content = json.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).ok_or(Unsupported)?;
    if quote_or_backslash(content, 0).is_ok() {
        Err(Unsupported)
    } else {
        str::from_utf8(content).map_err(|_| Unsupported)
    }
}

/// See [`members`].
///
/// Iterate over it, or take the names one by one with [`next_name`](Self::next_name), and decide for each value
/// whether to take, skip or enter it.
#[derive(Clone, Debug)]
pub struct Members<'a>(Pieces<'a>);

impl<'a> Members<'a> {
    /// The name of the next member. Take or enter its value before the next name.
    pub fn next_name(&mut self) -> Option<Result<&'a str, Unsupported>> {
        self.0.next_by(|pieces| {
            let name = pieces.name()?;
            pieces.skip_space();
            pieces.expect(b':')?;
            pieces.skip_space();
            Ok(name)
        })
    }

    /// The first byte of the value of the last named member, which shows its type.
    pub fn peek(&self) -> Option<u8> {
        self.0.peek()
    }

    /// The value of the last named member.
    pub fn value(&mut self) -> Result<&'a [u8], Unsupported> {
        self.0.value()
    }

    /// The members of that value, without searching for its end first; see [`leave`](Self::leave).
    pub fn enter_members(&self) -> Members<'a> {
        Members(self.0.enter(b'{', b'}'))
    }

    /// The elements of that value, in the same way.
    pub fn enter_elements(&self) -> Elements<'a> {
        Elements(self.0.enter(b'[', b']'))
    }

    /// Continues after the entered value.
    pub fn leave(&mut self, end: ValueEnd) {
        self.0.at = end.0;
    }

    /// Where the object ends, once all its members were read.
    pub fn end(&self) -> Result<ValueEnd, Unsupported> {
        self.0.end()
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Result<(&'a str, &'a [u8]), Unsupported>;

    fn next(&mut self) -> Option<Self::Item> {
        let name = self.next_name()?;
        let member = name.and_then(|name| Ok((name, self.value()?)));
        if member.is_err() {
            self.0.state = Broken;
        }
        Some(member)
    }
}

impl FusedIterator for Members<'_> {}

/// See [`elements`].
#[derive(Clone, Debug)]
pub struct Elements<'a>(Pieces<'a>);

impl Elements<'_> {
    /// Where the array ends, once all its elements were read.
    pub fn end(&self) -> Result<ValueEnd, Unsupported> {
        self.0.end()
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<&'a [u8], Unsupported>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next_by(Pieces::value)
    }
}

impl FusedIterator for Elements<'_> {}

/// The end of an entered value, see [`Members::leave`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueEnd(usize);

#[derive(Clone, Debug)]
struct Pieces<'a> {
    json: &'a [u8],
    at: usize,
    open: u8,
    close: u8,
    state: PieceState,
    /// Whether other text may follow after the end.
    is_inner: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PieceState {
    Before,
    Inside,
    Over,
    /// After something unsupported.
    Broken,
}

impl<'a> Pieces<'a> {
    fn new(json: &'a [u8], open: u8, close: u8) -> Self {
        Self { json, at: 0, open, close, state: Before, is_inner: false }
    }

    fn enter(&self, open: u8, close: u8) -> Self {
        Self { open, close, state: Before, is_inner: true, ..*self }
    }

    fn end(&self) -> Result<ValueEnd, Unsupported> {
        if self.state == Over { Ok(ValueEnd(self.at)) } else { Err(Unsupported) }
    }

    /// The next piece, if any; none after something unsupported.
    fn next_by<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Unsupported>) -> Option<Result<T, Unsupported>> {
        if matches!(self.state, Over | Broken) {
            return None;
        }
        let piece = self.advance().and_then(|more| more.then(|| read(self)).transpose());
        self.state = match piece {
            Ok(Some(_)) => Inside,
            Ok(None) => Over,
            Err(Unsupported) => Broken,
        };
        piece.transpose()
    }

    /// Moves to the next piece; returns whether there is one. Nothing else may follow the last one.
    fn advance(&mut self) -> Result<bool, Unsupported> {
        self.skip_space();
        if self.state == Before {
            self.expect(self.open)?;
            self.skip_space();
        } else if self.peek() == Some(b',') {
            self.at += 1;
            self.skip_space();
            return Ok(true);
        }
        if self.peek() != Some(self.close) {
            return if self.state == Before { Ok(true) } else { Err(Unsupported) };
        }
        self.at += 1;
        if self.is_inner {
            return Ok(false);
        }
        self.skip_space();
        if self.at == self.json.len() { Ok(false) } else { Err(Unsupported) }
    }

    fn peek(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }

    fn expect(&mut self, byte: u8) -> Result<(), Unsupported> {
        if self.peek() != Some(byte) {
            return Err(Unsupported);
        }
        self.at += 1;
        Ok(())
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn name(&mut self) -> Result<&'a str, Unsupported> {
        self.expect(b'"')?;
        let end = quote_or_backslash(self.json, self.at)?;
        let name = str::from_utf8(&self.json[self.at..end]).map_err(|_| Unsupported)?;
        self.at = end;
        self.expect(b'"')?;
        Ok(name)
    }

    fn value(&mut self) -> Result<&'a [u8], Unsupported> {
        let start = self.at;
        self.at = match self.peek().ok_or(Unsupported)? {
            b'"' => string_end(self.json, start)?,
            b'{' | b'[' => nested_end(self.json, start)?,
            _ => scalar_end(self.json, start)?,
        };
        Ok(&self.json[start..self.at])
    }
}

/// The first quote or backslash from here on. It compares eight bytes at a time: most strings are short.
fn quote_or_backslash(json: &[u8], mut at: usize) -> Result<usize, Unsupported> {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const QUOTES: u64 = u64::from_ne_bytes([b'"'; 8]);
    const BACKSLASHES: u64 = u64::from_ne_bytes([b'\\'; 8]);
    const HIGH_BITS: u64 = u64::from_ne_bytes([0x80; 8]);
    let mut rest = json.get(at..).ok_or(Unsupported)?;
    while let Some((eight, others)) = rest.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*eight);
        // The high bit of each equal byte; maybe also of bytes after it, which does not matter.
        let zeros = |word: u64| word.wrapping_sub(ONES) & !word;
        let found = (zeros(word ^ QUOTES) | zeros(word ^ BACKSLASHES)) & HIGH_BITS;
        if found != 0 {
            return Ok(at + (found.trailing_zeros() / 8) as usize);
        }
        (rest, at) = (others, at + 8);
    }
    let found = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')).ok_or(Unsupported)?;
    Ok(at + found)
}

/// The position after the string that begins here.
fn string_end(json: &[u8], start: usize) -> Result<usize, Unsupported> {
    let mut at = start + 1;
    loop {
        at = quote_or_backslash(json, at)?;
        if json[at] == b'"' {
            return Ok(at + 1);
        }
        at += 2;
    }
}

/// The position after the object or array that begins here.
fn nested_end(json: &[u8], start: usize) -> Result<usize, Unsupported> {
    let (mut at, mut depth) = (start, 0_usize);
    while let Some(byte) = json.get(at) {
        at += 1;
        match byte {
            b'"' => at = string_end(json, at - 1)?,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Ok(at);
                }
            }
            _ => {}
        }
    }
    Err(Unsupported)
}

/// The position after the number or the word that begins here.
fn scalar_end(json: &[u8], start: usize) -> Result<usize, Unsupported> {
    let is_of_scalars = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
    let length = json[start..].iter().take_while(|byte| is_of_scalars(byte)).count();
    if length == 0 { Err(Unsupported) } else { Ok(start + length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(json: &str) -> Result<Vec<(&str, &str)>, Unsupported> {
        members(json.as_bytes())
            .map(|member| member.map(|(name, value)| (name, str::from_utf8(value).unwrap())))
            .collect()
    }

    #[test]
    fn objects_are_cut_into_members() {
        assert_eq!(cut("{}"), Ok(vec![]));
        assert_eq!(cut(" \n{ } "), Ok(vec![]));
        assert_eq!(cut(r#"{"":0}"#), Ok(vec![("", "0")]));
        assert_eq!(
            cut(r#" {"a" :-1.5e+3 , "b":"}\"\\", "c":[{"]":"["},[]],"d":{"x":{}} ,"e":null}"#),
            Ok(vec![
                ("a", "-1.5e+3"),
                ("b", r#""}\"\\""#),
                ("c", r#"[{"]":"["},[]]"#),
                ("d", r#"{"x":{}}"#),
                ("e", "null")
            ])
        );
        let long = format!(r#""{}\"{}\\""#, "x".repeat(100), "y".repeat(31));
        assert_eq!(cut(&format!(r#"{{"long":{long},"b":1}}"#)), Ok(vec![("long", &*long), ("b", "1")]));
    }

    #[test]
    fn arrays_are_cut_into_elements() {
        let cut = |json: &'static str| elements(json.as_bytes()).collect::<Result<Vec<_>, Unsupported>>();
        assert_eq!(cut("[]"), Ok(vec![]));
        assert_eq!(cut("[ 1, [2, 3] ,\"]\" ]"), Ok(vec![&b"1"[..], b"[2, 3]", b"\"]\""]));
        for text in ["", "{}", "[", "[1", "[1,]", "[1 2]", "[,]", "[1]]"] {
            assert_eq!(cut(text), Err(Unsupported), "{text}");
        }
    }

    #[test]
    fn strings_with_escapes_are_unsupported() {
        assert_eq!(plain_string(br#""a b""#), Ok("a b"));
        assert_eq!(plain_string("\"é\"".as_bytes()), Ok("é"));
        for text in [&br#""a\n""#[..], b"\"", b"a", b"\"\xff\"", br#""a"b""#, b""] {
            assert_eq!(plain_string(text), Err(Unsupported), "{text:?}");
        }
    }

    #[test]
    fn values_are_entered_and_left() {
        let mut outer = members(br#"{"a":{"b":[1,2] ,"c":3} , "d":4}"#);
        assert_eq!(outer.next_name(), Some(Ok("a")));
        let mut inner = outer.enter_members();
        assert_eq!(inner.next_name(), Some(Ok("b")));
        assert_eq!(inner.end(), Err(Unsupported), "there is more of it");
        let mut elements = inner.enter_elements();
        assert_eq!(elements.by_ref().collect::<Result<Vec<_>, _>>(), Ok(vec![&b"1"[..], b"2"]));
        inner.leave(elements.end().unwrap());
        assert_eq!(inner.by_ref().last(), Some(Ok(("c", &b"3"[..]))));
        outer.leave(inner.end().unwrap());
        assert_eq!(outer.next(), Some(Ok(("d", &b"4"[..]))));
        assert_eq!(outer.next(), None);
        let mut broken = members(br#"{"a":{"b":1,,},"c":2}"#);
        broken.next_name();
        let mut inner = broken.enter_members();
        assert_eq!(inner.by_ref().last(), Some(Err(Unsupported)));
        assert_eq!(inner.end(), Err(Unsupported));
    }

    #[test]
    fn unsupported_text_ends_the_iteration() {
        for text in [
            "",
            "1",
            "[]",
            "{",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1"#,
            r#"{"a":1,}"#,
            r#"{"a":1 "b":2}"#,
            r#"{"a":1}}"#,
            r#"{"a":"x}"#,
            r#"{"a":"x\"#,
            r#"{"a":[}"#,
            r#"{"\u0061":1}"#,
            r#"{a:1}"#,
            r#"{"a":1} x"#,
            r#"{,}"#,
        ] {
            let mut pieces = members(text.as_bytes());
            assert_eq!(pieces.by_ref().last(), Some(Err(Unsupported)), "{text}");
            assert_eq!(pieces.next(), None, "{text}");
        }
    }
}
