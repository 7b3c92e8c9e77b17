//! Label selectors and field selectors of lists and watches: parsing and matching.
//!
//! `request/query.rs` parses them out of a request, `verbs/read.rs` and `verbs/watch.rs` ask them about every
//! object. The grammar and the words of its errors are those of the server.

#[cfg(test)]
mod tests;

use serde_json::Value;

use super::names::{check_label_value, check_qualified_name};

/// Why a selector cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SelectorError {
    /// A word stands where another one should.
    #[error("unable to parse requirement: found '{found}', expected: {expected}")]
    Unexpected { found: String, expected: &'static str },
    /// No list of values after `in` or `notin`.
    #[error("unable to parse requirement: found '{found}' expected: '('")]
    NoParenthesis { found: String },
    /// The same between two requirements.
    #[error("found '{found}', expected: {expected}")]
    UnexpectedNext { found: String, expected: &'static str },
    /// A key or a value is not one of a label.
    #[error("unable to parse requirement: {field}: Invalid value: \"{value}\": {problem}")]
    InvalidLabel { field: String, value: String, problem: String },
    /// A number was expected for a comparison.
    #[error(
        "unable to parse requirement: values[0]: Invalid value: \"{0}\": for 'Gt', 'Lt' operators, the value must be an integer"
    )]
    NotANumber(String),
    /// A backslash before something else than itself, a comma or an equals sign.
    #[error("invalid field selector: invalid escape sequence: \\{0}")]
    InvalidEscape(String),
    /// A sign that must be escaped in a value; the server shows its number.
    #[error("invalid field selector: unescaped character in value: {0}")]
    Unescaped(u32),
    /// A term of a field selector has no operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    InvalidField { selector: String, term: String },
}

/// A label selector: all its requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    Exists,
    Missing,
    /// One of the values.
    In(Vec<String>),
    /// None of the values, or no such label at all.
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    /// Reads a selector such as `a=b,c!=d,e in (f,g),!h`.
    pub(crate) fn parse(text: &str) -> Result<Self, SelectorError> {
        Parser { tokens: tokens(text), position: 0 }.selector()
    }

    /// From a `LabelSelector` of an object: `matchLabels` and `matchExpressions`.
    pub(crate) fn of_value(selector: &Value) -> Self {
        let labels = selector["matchLabels"].as_object().into_iter().flatten();
        let mut requirements: Vec<Requirement> = labels
            .map(|(key, value)| Requirement {
                key: key.clone(),
                operator: Operator::In(vec![value.as_str().unwrap_or_default().to_owned()]),
            })
            .collect();
        for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
            let values = expression["values"].as_array().into_iter().flatten();
            let values = values.filter_map(Value::as_str).map(str::to_owned).collect();
            let operator = match expression["operator"].as_str() {
                Some("In") => Operator::In(values),
                Some("NotIn") => Operator::NotIn(values),
                Some("DoesNotExist") => Operator::Missing,
                _ => Operator::Exists,
            };
            requirements.push(Requirement { key: expression["key"].as_str().unwrap_or_default().to_owned(), operator });
        }
        Self { requirements }
    }

    /// Whether every object matches.
    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object with these labels is selected.
    pub(crate) fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = label(&requirement.key);
            match (&requirement.operator, value) {
                (Operator::Exists, value) => value.is_some(),
                (Operator::Missing, value) => value.is_none(),
                (Operator::In(values), Some(value)) => values.iter().any(|other| other == value),
                (Operator::NotIn(values), Some(value)) => values.iter().all(|other| other != value),
                (Operator::NotIn(_), None) => true,
                (Operator::Greater(limit), Some(value)) => value.parse().is_ok_and(|value: i64| value > *limit),
                (Operator::Less(limit), Some(value)) => value.parse().is_ok_and(|value: i64| value < *limit),
                (Operator::In(_) | Operator::Greater(_) | Operator::Less(_), None) => false,
            }
        })
    }
}

/// The words of a selector. An empty one stands for its end.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let special = |character: char| "=!(),<>".contains(character);
        let length = match special(first) {
            true if rest.starts_with("==") || rest.starts_with("!=") => 2,
            true => 1,
            false => rest.find(|character: char| special(character) || character.is_whitespace()).unwrap_or(rest.len()),
        };
        tokens.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    tokens
}

struct Parser {
    tokens: Vec<String>,
    position: usize,
}

impl Parser {
    fn selector(&mut self) -> Result<LabelSelector, SelectorError> {
        let mut requirements = Vec::new();
        while self.position < self.tokens.len() {
            requirements.push(self.requirement()?);
            match self.next().as_str() {
                "" => break,
                "," => {
                    let next = self.peek();
                    if !(is_identifier(next) || next == "!") {
                        let found = next.to_owned();
                        return Err(SelectorError::UnexpectedNext { found, expected: "identifier after ','" });
                    }
                }
                other => {
                    let found = other.to_owned();
                    return Err(SelectorError::UnexpectedNext { found, expected: "',' or 'end of string'" });
                }
            }
        }
        requirements.sort_by(|one: &Requirement, other| one.key.cmp(&other.key));
        Ok(LabelSelector { requirements })
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let mut missing = false;
        let mut word = self.next();
        if word == "!" {
            missing = true;
            word = self.next();
            if !is_identifier(&word) {
                return Err(SelectorError::Unexpected { found: word, expected: "identifier" });
            }
        } else if !is_identifier(&word) {
            let expected = "!, identifier, or 'end of string'";
            return Err(SelectorError::UnexpectedNext { found: word, expected });
        }
        let key = word;
        check("<nil>", &key, check_qualified_name(&key))?;
        if missing {
            return Ok(Requirement { key, operator: Operator::Missing });
        }
        if matches!(self.peek(), "" | ",") {
            return Ok(Requirement { key, operator: Operator::Exists });
        }
        let operator = match self.next().as_str() {
            "=" | "==" => Operator::In(vec![self.value(&key)?]),
            "!=" => Operator::NotIn(vec![self.value(&key)?]),
            "in" => Operator::In(self.values(&key)?),
            "notin" => Operator::NotIn(self.values(&key)?),
            ">" => Operator::Greater(self.number(&key)?),
            "<" => Operator::Less(self.number(&key)?),
            other => {
                let expected = "in, notin, =, ==, !=, gt, lt";
                return Err(SelectorError::Unexpected { found: other.to_owned(), expected });
            }
        };
        Ok(Requirement { key, operator })
    }

    /// One value, which may be empty at the end of a requirement.
    fn value(&mut self, key: &str) -> Result<String, SelectorError> {
        if matches!(self.peek(), "" | ",") {
            return Ok(String::new());
        }
        let value = self.next();
        if !is_identifier(&value) {
            return Err(SelectorError::Unexpected { found: value, expected: "identifier" });
        }
        check(&format!("values[0][{key}]"), &value, check_label_value(&value))?;
        Ok(value)
    }

    fn number(&mut self, key: &str) -> Result<i64, SelectorError> {
        let value = self.value(key)?;
        value.parse().map_err(|_| SelectorError::NotANumber(value))
    }

    /// Values in parentheses.
    fn values(&mut self, key: &str) -> Result<Vec<String>, SelectorError> {
        let open = self.next();
        if open != "(" {
            return Err(SelectorError::NoParenthesis { found: open });
        }
        let mut values = Vec::new();
        loop {
            match self.peek() {
                ")" | "," => values.push(String::new()),
                other if is_identifier(other) => values.push(self.next()),
                other => {
                    return Err(SelectorError::Unexpected {
                        found: other.to_owned(),
                        expected: "',', ')' or identifier",
                    });
                }
            }
            match self.next().as_str() {
                ")" => break,
                "," => {}
                other => {
                    return Err(SelectorError::Unexpected { found: other.to_owned(), expected: "',' or ')'" });
                }
            }
        }
        values.sort();
        values.dedup();
        for (index, value) in values.iter().enumerate() {
            check(&format!("values[{index}][{key}]"), value, check_label_value(value))?;
        }
        Ok(values)
    }

    fn peek(&self) -> &str {
        self.tokens.get(self.position).map(String::as_str).unwrap_or_default()
    }

    fn next(&mut self) -> String {
        let token = self.peek().to_owned();
        self.position += 1;
        token
    }
}

fn is_identifier(token: &str) -> bool {
    token.chars().next().is_some_and(|first| !"=!(),<>".contains(first))
}

fn check(field: &str, value: &str, problems: Vec<String>) -> Result<(), SelectorError> {
    match problems.is_empty() {
        true => Ok(()),
        false => Err(SelectorError::InvalidLabel {
            field: field.to_owned(),
            value: value.to_owned(),
            problem: problems.join("; "),
        }),
    }
}

/// A field selector: equalities and inequalities of single fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector {
    pub terms: Vec<FieldTerm>,
}

/// One condition of a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldTerm {
    pub field: String,
    pub value: String,
    /// Whether the field must have the value, or any other one.
    pub equal: bool,
}

impl FieldSelector {
    /// Reads a selector such as `metadata.name=a,status.phase!=Running`.
    pub(crate) fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut terms = Vec::new();
        for term in split_unescaped(text) {
            if term.is_empty() {
                continue;
            }
            let (field, operator, value) = split_term(&term)
                .ok_or_else(|| SelectorError::InvalidField { selector: text.to_owned(), term: term.clone() })?;
            terms.push(FieldTerm { field: field.to_owned(), value: unescape(value)?, equal: operator != "!=" });
        }
        Ok(Self { terms })
    }

    /// Whether every object matches.
    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether an object with these fields is selected. Missing fields count as empty.
    pub(crate) fn matches(&self, mut field: impl FnMut(&str) -> String) -> bool {
        self.terms.iter().all(|term| (field(&term.field) == term.value) == term.equal)
    }
}

fn split_unescaped(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut escaped = false;
    for character in text.chars() {
        if character == ',' && !escaped {
            terms.push(String::new());
            continue;
        }
        escaped = character == '\\' && !escaped;
        if let Some(term) = terms.last_mut() {
            term.push(character);
        }
    }
    terms
}

fn split_term(term: &str) -> Option<(&str, &str, &str)> {
    (0..term.len()).filter(|index| term.is_char_boundary(*index)).find_map(|index| {
        ["!=", "==", "="].into_iter().find_map(|operator| {
            let value = term[index..].strip_prefix(operator)?;
            Some((&term[..index], operator, value))
        })
    })
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => escaped,
                other => return Err(SelectorError::InvalidEscape(other.map(String::from).unwrap_or_default())),
            },
            ',' | '=' => return Err(SelectorError::Unescaped(character.into())),
            other => other,
        });
    }
    Ok(plain)
}
