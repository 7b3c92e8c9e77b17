//! What changed between two states of an object, field by field.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::Value;

use super::field_set::{Branch, FieldSet};
use super::path::{PathElement, compare_values};
use super::shape::{Atom, List, SchemaPosition, Shape, Sort};

/// The changed fields.
#[derive(Clone, Debug, Default)]
pub(super) struct Comparison {
    /// Only in the new state.
    pub added: FieldSet,
    /// In both, but different.
    pub modified: FieldSet,
    /// Only in the old state.
    pub removed: FieldSet,
}

impl Comparison {
    /// Removes the changes that are ignored or below something ignored.
    pub(super) fn ignore(&mut self, ignored: &FieldSet) {
        for changes in [&mut self.added, &mut self.modified, &mut self.removed] {
            changes.remove_with_below(ignored);
        }
    }
}

/// Compares two states of an object.
pub(super) fn compare(shape: &Shape<'_>, old: &Value, new: &Value) -> Comparison {
    let mut found = Changes::default();
    Comparer { shape }.visit(shape.root(), Some(old), Some(new), &mut found);
    let Changes { added, modified, removed } = found;
    Comparison { added: added.below, modified: modified.below, removed: removed.below }
}

/// The changes at one position and below it.
#[derive(Default)]
struct Changes {
    added: Branch,
    modified: Branch,
    removed: Branch,
}

/// The changes below one position, unordered.
#[derive(Default)]
struct ChangesBelow {
    added: Vec<(PathElement, Branch)>,
    modified: Vec<(PathElement, Branch)>,
    removed: Vec<(PathElement, Branch)>,
}

impl ChangesBelow {
    fn push(&mut self, found: Changes, element: impl Fn() -> PathElement) {
        let Changes { added, modified, removed } = found;
        for (all, branch) in [(&mut self.added, added), (&mut self.modified, modified), (&mut self.removed, removed)] {
            if !branch.is_empty() {
                all.push((element(), branch));
            }
        }
    }

    /// The same place may be seen as an object and as a list.
    fn put_into(self, found: &mut Changes) {
        found.added.below.add(FieldSet::of_branches(self.added));
        found.modified.below.add(FieldSet::of_branches(self.modified));
        found.removed.below.add(FieldSet::of_branches(self.removed));
    }
}

struct Comparer<'a> {
    shape: &'a Shape<'a>,
}

impl Comparer<'_> {
    fn visit(&self, position: SchemaPosition, old: Option<&Value>, new: Option<&Value>, found: &mut Changes) {
        if let (None, Some(new)) = (old, new) {
            return found.added.add(self.added(position, new));
        }
        let atom = self.shape.atom(position);
        let (old_sort, new_sort) = (atom.sort_of(old), atom.sort_of(new));
        let is_leaf = match (old, new) {
            (_, None) => self.visit_as(old_sort, &atom, position, (old, new), found),
            _ if old_sort == new_sort => self.visit_as(new_sort, &atom, position, (old, new), found),
            _ => {
                self.visit_as(old_sort, &atom, position, (old, new), found);
                self.visit_as(new_sort, &atom, position, (old, new), found)
            }
        };
        if !is_leaf && new.is_none() {
            found.removed.is_member = true;
        }
    }

    /// All fields of a new value. Creations take this path.
    fn added(&self, position: SchemaPosition, new: &Value) -> Branch {
        let atom = self.shape.atom(position);
        let below = match (atom.sort_of(Some(new)), new) {
            (Some(Sort::Map), Value::Object(fields)) if atom.map != Some(true) => {
                FieldSet::of_branches(fields.iter().map(|(name, field)| {
                    (PathElement::Field(name.clone()), self.added(self.shape.field(position, name).0, field))
                }))
            }
            (Some(Sort::List), Value::Array(items)) => match &atom.list {
                None | Some(List::Atomic) => FieldSet::default(),
                Some(list) => self.added_items(position, list, items),
            },
            _ => FieldSet::default(),
        };
        Branch { is_member: true, below }
    }

    fn added_items(&self, position: SchemaPosition, list: &List<'_>, items: &[Value]) -> FieldSet {
        let items_position = self.shape.item(position);
        let mut branches: BTreeMap<PathElement, Branch> = BTreeMap::new();
        for item in items {
            let Ok(element) = self.shape.element(position, list, item) else { continue };
            match branches.entry(element) {
                Entry::Vacant(entry) => drop(entry.insert(self.added(items_position, item))),
                // Duplicate items cannot be distinguished, so nothing below them is recorded.
                Entry::Occupied(mut entry) => entry.get_mut().below = FieldSet::default(),
            }
        }
        FieldSet::of_branches(branches)
    }

    /// Compares as one sort of values; whether it was a leaf, compared as a whole.
    fn visit_as(
        &self,
        sort: Option<Sort>,
        atom: &Atom<'_>,
        position: SchemaPosition,
        (old, new): (Option<&Value>, Option<&Value>),
        found: &mut Changes,
    ) -> bool {
        match sort {
            Some(Sort::Map) => {
                let old_fields = old.and_then(Value::as_object).filter(|fields| !fields.is_empty());
                let new_fields = new.and_then(Value::as_object).filter(|fields| !fields.is_empty());
                if atom.map == Some(true) || (old_fields.is_none() && new_fields.is_none()) {
                    return leaf(old, new, found);
                }
                let mut below = ChangesBelow::default();
                let mut field = |name: &String, old: Option<&Value>, new: Option<&Value>| {
                    let mut found = Changes::default();
                    self.visit(self.shape.field(position, name).0, old, new, &mut found);
                    below.push(found, || PathElement::Field(name.clone()));
                };
                for (name, old) in old_fields.into_iter().flatten() {
                    field(name, Some(old), new_fields.and_then(|fields| fields.get(name)));
                }
                for (name, new) in new_fields.into_iter().flatten() {
                    if old_fields.is_none_or(|fields| !fields.contains_key(name)) {
                        field(name, None, Some(new));
                    }
                }
                below.put_into(found);
                false
            }
            Some(Sort::List) => {
                let old_items = old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let new_items = new.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                match &atom.list {
                    None | Some(List::Atomic) => leaf(old, new, found),
                    _ if old_items.is_empty() && new_items.is_empty() => leaf(old, new, found),
                    Some(list) => {
                        self.items(position, list, old_items, new_items, found);
                        false
                    }
                }
            }
            Some(Sort::Scalar) | None => leaf(old, new, found),
        }
    }

    fn items(&self, position: SchemaPosition, list: &List<'_>, old: &[Value], new: &[Value], found: &mut Changes) {
        let mut both: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for (is_new, item) in old.iter().map(|item| (false, item)).chain(new.iter().map(|item| (true, item))) {
            let Ok(element) = self.shape.element(position, list, item) else { continue };
            let (before, after) = both.entry(element).or_default();
            if is_new { after.push(item) } else { before.push(item) }
        }
        let items_position = self.shape.item(position);
        let mut below = ChangesBelow::default();
        for (element, (before, after)) in both {
            let mut found = Changes::default();
            match (before.as_slice(), after.as_slice()) {
                ([] | [_], [] | [_]) => {
                    self.visit(items_position, before.first().copied(), after.first().copied(), &mut found);
                }
                ([] | [_], _) => {
                    if let Some(item) = before.first() {
                        self.visit(items_position, Some(item), None, &mut found);
                    }
                    found.added.is_member = true;
                }
                (_, [] | [_]) => {
                    if let Some(item) = after.first() {
                        self.visit(items_position, None, Some(item), &mut found);
                    }
                    found.removed.is_member = true;
                }
                _ => {
                    let is_same = before.len() == after.len()
                        && before.iter().zip(&after).all(|(before, after)| compare_values(before, after).is_eq());
                    found.modified.is_member |= !is_same;
                }
            }
            below.push(found, || element.clone());
        }
        below.put_into(found);
    }
}

fn leaf(old: Option<&Value>, new: Option<&Value>, found: &mut Changes) -> bool {
    match (old, new) {
        (None, _) => found.added.is_member = true,
        (_, None) => found.removed.is_member = true,
        (Some(old), Some(new)) => found.modified.is_member |= compare_values(old, new).is_ne(),
    }
    true
}
