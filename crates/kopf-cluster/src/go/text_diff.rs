//! The differences of two texts, line by line, as `diff -u` shows them.
//!
//! A real server shows such diffs in errors about forbidden changes. It uses a Go port of Python's `difflib`:
//! the longest common block first, then recursively before and after it.
//!
//! Hand-written because the text must be the same: the algorithms of the `similar` crate (Myers, Patience,
//! LCS) match other lines where there is a choice.

use std::collections::HashMap;

/// From how many lines on a text is long.
const LONG_TEXT: usize = 200;
/// How many equal lines are shown around what differs.
const CONTEXT: usize = 3;

/// A part of both texts: the lines `a.0..a.1` have become `b.0..b.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DiffPart {
    is_equal: bool,
    a: (usize, usize),
    b: (usize, usize),
}

/// The differences; nothing if there are none.
pub(super) fn unified(old: &str, new: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    let mut text = String::new();
    for hunk in hunks(&parts(&a, &b)) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
        let ranges = (range((first.a.0, last.a.1)), range((first.b.0, last.b.1)));
        text.push_str(&format!("@@ -{} +{} @@\n", ranges.0, ranges.1));
        for part in hunk {
            let mut show = |sign: char, lines: &[&str]| {
                for line in lines {
                    text.push(sign);
                    text.push_str(line);
                    text.push('\n');
                }
            };
            match part.is_equal {
                true => show(' ', &a[part.a.0..part.a.1]),
                false => {
                    show('-', &a[part.a.0..part.a.1]);
                    show('+', &b[part.b.0..part.b.1]);
                }
            }
        }
    }
    text
}

fn range((start, end): (usize, usize)) -> String {
    match end - start {
        1 => format!("{}", start + 1),
        0 => format!("{start},0"),
        length => format!("{},{length}", start + 1),
    }
}

/// Both texts in parts that are equal or not, one after another.
fn parts(a: &[&str], b: &[&str]) -> Vec<DiffPart> {
    let places = places(b);
    let mut blocks = Vec::new();
    let mut waiting = vec![((0, a.len()), (0, b.len()))];
    while let Some((within_a, within_b)) = waiting.pop() {
        let (i, j, length) = longest_match(a, b, &places, within_a, within_b);
        if length > 0 {
            blocks.push((i, j, length));
            waiting.push(((within_a.0, i), (within_b.0, j)));
            waiting.push(((i + length, within_a.1), (j + length, within_b.1)));
        }
    }
    blocks.sort_unstable();
    blocks.push((a.len(), b.len(), 0));
    let mut parts: Vec<DiffPart> = Vec::new();
    let (mut i, mut j) = (0, 0);
    for (start_a, start_b, length) in blocks {
        if i < start_a || j < start_b {
            parts.push(DiffPart { is_equal: false, a: (i, start_a), b: (j, start_b) });
        }
        (i, j) = (start_a + length, start_b + length);
        match parts.last_mut() {
            Some(last) if last.is_equal => (last.a.1, last.b.1) = (i, j),
            _ if length > 0 => parts.push(DiffPart { is_equal: true, a: (start_a, i), b: (start_b, j) }),
            _ => {}
        }
    }
    parts
}

/// The positions of each line. In long texts, very frequent lines are ignored, as in `difflib`.
fn places<'a>(lines: &[&'a str]) -> HashMap<&'a str, Vec<usize>> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, line) in lines.iter().enumerate() {
        places.entry(line).or_default().push(place);
    }
    if lines.len() >= LONG_TEXT {
        places.retain(|_, known| known.len() <= lines.len() / 100 + 1);
    }
    places
}

/// The first of the longest runs of equal lines: where it starts in both, and its length.
fn longest_match(
    a: &[&str],
    b: &[&str],
    places: &HashMap<&str, Vec<usize>>,
    within_a: (usize, usize),
    within_b: (usize, usize),
) -> (usize, usize, usize) {
    let (mut i, mut j, mut length) = (within_a.0, within_b.0, 0);
    // The lengths of the runs that end at a line of a, by the lines of b.
    let mut ending: HashMap<usize, usize> = HashMap::new();
    for (place, line) in a.iter().enumerate().take(within_a.1).skip(within_a.0) {
        let mut next = HashMap::new();
        let known = places.get(line).map(Vec::as_slice).unwrap_or_default();
        for &other in known.iter().filter(|&&other| (within_b.0..within_b.1).contains(&other)) {
            let run = other.checked_sub(1).and_then(|before| ending.get(&before)).map_or(1, |before| before + 1);
            next.insert(other, run);
            if run > length {
                (i, j, length) = (place + 1 - run, other + 1 - run, run);
            }
        }
        ending = next;
    }
    // Lines that were left out belong to it if they are next to it.
    while i > within_a.0 && j > within_b.0 && a[i - 1] == b[j - 1] {
        (i, j, length) = (i - 1, j - 1, length + 1);
    }
    while i + length < within_a.1 && j + length < within_b.1 && a[i + length] == b[j + length] {
        length += 1;
    }
    (i, j, length)
}

/// What differs, with some equal lines around it.
fn hunks(parts: &[DiffPart]) -> Vec<Vec<DiffPart>> {
    let mut hunks: Vec<Vec<DiffPart>> = Vec::new();
    let mut hunk: Vec<DiffPart> = Vec::new();
    for (position, part) in parts.iter().enumerate() {
        if !part.is_equal {
            hunk.push(*part);
            continue;
        }
        let length = part.a.1 - part.a.0;
        let head = DiffPart {
            a: (part.a.0, part.a.0 + length.min(CONTEXT)),
            b: (part.b.0, part.b.0 + length.min(CONTEXT)),
            ..*part
        };
        let tail = DiffPart {
            a: (part.a.1 - length.min(CONTEXT), part.a.1),
            b: (part.b.1 - length.min(CONTEXT), part.b.1),
            ..*part
        };
        let (is_first, is_last) = (position == 0, position + 1 == parts.len());
        match (is_first, is_last) {
            (true, true) => {}
            (true, false) => hunk.push(tail),
            (false, true) => hunk.push(head),
            (false, false) if length > 2 * CONTEXT => {
                hunk.push(head);
                hunks.push(std::mem::replace(&mut hunk, vec![tail]));
            }
            (false, false) => hunk.push(*part),
        }
    }
    if hunk.iter().any(|part| !part.is_equal) {
        hunks.push(hunk);
    }
    hunks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn differences_are_shown_with_what_is_around_them() {
        for (old, new, expected) in [
            ("a", "a", ""),
            ("a\nb", "a\nc", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"),
            ("a\nb\nc\nd\ne", "a\nb\nc\nd\nf", "@@ -2,4 +2,4 @@\n b\n c\n d\n-e\n+f\n"),
            (
                "1\n2\n3\n4\n5\n6\n7\n8\n9",
                "x\n2\n3\n4\n5\n6\n7\n8\ny",
                "@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n 4\n@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-9\n+y\n",
            ),
            ("a\na\nb", "a\nb\nb", "@@ -1,3 +1,3 @@\n-a\n a\n b\n+b\n"),
            ("a\nx\nb\nx\nc", "x\nc\na\nx\nb", "@@ -1,5 +1,5 @@\n+x\n+c\n a\n x\n b\n-x\n-c\n"),
            ("a", "a\nb", "@@ -1 +1,2 @@\n a\n+b\n"),
        ] {
            assert_eq!(unified(old, new), expected, "{old:?} {new:?}");
        }
    }

    fn lines() -> impl Strategy<Value = String> {
        prop::collection::vec("[a-d]", 1..24).prop_map(|lines| lines.join("\n"))
    }

    proptest! {
        #[test]
        fn the_new_text_follows_from_the_old_one(old in lines(), new in lines()) {
            let (mut made, mut position): (Vec<&str>, usize) = (Vec::new(), 0);
            let before: Vec<&str> = old.split('\n').collect();
            let text = unified(&old, &new);
            for line in text.lines() {
                if let Some(head) = line.strip_prefix("@@ -") {
                    let numbers = head.split(' ').next().unwrap_or_default();
                    let (start, length) = numbers.split_once(',').unwrap_or((numbers, "1"));
                    let start: usize = start.parse().unwrap();
                    let start = if length == "0" { start } else { start - 1 };
                    made.extend(&before[position..start]);
                    position = start;
                    continue;
                }
                let (sign, rest) = line.split_at(1);
                if sign != "+" {
                    prop_assert_eq!(before[position], rest);
                    position += 1;
                }
                if sign != "-" {
                    made.push(rest);
                }
            }
            made.extend(&before[position..]);
            prop_assert_eq!(made.join("\n"), new);
        }
    }
}
