//! The JSON paths of CRDs: printer columns, scale subresources and selectable fields.
//!
//! Only what CRDs use is here: fields, quoted fields, indexes, wildcards and filters by equality,
//! such as `.status.conditions[?(@.type=="Ready")].status`. Other paths find nothing.

use serde_json::Value;

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
enum JsonPathStep {
    Field(String),
    Index(i64),
    All,
    /// Items of a list in which a field equals a value.
    Filter(Vec<String>, Value),
}

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<JsonPathStep>,
}

impl JsonPath {
    /// Parses a path; None if it uses unsupported syntax.
    pub fn parse(text: &str) -> Option<Self> {
        let mut rest = text.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('[') {
                let end = bracket_end(after)?;
                steps.push(bracket_step(&after[..end])?);
                rest = &after[end + 1..];
                continue;
            }
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let (name, length) = field_name(rest);
            match name.as_str() {
                "" if rest.is_empty() => {}
                "" => return None,
                "*" => steps.push(JsonPathStep::All),
                _ => steps.push(JsonPathStep::Field(name)),
            }
            rest = &rest[length..];
        }
        Some(Self { steps })
    }

    /// Everything that the path finds.
    pub fn find_all<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![value];
        for step in &self.steps {
            found = found.into_iter().flat_map(|value| step.follow(value)).collect();
        }
        found
    }

    /// The first thing that the path finds.
    pub fn find<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.find_all(value).into_iter().next()
    }

    /// The names of the fields, if the path consists of fields only.
    pub fn fields(&self) -> Option<Vec<&str>> {
        self.steps.iter().map(JsonPathStep::field).collect()
    }
}

impl JsonPathStep {
    fn field(&self) -> Option<&str> {
        match self {
            Self::Field(name) => Some(name),
            _ => None,
        }
    }

    fn follow<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (JsonPathStep::Field(name), Value::Object(fields)) => fields.get(name).into_iter().collect(),
            (JsonPathStep::Index(index), Value::Array(items)) => {
                let position = if *index < 0 { items.len() as i64 + index } else { *index };
                usize::try_from(position).ok().and_then(|position| items.get(position)).into_iter().collect()
            }
            (JsonPathStep::All, Value::Array(items)) => items.iter().collect(),
            (JsonPathStep::All, Value::Object(fields)) => fields.values().collect(),
            (JsonPathStep::Filter(path, expected), Value::Array(items)) => {
                let field = |item: &'a Value| path.iter().try_fold(item, |value, name| value.get(name));
                items.iter().filter(|item| field(item) == Some(expected)).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The name at the beginning, up to an unescaped dot or bracket, and its length in the text.
fn field_name(text: &str) -> (String, usize) {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((position, character)) = characters.next() {
        match character {
            '.' | '[' => return (name, position),
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            plain => name.push(plain),
        }
    }
    (name, text.len())
}

/// Where the bracket closes, outside of quotes.
fn bracket_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (position, character) in text.char_indices() {
        match (quote, character) {
            (None, ']') => return Some(position),
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), character) if open == character => quote = None,
            _ => {}
        }
    }
    None
}

fn bracket_step(inside: &str) -> Option<JsonPathStep> {
    let inside = inside.trim();
    if inside == "*" {
        return Some(JsonPathStep::All);
    }
    if let Some(name) = unquote(inside) {
        return Some(JsonPathStep::Field(name.replace("\\.", ".")));
    }
    if let Some(condition) = inside.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        let (path, value) = condition.split_once("==")?;
        let path = path.trim().strip_prefix('@')?.trim_start_matches('.').split('.').map(str::to_owned).collect();
        let value = value.trim();
        let expected = match unquote(value) {
            Some(text) => Value::String(text.to_owned()),
            None => serde_json::from_str(value).ok()?,
        };
        return Some(JsonPathStep::Filter(path, expected));
    }
    inside.parse().ok().map(JsonPathStep::Index)
}

fn unquote(text: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_find_values() {
        let object = json!({
            "spec": {"size": 3, "list": [1, 2, 3]},
            "metadata": {"annotations": {"example.com/a": "x"}},
            "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}]},
        });
        for (path, expected) in [
            (".spec.size", vec![json!(3)]),
            ("{.spec.size}", vec![json!(3)]),
            (".spec.nope", vec![]),
            (".spec.list[1]", vec![json!(2)]),
            (".spec.list[-1]", vec![json!(3)]),
            (".spec.list[*]", vec![json!(1), json!(2), json!(3)]),
            (".status.conditions[?(@.type==\"Ready\")].status", vec![json!("True")]),
            (".status.conditions[?(@.type=='Nope')].status", vec![]),
            (".metadata.annotations['example.com/a']", vec![json!("x")]),
            (".metadata.annotations.example\\.com/a", vec![json!("x")]),
        ] {
            let parsed = JsonPath::parse(path).unwrap_or_else(|| panic!("{path} cannot be read"));
            assert_eq!(parsed.find_all(&object), expected.iter().collect::<Vec<_>>(), "{path}");
        }
        assert_eq!(JsonPath::parse(".spec.list[(@.length-1)]"), None);
        assert_eq!(JsonPath::parse(".spec.replicas").unwrap().fields(), Some(vec!["spec", "replicas"]));
    }
}
