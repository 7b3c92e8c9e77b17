//! What changed between two states of an object, field by field.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::field_set::FieldSet;
use super::path::{PathElement, compare_values};
use super::shape::{List, Place, Shape, Sort};

/// The changed fields.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Only in the new state.
    pub added: FieldSet,
    /// In both, but different.
    pub modified: FieldSet,
    /// Only in the old state.
    pub removed: FieldSet,
}

impl Comparison {
    /// The changes that are neither ignored nor below something ignored.
    pub fn outside_of(&self, ignored: &FieldSet) -> Self {
        Self {
            added: self.added.outside_of(ignored),
            modified: self.modified.outside_of(ignored),
            removed: self.removed.outside_of(ignored),
        }
    }
}

/// Compares two states of an object.
pub fn compare(shape: &Shape<'_>, old: &Value, new: &Value) -> Comparison {
    let mut walk = Walk { shape, path: Vec::new(), found: Comparison::default() };
    walk.visit(shape.root(), Some(old), Some(new));
    walk.found
}

struct Walk<'a> {
    shape: &'a Shape<'a>,
    path: Vec<PathElement>,
    found: Comparison,
}

impl Walk<'_> {
    fn visit(&mut self, place: Place, old: Option<&Value>, new: Option<&Value>) {
        let atom = self.shape.atom(place);
        let (old_sort, new_sort) = (atom.sort_of(old), atom.sort_of(new));
        let is_leaf = match (old, new) {
            (_, None) => self.visit_as(old_sort, place, old, new),
            (None, _) => self.visit_as(new_sort, place, old, new),
            _ if old_sort == new_sort => self.visit_as(new_sort, place, old, new),
            _ => {
                self.visit_as(old_sort, place, old, new);
                self.visit_as(new_sort, place, old, new)
            }
        };
        if !is_leaf {
            match (old, new) {
                (None, _) => self.found.added.insert(&self.path),
                (_, None) => self.found.removed.insert(&self.path),
                _ => {}
            }
        }
    }

    /// Compares as one sort of values; whether it was a leaf, compared as a whole.
    fn visit_as(&mut self, sort: Option<Sort>, place: Place, old: Option<&Value>, new: Option<&Value>) -> bool {
        let atom = self.shape.atom(place);
        match sort {
            Some(Sort::Map) => {
                let none = Map::new();
                let old_fields = old.and_then(Value::as_object).unwrap_or(&none);
                let new_fields = new.and_then(Value::as_object).unwrap_or(&none);
                if atom.map == Some(true) || (old_fields.is_empty() && new_fields.is_empty()) {
                    return self.leaf(old, new);
                }
                let added = new_fields.keys().filter(|name| !old_fields.contains_key(*name));
                for name in old_fields.keys().chain(added) {
                    self.path.push(PathElement::Field(name.clone()));
                    self.visit(self.shape.field(place, name).0, old_fields.get(name), new_fields.get(name));
                    self.path.pop();
                }
                false
            }
            Some(Sort::List) => {
                let old_items = old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let new_items = new.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let list = atom.list.unwrap_or(List::Atomic);
                if list == List::Atomic || (old_items.is_empty() && new_items.is_empty()) {
                    return self.leaf(old, new);
                }
                self.items(place, &list, old_items, new_items);
                false
            }
            Some(Sort::Scalar) | None => self.leaf(old, new),
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) -> bool {
        match (old, new) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(old), Some(new)) if compare_values(old, new).is_ne() => self.found.modified.insert(&self.path),
            _ => {}
        }
        true
    }

    fn items(&mut self, place: Place, list: &List, old: &[Value], new: &[Value]) {
        let mut elements: Vec<PathElement> = Vec::new();
        let mut both: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for (is_new, item) in old.iter().map(|item| (false, item)).chain(new.iter().map(|item| (true, item))) {
            let Ok(element) = self.shape.element(place, list, item) else { continue };
            if !both.contains_key(&element) {
                elements.push(element.clone());
            }
            let (before, after) = both.entry(element).or_default();
            if is_new { after.push(item) } else { before.push(item) }
        }
        let items_place = self.shape.item(place);
        for element in elements {
            let Some((before, after)) = both.get(&element) else { continue };
            self.path.push(element);
            match (before.as_slice(), after.as_slice()) {
                ([] | [_], [] | [_]) => self.visit(items_place, before.first().copied(), after.first().copied()),
                ([] | [_], _) => {
                    if let Some(item) = before.first() {
                        self.visit(items_place, Some(item), None);
                    }
                    self.found.added.insert(&self.path);
                }
                (_, [] | [_]) => {
                    if let Some(item) = after.first() {
                        self.visit(items_place, None, Some(item));
                    }
                    self.found.removed.insert(&self.path);
                }
                _ => {
                    let is_same = before.len() == after.len()
                        && before.iter().zip(after).all(|(before, after)| compare_values(before, after).is_eq());
                    if !is_same {
                        self.found.modified.insert(&self.path);
                    }
                }
            }
            self.path.pop();
        }
    }
}
