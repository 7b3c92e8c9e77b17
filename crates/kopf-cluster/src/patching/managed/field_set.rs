//! Sets of fields: which parts of an object a manager owns (`fieldsV1`).
//!
//! A field and its children are separate members: owning a map does not mean owning its keys.
//! A set is a tree of sorted lists: every write makes some, and most of them are small.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::path::PathElement;

/// A set of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    /// The elements of this level, sorted and unique.
    branches: Vec<(PathElement, Branch)>,
}

/// The members at one element and below. Never empty within a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Branch {
    /// The element itself is in the set.
    pub is_member: bool,
    /// The members below it.
    pub below: FieldSet,
}

impl Branch {
    /// Whether neither the element nor anything below it is in the set.
    pub(crate) fn is_empty(&self) -> bool {
        !self.is_member && self.below.is_empty()
    }

    /// Adds everything of another branch.
    pub(crate) fn add(&mut self, other: Self) {
        self.is_member |= other.is_member;
        self.below.add(other.below);
    }
}

impl FieldSet {
    /// The set of some paths of named fields, such as `["metadata", "name"]`.
    pub(crate) fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let elements: Vec<PathElement> = path.iter().map(|name| PathElement::Field((*name).to_owned())).collect();
            set.insert(&elements);
        }
        set
    }

    /// The set of some branches, in any order, of which no two have the same element.
    pub(crate) fn of_branches(branches: impl IntoIterator<Item = (PathElement, Branch)>) -> Self {
        let mut branches: Vec<_> = branches.into_iter().filter(|(_, branch)| !branch.is_empty()).collect();
        branches.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
        Self { branches }
    }

    /// Parses a `fieldsV1`.
    pub(crate) fn parse(fields: &Value) -> Self {
        let mut set = Self::default();
        for (name, below) in fields.as_object().into_iter().flatten() {
            if name == "." {
                continue;
            }
            let Some(element) = PathElement::parse(name) else { continue };
            let child = Self::parse(below);
            let is_member = child.is_empty() || below.get(".").is_some();
            let branch = set.branch_mut(element);
            branch.is_member |= is_member;
            if !child.is_empty() {
                branch.below = child;
            }
        }
        set
    }

    /// The set as `fieldsV1`.
    pub(crate) fn to_fields(&self) -> Value {
        let mut fields = Map::with_capacity(self.branches.len());
        self.write_fields(&mut fields);
        Value::Object(fields)
    }

    fn write_fields(&self, fields: &mut Map<String, Value>) {
        for (element, branch) in &self.branches {
            let mut below = Map::new();
            if !branch.below.is_empty() {
                below = Map::with_capacity(branch.below.branches.len() + 1);
                if branch.is_member {
                    below.insert(".".to_owned(), Value::Object(Map::new()));
                }
                branch.below.write_fields(&mut below);
            }
            fields.insert(element.serialize(), Value::Object(below));
        }
    }

    /// Whether nothing is in the set.
    pub(crate) fn is_empty(&self) -> bool {
        self.branches.is_empty()
    }

    /// The branches of this level.
    pub(crate) fn branches(&self) -> &[(PathElement, Branch)] {
        &self.branches
    }

    /// The branch of an element.
    pub(crate) fn branch(&self, element: &PathElement) -> Option<&Branch> {
        let position = self.branches.binary_search_by(|(known, _)| known.cmp(element)).ok()?;
        self.branches.get(position).map(|(_, branch)| branch)
    }

    /// The same, made if it is missing; the caller puts something into it.
    fn branch_mut(&mut self, element: PathElement) -> &mut Branch {
        let position = match self.branches.last().map(|(last, _)| last.cmp(&element)) {
            // Sets are mostly read in their order.
            None | Some(Ordering::Less) => Err(self.branches.len()),
            _ => self.branches.binary_search_by(|(known, _)| known.cmp(&element)),
        };
        let position = position.unwrap_or_else(|position| {
            self.branches.insert(position, (element, Branch::default()));
            position
        });
        &mut self.branches[position].1
    }

    /// Adds a path; the root is never a member.
    pub(crate) fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => self.branch_mut(last.clone()).is_member = true,
            [first, rest @ ..] => self.branch_mut(first.clone()).below.insert(rest),
        }
    }

    /// Adds everything of another set.
    pub(crate) fn add(&mut self, other: Self) {
        if self.branches.is_empty() {
            *self = other;
            return;
        }
        for (element, branch) in other.branches {
            self.branch_mut(element).add(branch);
        }
    }

    /// Everything of both sets.
    pub(crate) fn union(&self, other: &Self) -> Self {
        let mut union = self.clone();
        union.add(other.clone());
        union
    }

    /// The members of both sets.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let both = self.branches.iter().filter_map(|(element, mine)| {
            let theirs = other.branch(element)?;
            let is_member = mine.is_member && theirs.is_member;
            let both = Branch { is_member, below: mine.below.intersection(&theirs.below) };
            (!both.is_empty()).then(|| (element.clone(), both))
        });
        Self { branches: both.collect() }
    }

    /// Removes the members of the other set. Members below them stay.
    pub(crate) fn remove(&mut self, other: &Self) {
        self.remove_by(other, false);
    }

    /// Removes the members that are in the other set or below one of its members.
    pub(crate) fn remove_with_below(&mut self, other: &Self) {
        self.remove_by(other, true);
    }

    fn remove_by(&mut self, other: &Self, with_below: bool) {
        if other.branches.is_empty() {
            return;
        }
        self.branches.retain_mut(|(element, mine)| {
            let Some(theirs) = other.branch(element) else { return true };
            if theirs.is_member && with_below {
                return false;
            }
            mine.is_member &= !theirs.is_member;
            mine.below.remove_by(&theirs.below, with_below);
            !mine.is_empty()
        });
    }

    /// The members that the other set does not have. Members below a member of the other set stay.
    pub(crate) fn difference(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        rest.remove(other);
        rest
    }

    /// The members that are neither in the other set nor below one of its members.
    pub(crate) fn outside_of(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        rest.remove_with_below(other);
        rest
    }

    /// All paths, those of a level before those below.
    pub(crate) fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut paths = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect_paths(&self, prefix: &mut Vec<PathElement>, paths: &mut Vec<Vec<PathElement>>) {
        for (element, _) in self.branches.iter().filter(|(_, branch)| branch.is_member) {
            let mut path = prefix.clone();
            path.push(element.clone());
            paths.push(path);
        }
        for (element, branch) in &self.branches {
            prefix.push(element.clone());
            branch.below.collect_paths(prefix, paths);
            prefix.pop();
        }
    }
}
