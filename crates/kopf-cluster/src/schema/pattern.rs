//! Regular expressions of schemas, in the dialect of the server.
//!
//! The server's dialect and ours differ in a few spellings: its `\d`, `\w` and `\s` know ASCII
//! only, and it takes a lone brace or bracket for itself. [`Pattern`] rewrites these.

/// A regular expression, compiled once.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// The expression as it was written; messages quote it.
    pub source: String,
    /// The compiled expression, or why it cannot be compiled.
    compiled: Result<regex::Regex, String>,
}

impl Pattern {
    /// Compiles an expression. A bad one is reported with each value that it should match.
    pub fn new(source: &str) -> Self {
        let compiled = regex::Regex::new(&rewrite(source)).map_err(|error| error.to_string());
        Self { source: source.to_owned(), compiled }
    }

    /// Whether the expression matches anywhere in the text, or why it cannot be used.
    pub fn is_match(&self, text: &str) -> Result<bool, &str> {
        match &self.compiled {
            Ok(expression) => Ok(expression.is_match(text)),
            Err(reason) => Err(reason),
        }
    }
}

fn rewrite(source: &str) -> String {
    let characters: Vec<char> = source.chars().collect();
    let mut rewritten = String::with_capacity(source.len() + 16);
    let mut in_class = false;
    let mut position = 0;
    while let Some(&character) = characters.get(position) {
        let next = characters.get(position + 1).copied();
        match (character, next) {
            ('\\', Some(escaped)) => {
                rewrite_escape(escaped, in_class, &mut rewritten);
                position += 1;
            }
            ('[', Some(':')) if in_class => rewritten.push('['),
            ('[' | '&' | '~', _) if in_class => rewritten.extend(['\\', character]),
            ('[', _) => {
                in_class = true;
                rewritten.push('[');
                // A bracket or its negation right at the start stands for itself.
                if next == Some('^') {
                    rewritten.push('^');
                    position += 1;
                }
                if characters.get(position + 1) == Some(&']') {
                    rewritten.push_str("\\]");
                    position += 1;
                }
            }
            (']', _) if in_class => {
                // The end of a named class is not the end of the whole.
                in_class =
                    rewritten.ends_with(':') && rewritten.rfind("[:").is_some_and(|start| start + 2 < rewritten.len());
                rewritten.push(']');
            }
            ('{', _)
                if !in_class
                    && !is_repetition(&characters[position..])
                    && !follows_property(&characters[..position]) =>
            {
                rewritten.push_str("\\{")
            }
            ('}', _) if !in_class && !closes_repetition(&characters[..position]) => rewritten.push_str("\\}"),
            _ => rewritten.push(character),
        }
        position += 1;
    }
    rewritten
}

fn rewrite_escape(escaped: char, in_class: bool, rewritten: &mut String) {
    let class = match escaped {
        'd' => Some(("0-9", false)),
        'D' => Some(("0-9", true)),
        'w' => Some(("0-9A-Za-z_", false)),
        'W' => Some(("0-9A-Za-z_", true)),
        's' => Some(("\\t\\n\\f\\r ", false)),
        'S' => Some(("\\t\\n\\f\\r ", true)),
        _ => None,
    };
    match class {
        Some((members, false)) if in_class => rewritten.push_str(members),
        Some((members, true)) => rewritten.push_str(&format!("[^{members}]")),
        Some((members, false)) => rewritten.push_str(&format!("[{members}]")),
        None if matches!(escaped, 'b' | 'B') && !in_class => rewritten.push_str(&format!("(?-u:\\{escaped})")),
        None if matches!(escaped, '<' | '>') => rewritten.push(escaped),
        None => rewritten.extend(['\\', escaped]),
    }
}

/// Whether a brace starts `{1}`, `{1,}` or `{1,2}`.
fn is_repetition(rest: &[char]) -> bool {
    let inside: String = rest.iter().skip(1).take_while(|character| **character != '}').collect();
    let is_closed = rest.len() > inside.chars().count() + 1;
    let (first, second) = inside.split_once(',').unwrap_or((&inside, ""));
    let is_digits = |text: &str| text.chars().all(|character| character.is_ascii_digit());
    is_closed && !first.is_empty() && is_digits(first) && is_digits(second)
}

fn closes_repetition(before: &[char]) -> bool {
    let Some(start) = before.iter().rposition(|character| *character == '{') else { return false };
    let mut whole: Vec<char> = before[start..].to_vec();
    whole.push('}');
    follows_property(&before[..start]) || is_repetition(&whole)
}

/// Whether a brace here belongs to `\p{…}` or `\x{…}`.
fn follows_property(before: &[char]) -> bool {
    matches!(before, [.., '\\', 'p' | 'P' | 'x'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_mean_what_they_mean_on_the_server() {
        for (source, text, expected) in [
            (r"^[a-z]+$", "abc", true),
            (r"^\d+$", "123", true),
            (r"^\d+$", "१२३", false),
            (r"^[\w.]+$", "a_1.b", true),
            (r"^\w+$", "größe", false),
            (r"^a{2,3}$", "aa", true),
            (r"^{x}$", "{x}", true),
            (r"^a{,2}$", "a{,2}", true),
            (r"^[]a]+$", "]a", true),
            (r"^[^]]$", "]", false),
            (r"^[[:alpha:]]+$", "abc", true),
            (r"^[[]$", "[", true),
            (r"^\p{L}+$", "größe", true),
            (r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "a-b", true),
            (r"b", "abc", true),
            (r"^\<\>$", "<>", true),
        ] {
            assert_eq!(Pattern::new(source).is_match(text), Ok(expected), "{source} on {text}");
        }
        assert!(Pattern::new("a(").is_match("a").is_err());
    }
}
