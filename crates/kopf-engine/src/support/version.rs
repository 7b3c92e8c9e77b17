//! Resource versions as numbers, to tell which of two states of an object is the newer one.

use std::num::NonZeroU64;

/// A version of an object that can be compared with others. There is one per object: every word counts.
pub(crate) type Version = NonZeroU64;

/// The number in a resource version; None if it is not a number, and cannot be compared.
pub(crate) fn version_number(version: Option<&str>) -> Option<Version> {
    version.and_then(|version| version.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_can_be_compared() {
        assert_eq!(version_number(Some("12")), NonZeroU64::new(12));
        assert_eq!(version_number(Some("0")), None);
        assert_eq!(version_number(Some("12x")), None);
    }
}
