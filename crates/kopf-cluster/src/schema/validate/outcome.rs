//! The complaints about one value, and how much of it was fine.
//!
//! Of several alternatives that all fail, the server shows the complaints of the one that
//! matched best. "Best" is a count of passed checks, kept exactly as the server keeps it.

use crate::go::field_error::FieldError;

/// What came out of checking one value against one schema.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The complaints, each once.
    pub errors: Vec<FieldError>,
    /// How many checks were made and passed, by the server's way of counting.
    pub matches: usize,
}

impl Outcome {
    /// A passed check.
    pub(super) fn passed() -> Self {
        Self { errors: Vec::new(), matches: 1 }
    }

    /// A failed check.
    pub(super) fn failed(error: FieldError) -> Self {
        Self { errors: vec![error], matches: 0 }
    }

    /// Whether there are no errors.
    pub(super) fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    /// Adds a complaint, unless it was made already.
    pub(super) fn add(&mut self, error: FieldError) {
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    /// Adds all of another outcome.
    pub(super) fn merge(&mut self, other: Outcome) {
        self.matches += other.matches;
        other.errors.into_iter().for_each(|error| self.add(error));
    }
}
