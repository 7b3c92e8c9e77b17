//! Sets of fields: which parts of an object somebody owns (`fieldsV1`).
//!
//! A field and what is below it are separate members: owning a mapping is not owning its keys.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::path::PathElement;

/// A set of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// The members right here.
    pub(super) members: BTreeSet<PathElement>,
    /// The sets below; never empty ones.
    pub(super) children: BTreeMap<PathElement, FieldSet>,
}

impl FieldSet {
    /// The set of some paths of named fields, such as `["metadata", "name"]`.
    pub fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let elements: Vec<PathElement> = path.iter().map(|name| PathElement::Field((*name).to_owned())).collect();
            set.insert(&elements);
        }
        set
    }

    /// The set that a `fieldsV1` tells.
    pub fn parse(fields: &Value) -> Self {
        let mut set = Self::default();
        for (name, below) in fields.as_object().into_iter().flatten() {
            if name == "." {
                continue;
            }
            let Some(element) = PathElement::parse(name) else { continue };
            let child = Self::parse(below);
            let is_empty = child.is_empty();
            if is_empty || below.get(".").is_some() {
                set.members.insert(element.clone());
            }
            if !is_empty {
                set.children.insert(element, child);
            }
        }
        set
    }

    /// The set as `fieldsV1`.
    pub fn to_fields(&self) -> Value {
        let mut fields = Map::new();
        let elements: BTreeSet<&PathElement> = self.members.iter().chain(self.children.keys()).collect();
        for element in elements {
            let mut below = Map::new();
            if let Some(child) = self.children.get(element) {
                if self.members.contains(element) {
                    below.insert(".".to_owned(), Value::Object(Map::new()));
                }
                if let Value::Object(inner) = child.to_fields() {
                    below.extend(inner);
                }
            }
            fields.insert(element.serialize(), Value::Object(below));
        }
        Value::Object(fields)
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(FieldSet::is_empty)
    }

    /// Adds a path; the root is never a member.
    pub fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => drop(self.members.insert(last.clone())),
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Whether exactly this path is a member.
    pub fn has(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self.children.get(first).is_some_and(|child| child.has(rest)),
        }
    }

    /// Everything of both sets.
    pub fn union(&self, other: &Self) -> Self {
        let mut union = self.clone();
        union.members.extend(other.members.iter().cloned());
        for (element, child) in &other.children {
            let merged = union.children.get(element).map_or_else(|| child.clone(), |mine| mine.union(child));
            union.children.insert(element.clone(), merged);
        }
        union
    }

    /// The members of both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let members = self.members.intersection(&other.members).cloned().collect();
        let common = self.children.iter().filter_map(|(element, child)| {
            let both = child.intersection(other.children.get(element)?);
            (!both.is_empty()).then(|| (element.clone(), both))
        });
        Self { members, children: common.collect() }
    }

    /// The members that the other set has not. What is below a member of the other set stays.
    pub fn difference(&self, other: &Self) -> Self {
        let members = self.members.difference(&other.members).cloned().collect();
        let rest = self.children.iter().filter_map(|(element, child)| {
            let rest = match other.children.get(element) {
                Some(other) => child.difference(other),
                None => child.clone(),
            };
            (!rest.is_empty()).then(|| (element.clone(), rest))
        });
        Self { members, children: rest.collect() }
    }

    /// The members that are neither in the other set nor below one of its members.
    pub fn outside_of(&self, other: &Self) -> Self {
        let members = self.members.difference(&other.members).cloned().collect();
        let rest = self.children.iter().filter(|(element, _)| !other.members.contains(*element)).filter_map(
            |(element, child)| {
                let rest = match other.children.get(element) {
                    Some(other) => child.outside_of(other),
                    None => child.clone(),
                };
                (!rest.is_empty()).then(|| (element.clone(), rest))
            },
        );
        Self { members, children: rest.collect() }
    }

    /// All paths, those of a level before those below.
    pub fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut paths = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect_paths(&self, prefix: &mut Vec<PathElement>, paths: &mut Vec<Vec<PathElement>>) {
        for member in &self.members {
            let mut path = prefix.clone();
            path.push(member.clone());
            paths.push(path);
        }
        for (element, child) in &self.children {
            prefix.push(element.clone());
            child.collect_paths(prefix, paths);
            prefix.pop();
        }
    }
}
