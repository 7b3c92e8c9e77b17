//! What a handler expects of a value of the object.

use serde::Deserialize;
use serde_json::Value;

/// What is expected of one value.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "FilterJson")]
pub enum Filter {
    Present,
    Absent,
    Equals(Value),
    /// A function of the user decides.
    Callback,
}

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
