//! The language of the rules, and how they are read.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::value_checks as values;
use super::value_checks::is_empty;
use crate::go::{FieldError, FieldErrorKind};

pub(super) type Rules = &'static [Rule];
pub(super) type Errors = Vec<FieldError>;

/// One thing that must hold. StructFields are named by paths with dots, from the place of the rule.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// The field must be there, and not be empty.
    Required(&'static str),
    /// The same, with a reason.
    Needs(&'static str, &'static str),
    /// The field must pass, if it is there and not empty.
    Is(&'static str, ValueCheck),
    /// The field must pass, if it is there; an empty one counts.
    Given(&'static str, ValueCheck),
    /// The field must pass; one that is not there is empty.
    Must(&'static str, ValueCheck),
    /// Rules for the fields of an object, if it is there.
    In(&'static str, Rules),
    /// Rules for the fields of an object; one that is not there is empty.
    Within(&'static str, Rules),
    /// Rules for every item of a list.
    Each(&'static str, Rules),
    /// Among the items of the list no earlier one has the same value here.
    Unique(&'static str),
    /// Rules that count only under a condition.
    If(Condition, Rules),
    /// A complaint about a field, for use under a condition.
    Forbid(&'static str, &'static str),
    /// The same, quoting the value.
    Refuse(&'static str, &'static str),
    /// The field is immutable.
    Immutable(&'static str),
    /// The field is immutable; the error is of type Forbidden.
    Frozen(&'static str, &'static str),
    /// A function, for what no rule expresses.
    Code(fn(&Location<'_>, &mut Errors)),
}

/// When rules count.
#[derive(Clone, Copy)]
pub(super) enum Condition {
    /// The object is new.
    New,
    /// The object is changed.
    Changing,
    /// The field has this text.
    Is(&'static str, &'static str),
    /// The field has another text, or none.
    IsNot(&'static str, &'static str),
    /// The field is true.
    True(&'static str),
    /// The field is there.
    Has(&'static str),
    /// The field is not there, or empty.
    Lacks(&'static str),
}

/// What one value must be.
#[derive(Clone, Copy)]
pub(super) enum ValueCheck {
    /// A string; the function returns its problems.
    Text(fn(&str) -> Vec<String>),
    /// One of the values.
    OneOf(&'static [&'static str]),
    /// A number of at least zero.
    NonNegative,
    /// A number above zero, with the words for it.
    Positive(&'static str),
    /// A number in a range.
    Between(i64, i64),
    /// A port by its number or its name.
    PortOrName,
    /// A number, or a percentage such as `25%`; not negative.
    NumberOrPercent,
    /// The same, of at most all of them.
    NumberOrPart,
    /// At most all of them, if it is a percentage.
    AtMostAll,
    /// The mode of a file.
    Mode,
    /// A string of at most this many bytes.
    AtMostBytes(i64),
}

/// A place in an object.
pub(super) struct Location<'a> {
    pub value: &'a Value,
    /// The old value, if the object is changed.
    pub old: Option<&'a Value>,
    /// Whether the object is new.
    pub is_new: bool,
    pub path: String,
    /// Where this place is.
    pub parent: Option<&'a Location<'a>>,
    /// The list in which this place is an item, and its position.
    siblings: Option<(&'a [Value], usize)>,
}

static EMPTY: LazyLock<Value> = LazyLock::new(|| json!({}));

/// Reads rules over a whole object.
pub(super) fn run(rules: Rules, object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Vec::new();
    let root =
        Location { value: object, old, is_new: old.is_none(), path: String::new(), parent: None, siblings: None };
    root.check(rules, &mut errors);
    errors
}

impl<'a> Location<'a> {
    pub(super) fn check(&self, rules: Rules, errors: &mut Errors) {
        for rule in rules {
            self.check_one(rule, errors);
        }
    }

    fn check_one(&self, rule: &Rule, errors: &mut Errors) {
        match *rule {
            Rule::Required(field) => self.require(field, "", errors),
            Rule::Needs(field, detail) => self.require(field, detail, errors),
            Rule::Is(field, test) => {
                if let Some(value) = self.get(field).filter(|value| !is_empty(value)) {
                    values::test(test, &self.at(field), value, errors);
                }
            }
            Rule::Given(field, test) => {
                if let Some(value) = self.get(field) {
                    values::test(test, &self.at(field), value, errors);
                }
            }
            Rule::Must(field, test) => {
                let empty =
                    if matches!(test, ValueCheck::Text(_) | ValueCheck::OneOf(_)) { json!("") } else { json!(0) };
                values::test(test, &self.at(field), self.get(field).unwrap_or(&empty), errors);
            }
            Rule::In(field, rules) => {
                if let Some(location) = self.enter(field) {
                    location.check(rules, errors);
                }
            }
            Rule::Within(field, rules) => self.within(field).check(rules, errors),
            Rule::Each(field, rules) => self.items(field, |item| item.check(rules, errors)),
            Rule::Unique(field) => self.unique(field, errors),
            Rule::If(condition, rules) => {
                if self.holds(condition) {
                    self.check(rules, errors);
                }
            }
            Rule::Forbid(field, detail) => errors.push(FieldError::forbidden(self.at(field), detail)),
            Rule::Refuse(field, detail) => {
                errors.push(FieldError::invalid(self.at(field), self.get(field).cloned().unwrap_or(json!("")), detail));
            }
            Rule::Immutable(field) => {
                if self.changes(field) {
                    let value = self.get(field).cloned().unwrap_or_default();
                    errors.push(FieldError::invalid(self.at(field), value, "field is immutable"));
                }
            }
            Rule::Frozen(field, detail) => {
                if self.changes(field) {
                    errors.push(FieldError::forbidden(self.at(field), detail));
                }
            }
            Rule::Code(code) => code(self, errors),
        }
    }

    fn require(&self, field: &str, detail: &str, errors: &mut Errors) {
        if self.get(field).is_none_or(is_empty) {
            errors.push(FieldError::required(self.at(field), detail));
        }
    }

    fn unique(&self, field: &str, errors: &mut Errors) {
        let Some((siblings, position)) = self.siblings else { return };
        let Some(value) = self.get(field).filter(|value| !is_empty(value)) else { return };
        if siblings.iter().take(position).any(|earlier| below(earlier, field) == Some(value)) {
            errors.push(FieldError::duplicate(self.at(field), value.clone()));
        }
    }

    pub(super) fn holds(&self, condition: Condition) -> bool {
        match condition {
            Condition::New => self.is_new,
            Condition::Changing => !self.is_new,
            Condition::Is(field, text) => self.text(field) == text,
            Condition::IsNot(field, text) => self.text(field) != text,
            Condition::True(field) => self.get(field) == Some(&Value::Bool(true)),
            Condition::Has(field) => self.get(field).is_some(),
            Condition::Lacks(field) => self.get(field).is_none_or(is_empty),
        }
    }

    /// Whether the field is another one than before.
    pub(super) fn changes(&self, field: &str) -> bool {
        let meaning = |value: Option<&'a Value>| value.filter(|value| !is_empty(value));
        !self.is_new && meaning(self.old.and_then(|old| below(old, field))) != meaning(self.get(field))
    }

    /// A field, if it is there and not null.
    pub(super) fn get(&self, field: &str) -> Option<&'a Value> {
        below(self.value, field).filter(|value| !value.is_null())
    }

    /// The text of a field; empty if there is none.
    pub(super) fn text(&self, field: &str) -> &'a str {
        self.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn number(&self, field: &str) -> Option<i64> {
        self.get(field).and_then(Value::as_i64)
    }

    /// The items of a list; none if there is no list.
    pub(super) fn list(&self, field: &str) -> &'a [Value] {
        self.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    /// The path of a field.
    pub(super) fn at(&self, field: &str) -> String {
        match (self.path.is_empty(), field.is_empty()) {
            (_, true) => self.path.clone(),
            (true, false) => field.to_owned(),
            (false, false) => format!("{}.{field}", self.path),
        }
    }

    /// The place of a field, if it is there.
    pub(super) fn enter<'s>(&'s self, field: &str) -> Option<Location<'s>> {
        let value = self.get(field)?;
        let old = self.old.and_then(|old| below(old, field));
        Some(self.child(value, old, self.at(field), None))
    }

    /// The place of a field; an empty object if it is not there.
    pub(super) fn within<'s>(&'s self, field: &str) -> Location<'s> {
        let old = self.old.and_then(|old| below(old, field));
        self.child(self.get(field).unwrap_or(&EMPTY), old, self.at(field), None)
    }

    /// A value that errors report at this path.
    pub(super) fn reported_here<'s>(&'s self, value: &'s Value) -> Location<'s> {
        self.child(value, None, self.path.clone(), None)
    }

    /// The path of the list in which this place is an item.
    pub(super) fn list_path(&self) -> String {
        self.path.rsplit_once('[').map(|(list, _)| list.to_owned()).unwrap_or_default()
    }

    /// Visits every item of a list.
    pub(super) fn items(&self, field: &str, mut visit: impl FnMut(&Location<'_>)) {
        let list = self.list(field);
        let old = self.old.and_then(|old| below(old, field));
        for (position, item) in list.iter().enumerate() {
            let path = format!("{}[{position}]", self.at(field));
            let old = old.and_then(|old| old.get(position));
            visit(&self.child(item, old, path, Some((list, position))));
        }
    }

    fn child<'s>(
        &'s self,
        value: &'s Value,
        old: Option<&'s Value>,
        path: String,
        siblings: Option<(&'s [Value], usize)>,
    ) -> Location<'s> {
        Location { value, old, is_new: self.is_new, path, parent: Some(self), siblings }
    }

    /// The items of the list before this one.
    pub(super) fn earlier(&self) -> &'a [Value] {
        self.siblings.map(|(list, position)| &list[..position]).unwrap_or_default()
    }

    /// The nearest place around this one that has the field.
    pub(super) fn around(&self, field: &str) -> Option<&'a Value> {
        let mut location = Some(self);
        while let Some(current) = location {
            if let Some(value) = below(current.value, field) {
                return Some(value);
            }
            location = current.parent;
        }
        None
    }

    pub(super) fn invalid(&self, field: &str, detail: impl Into<String>) -> FieldError {
        FieldError::invalid(self.at(field), self.get(field).cloned().unwrap_or(json!("")), detail)
    }

    pub(super) fn not_found(&self, field: &str, value: Value, detail: &str) -> FieldError {
        FieldError::new(FieldErrorKind::NotFound, self.at(field), value, detail)
    }
}

/// A field by its path with dots; the empty path is the value itself.
pub(super) fn below<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    match path {
        "" => Some(value),
        path => path.split('.').try_fold(value, |value, name| value.get(name)),
    }
}
