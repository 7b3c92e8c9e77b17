//! The items of lists in strategic merge patches: identity, directives and order.

use serde_json::Value;

use crate::go::go_plain;

use super::strategic::{PATCH, StrategicPatchError, unknown_directive};

/// Whether the items of both lists are objects; they must be all of one type.
pub(super) fn are_maps(first: &[Value], second: &[Value]) -> Result<bool, StrategicPatchError> {
    let mut all = first.iter().chain(second);
    let Some(sample) = all.next() else {
        return Err(StrategicPatchError::Other("no elements in any of the given slices".to_owned()));
    };
    if sample.is_array() {
        return Err(StrategicPatchError::ListOfLists);
    }
    if all.any(|item| std::mem::discriminant(item) != std::mem::discriminant(sample)) {
        let lists = Value::Array(vec![Value::Array(first.to_vec()), Value::Array(second.to_vec())]);
        return Err(StrategicPatchError::Other(format!("list element types are not identical: {}", go_plain(&lists))));
    }
    Ok(sample.is_object())
}

/// Carries out the `$patch` items of a list, and returns the list and the patch without them.
pub(super) fn apply_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), StrategicPatchError> {
    let mut plain = Vec::new();
    let mut replaces = false;
    for item in patch {
        match item.get(PATCH).map(|directive| directive.as_str()) {
            None => plain.push(item),
            Some(Some("delete")) => {
                let key = item.get(merge_key).ok_or_else(|| StrategicPatchError::no_merge_key(&item, merge_key))?;
                while let Some(position) = position_of(&original, merge_key, key)? {
                    original.remove(position);
                }
            }
            Some(Some("replace")) => replaces = true,
            Some(Some("merge")) => {
                return Err(StrategicPatchError::Other(
                    "merging lists cannot yet be specified in the patch".to_owned(),
                ));
            }
            Some(_) => {
                let fields = item.as_object().cloned().unwrap_or_default();
                return Err(unknown_directive(&item[PATCH], &fields));
            }
        }
    }
    Ok(if replaces { (plain, Vec::new()) } else { (original, plain) })
}

/// Where the item with this key is.
pub(super) fn position_of(items: &[Value], merge_key: &str, key: &Value) -> Result<Option<usize>, StrategicPatchError> {
    for (position, item) in items.iter().enumerate() {
        if !item.is_object() {
            return Err(StrategicPatchError::Other(format!("value for key {position} is not a map")));
        }
        if item.get(merge_key) == Some(key) {
            return Ok(Some(position));
        }
    }
    Ok(None)
}

/// Each scalar once. The last item fills the gap of a repeated one, as on the server.
pub(super) fn without_repetitions(mut items: Vec<Value>) -> Vec<Value> {
    let mut first = 0;
    while first + 1 < items.len() {
        let mut second = first + 1;
        while second < items.len() {
            match items[first] == items[second] {
                true => drop(items.swap_remove(second)),
                false => second += 1,
            }
        }
        first += 1;
    }
    items
}

/// Puts a merged list in order: the items of the patch as the patch has them, the others as they
/// were, both interleaved as they were.
pub(super) fn in_order(
    merged: Vec<Value>,
    patch_order: &[Value],
    old_order: &[Value],
    merge_key: &str,
) -> Result<Vec<Value>, StrategicPatchError> {
    if let Some(item) = merged.iter().find(|item| !merge_key.is_empty() && item.get(merge_key).is_none()) {
        return Err(StrategicPatchError::no_merge_key(item, merge_key));
    }
    let place = |order: &[Value], item: &Value| order.iter().position(|other| is_same(item, other, merge_key));
    let (mut from_patch, mut others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| place(patch_order, item).is_some());
    from_patch.sort_by_key(|item| place(patch_order, item));
    others.sort_by_key(|item| place(old_order, item));
    let mut from_patch = from_patch.into_iter().peekable();
    let mut ordered = Vec::new();
    for other in others {
        while let Some(item) = from_patch.peek() {
            let is_before = match (place(old_order, &other), place(old_order, item)) {
                (Some(other), Some(item)) => other < item,
                _ => false,
            };
            if is_before {
                break;
            }
            ordered.extend(from_patch.next());
        }
        ordered.push(other);
    }
    ordered.extend(from_patch);
    Ok(ordered)
}

fn is_same(left: &Value, right: &Value, merge_key: &str) -> bool {
    match merge_key.is_empty() {
        true => left == right,
        false => left.get(merge_key).is_some() && left.get(merge_key) == right.get(merge_key),
    }
}

/// Whether the items of a patch follow the order of its `$setElementOrder`.
pub(super) fn check_order(patch: &[Value], order: &[Value], merge_key: &str) -> Result<(), StrategicPatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut places = order.iter();
    for item in patch.iter().filter(|item| item.get(PATCH).is_none()) {
        let key_of = |item: &Value| match merge_key.is_empty() {
            true => Ok(item.clone()),
            false if !item.is_object() => Err(StrategicPatchError::wrong_type("map[string]interface {}", item)),
            false => item.get(merge_key).cloned().ok_or_else(|| StrategicPatchError::no_merge_key(item, merge_key)),
        };
        let wanted = key_of(item)?;
        loop {
            let Some(place) = places.next() else {
                return Err(StrategicPatchError::Other(format!(
                    "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                    go_plain(&Value::Array(patch.to_vec())),
                    go_plain(&Value::Array(order.to_vec()))
                )));
            };
            if key_of(place)? == wanted {
                break;
            }
        }
    }
    Ok(())
}
