//! Misbehaviour on demand: each is for one request, chosen by its label.

use std::time::Duration;

use super::store::Store;

/// How a request is answered instead of properly.
pub(crate) enum Fault {
    /// By a code and a message; nothing is done.
    Refused(u16, &'static str),
    /// By a code, though everything was done as asked.
    Done(u16),
    /// Properly, but late.
    Slow(Duration),
    /// Not at all: the connection breaks before anything is done.
    Broken,
    /// Not at all, and nothing is ever said.
    Silence,
    /// Properly, but something happens right before it is done.
    After(Box<dyn FnOnce(&mut Store) + Send>),
}

impl Fault {
    pub(crate) fn after(meanwhile: impl FnOnce(&mut Store) + Send + 'static) -> Self {
        Self::After(Box::new(meanwhile))
    }
}

/// What is still to go wrong, in order.
#[derive(Default)]
pub(super) struct Faults {
    planned: Vec<(String, Fault)>,
}

impl Faults {
    pub(super) fn add(&mut self, label: &str, fault: Fault) {
        self.planned.push((label.to_owned(), fault));
    }

    pub(super) fn take(&mut self, label: &str) -> Option<Fault> {
        let index = self.planned.iter().position(|(planned, _)| planned == label)?;
        Some(self.planned.remove(index).1)
    }
}
