//! Filters: what a handler expects of one value of an object.

use serde::Deserialize;
use serde_json::Value;

/// What a handler expects of one label, annotation or field.
///
/// ```
/// use kopf_reaction::Filter;
/// use serde_json::json;
///
/// let filter: Filter = serde_json::from_value(json!({"equals": "gold"}))?;
/// assert_eq!(filter, Filter::Equals(json!("gold")));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "FilterJson")]
pub enum Filter {
    /// The value exists, whatever it is.
    Present,
    /// The value does not exist.
    Absent,
    /// The value is equal to this one, as Python compares.
    Equals(Value),
    /// A function of the user decides; the engine asks the front.
    Callback,
}

/// The filter in the JSON of the Python front.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum FilterJson {
    Present(#[allow(dead_code)] bool),
    Absent(#[allow(dead_code)] bool),
    Equals(Value),
    Callback(#[allow(dead_code)] bool),
}

impl From<FilterJson> for Filter {
    fn from(form: FilterJson) -> Self {
        match form {
            FilterJson::Present(_) => Self::Present,
            FilterJson::Absent(_) => Self::Absent,
            FilterJson::Equals(value) => Self::Equals(value),
            FilterJson::Callback(_) => Self::Callback,
        }
    }
}
