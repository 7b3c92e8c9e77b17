//! Laying an applied configuration over the live object.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::path::PathElement;
use super::shape::{List, SchemaPosition, Shape, Sort};

/// The live object with the values of the configuration.
pub(super) fn merge(shape: &Shape<'_>, live: &Value, config: &Value) -> Value {
    visit(shape, shape.root(), Some(live), Some(config)).unwrap_or_default()
}

fn visit(shape: &Shape<'_>, position: SchemaPosition, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    let atom = shape.atom(position);
    let leaf = || config.or(live).cloned();
    let sort = match config {
        None => atom.sort_of(live),
        Some(_) => atom.sort_of(config),
    };
    match sort {
        Some(Sort::Map) => {
            let none = Map::new();
            let live_fields = live.and_then(Value::as_object).unwrap_or(&none);
            let config_fields = config.and_then(Value::as_object).unwrap_or(&none);
            if atom.map == Some(true) || (live_fields.is_empty() && config_fields.is_empty()) {
                return leaf();
            }
            let mut merged = Map::new();
            let added = config_fields.keys().filter(|name| !live_fields.contains_key(*name));
            for name in live_fields.keys().chain(added) {
                let below = shape.field(position, name).0;
                if let Some(value) = visit(shape, below, live_fields.get(name), config_fields.get(name)) {
                    merged.insert(name.clone(), value);
                }
            }
            (!merged.is_empty()).then_some(Value::Object(merged))
        }
        Some(Sort::List) => {
            let live_items = live.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let config_items = config.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let list = atom.list.unwrap_or(List::Atomic);
            if list == List::Atomic || (live_items.is_empty() && config_items.is_empty()) {
                return leaf();
            }
            let merged = merge_items(shape, position, &list, live_items, config_items);
            (!merged.is_empty()).then_some(Value::Array(merged))
        }
        Some(Sort::Scalar) | None => leaf(),
    }
}

/// Merges two lists with keys. Items of the configuration come in its order; items that only the
/// live list has stay where they are, relative to those that both have.
fn merge_items(
    shape: &Shape<'_>,
    position: SchemaPosition,
    list: &List<'_>,
    live: &[Value],
    config: &[Value],
) -> Vec<Value> {
    let index = |items: &[Value]| -> Vec<(PathElement, Value)> {
        items.iter().filter_map(|item| Some((shape.element(position, list, item).ok()?, item.clone()))).collect()
    };
    let (live, config) = (index(live), index(config));
    // Repeated items of the live list are not merged with anything.
    let mut live_values: BTreeMap<PathElement, Option<Value>> = BTreeMap::new();
    for (element, item) in &live {
        live_values.entry(element.clone()).and_modify(|known| *known = None).or_insert_with(|| Some(item.clone()));
    }
    let config_values: BTreeMap<PathElement, Value> = config.iter().cloned().collect();
    let items_position = shape.item(position);
    let both = |element: &PathElement| {
        let live = live_values.get(element).cloned().flatten();
        visit(shape, items_position, live.as_ref(), config_values.get(element))
    };
    let mut shared = config.iter().map(|(element, _)| element).filter(|element| live_values.contains_key(*element));
    let mut next_shared = shared.next();
    let mut done: Vec<&PathElement> = Vec::new();
    let mut merged = Vec::new();
    let (mut left, mut right) = (0, 0);
    while left < live.len() || right < config.len() {
        if let (Some((element, _)), Some((wanted, _))) = (live.get(left), config.get(right)) {
            if element == wanted {
                done.push(wanted);
                merged.extend(both(wanted));
                left += 1;
                right += 1;
                next_shared = shared.next();
                continue;
            }
            if config_values.contains_key(element) && next_shared.is_some_and(|next| next != element) {
                left += 1;
                continue;
            }
        }
        if let Some((element, item)) = live.get(left) {
            if !config_values.contains_key(element) {
                merged.extend(visit(shape, items_position, Some(item), None));
                left += 1;
                continue;
            }
            if done.contains(&element) {
                left += 1;
            }
        }
        if let Some((element, _)) = config.get(right) {
            done.push(element);
            merged.extend(both(element));
            right += 1;
            if next_shared == Some(element) {
                next_shared = shared.next();
            }
        }
    }
    merged
}
