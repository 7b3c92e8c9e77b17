//! Objects as rows of tables, as kubectl prints them.
//!
//! The columns of built-in kinds are captured facts, those of custom resources come from their
//! CRDs; the cells are found here, and in `table/cells.rs` for kinds that need more than a path.

mod cells;
mod system_cells;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::catalog::{PrinterColumn, ResourceType};
use crate::support::capture;

/// The definitions of the columns.
pub(super) fn columns(resource: &ResourceType) -> Value {
    match resource.custom() {
        None => captured_columns(&format!("{}/{}", resource.api_version(), resource.plural)),
        Some(custom) if custom.columns.is_empty() => {
            let namespaces = captured_columns("v1/namespaces");
            let mut age = namespaces[2].clone();
            age["type"] = json!("date");
            json!([namespaces[0], age])
        }
        Some(custom) => {
            let mut columns = vec![captured_columns("v1/namespaces")[0].clone()];
            columns.extend(custom.columns.iter().map(|column| {
                json!({"name": column.name, "type": column.kind, "format": column.format,
                    "description": column.description, "priority": column.priority})
            }));
            Value::Array(columns)
        }
    }
}

/// Whether the kind has the default columns only.
pub(super) fn is_plain(resource: &ResourceType) -> bool {
    columns(resource)[1]["name"] == "Created At"
}

/// The cells of an object, one per column.
pub(super) fn cells(resource: &ResourceType, object: &Value, now: Timestamp) -> Vec<Value> {
    let name = object["metadata"]["name"].clone();
    match resource.custom() {
        None => {
            let columns = columns(resource);
            let columns = columns.as_array().into_iter().flatten();
            let kind = resource.qualified();
            let cell = |column: &Value| {
                let title = column["name"].as_str().unwrap_or_default();
                system_cells::cell(kind, title, object).unwrap_or_else(|| cells::cell(kind, title, object, now))
            };
            let mut cells: Vec<Value> = columns.map(cell).collect();
            if resource.is("networking.k8s.io", "ipaddresses") {
                // A real server shows the age, too, but has no column for it.
                cells.push(age(&object["metadata"]["creationTimestamp"], now));
            }
            cells
        }
        Some(custom) if custom.columns.is_empty() => vec![name, age(&object["metadata"]["creationTimestamp"], now)],
        Some(custom) => {
            std::iter::once(name).chain(custom.columns.iter().map(|column| custom_cell(column, object, now))).collect()
        }
    }
}

fn captured_columns(name: &str) -> Value {
    let found = capture::value("tables").and_then(|tables| tables.get(name).cloned());
    // Kinds that cannot be listed have no table.
    found.unwrap_or_else(|| capture::value("tables").map(|all| all["v1/serviceaccounts"].clone()).unwrap_or_default())
}

fn custom_cell(column: &PrinterColumn, object: &Value, now: Timestamp) -> Value {
    let Some(value) = column.path.as_ref().and_then(|path| path.find(object)) else { return Value::Null };
    match (column.kind.as_str(), value) {
        (_, Value::Null) => Value::Null,
        ("date", value) => age(value, now),
        ("string", Value::String(text)) => json!(text),
        ("string", other) => json!(other.to_string()),
        ("integer", value) => value
            .as_i64()
            .or_else(|| value.as_f64().map(|float| float as i64))
            .map_or(Value::Null, |number| json!(number)),
        ("number", value) => value.as_f64().map_or(Value::Null, |_| value.clone()),
        ("boolean", value) => value.as_bool().map_or(Value::Null, |flag| json!(flag)),
        (_, value) => value.clone(),
    }
}

/// How long ago a time was.
pub(super) fn age(time: &Value, now: Timestamp) -> Value {
    match time.as_str().and_then(|text| text.parse::<Timestamp>().ok()) {
        Some(time) => json!(human_duration(now.duration_since(time).as_secs())),
        None => json!("<unknown>"),
    }
}

/// A duration in its two largest units.
pub(super) fn human_duration(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let with = |first: i64, unit: char, second: i64, smaller: char| match second {
        0 => format!("{first}{unit}"),
        second => format!("{first}{unit}{second}{smaller}"),
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 120 => format!("{seconds}s"),
        _ if minutes < 10 => with(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => with(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 24 * 8 => with(hours / 24, 'd', hours % 24, 'h'),
        _ if hours < 24 * 365 * 2 => format!("{}d", hours / 24),
        _ if hours < 24 * 365 * 8 => with(hours / 24 / 365, 'y', hours / 24 % 365, 'd'),
        _ => format!("{}y", hours / 24 / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        for (seconds, expected) in [
            (-5, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (601, "10m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (9 * 3600 + 60, "9h"),
            (49 * 3600, "2d1h"),
            (48 * 3600, "2d"),
            (30 * 86_400, "30d"),
            (3 * 365 * 86_400, "3y"),
        ] {
            assert_eq!(human_duration(seconds), expected, "{seconds}");
        }
    }
}
