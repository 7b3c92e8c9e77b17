//! The versions in which objects of a kind can be seen, and owners of fields in each of them.

use serde_json::Value;

use super::compare::{Comparison, compare};
use super::shape::Shape;
use super::typed::misfits;
use crate::schema::Schema;

/// The versions in which objects of a kind can be seen.
pub(crate) trait Versions {
    /// The schema of a version; absent if the version is not served any more.
    fn schema(&self, api_version: &str) -> Option<Schema>;

    /// An object in another version.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, Unconverted>;

    /// Whether somebody from outside says what an object is in another version, or only its name
    /// is changed, so that it may not fit there.
    fn may_misfit(&self) -> bool {
        false
    }
}

/// Why an object cannot be seen in another version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unconverted {
    /// The version does not exist any more: its entries are dropped.
    NoVersion,
    /// The conversion failed.
    Failed(String),
}

/// A kind with one version only, or whose versions differ in nothing that matters here.
#[cfg(test)]
pub(crate) struct OneVersion {
    /// The version, such as `apps/v1`.
    pub api_version: String,
    /// Its schema.
    pub schema: Schema,
}

#[cfg(test)]
impl Versions for OneVersion {
    fn schema(&self, api_version: &str) -> Option<Schema> {
        (api_version == self.api_version).then(|| self.schema.clone())
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, Unconverted> {
        match api_version == self.api_version {
            true => Ok(object.clone()),
            false => Err(Unconverted::NoVersion),
        }
    }
}

/// An object in a version that may be another one, with the schema of that.
pub(super) fn see(versions: &dyn Versions, object: &Value, api_version: &str) -> Result<(Schema, Value), Unconverted> {
    let schema = versions.schema(api_version).ok_or(Unconverted::NoVersion)?;
    if object.get("apiVersion").and_then(Value::as_str) == Some(api_version) {
        return Ok((schema, object.clone()));
    }
    let seen = versions.convert(object, api_version)?;
    if versions.may_misfit() {
        let misfits = misfits(&Shape::new(&schema), &seen, false);
        if !misfits.is_empty() {
            return Err(Unconverted::Failed(listed(&misfits)));
        }
    }
    Ok((schema, seen))
}

/// The changes in another version.
pub(super) fn changes_in(
    versions: &dyn Versions,
    api_version: &str,
    old: &Value,
    new: &Value,
) -> Result<Comparison, Unconverted> {
    // Both are asked for before any of them is waited for.
    let (old, new) = (see(versions, old, api_version), see(versions, new, api_version));
    let (schema, old) = old?;
    let (_, new) = new.map_err(|problem| problem.prefixed("failed to convert new object"))?;
    Ok(compare(&Shape::new(&schema), &old, &new))
}

impl Unconverted {
    /// With what was attempted.
    pub(crate) fn prefixed(self, attempt: &str) -> Self {
        match self {
            Self::NoVersion => Self::NoVersion,
            Self::Failed(reason) => Self::Failed(format!("{attempt}: {reason}")),
        }
    }
}

/// Several flaws in one message.
pub(super) fn listed(flaws: &[String]) -> String {
    match flaws {
        [only] => only.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    }
}
