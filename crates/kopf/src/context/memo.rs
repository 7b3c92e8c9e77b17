//! What handlers remember about an object in memory, from call to call, until the object is gone.
//!
//! One value per type. Nothing survives a restart: store what must survive on the object.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The in-memory values of one object: at most one of each type. Clones share them.
///
/// ```
/// use kopf::extract::Memo;
///
/// #[derive(Default)]
/// struct Attempts(u32);
///
/// let memo = Memo::new();
/// let attempts = memo.with(|attempts: &mut Attempts| {
///     attempts.0 += 1;
///     attempts.0
/// });
/// assert_eq!(attempts, 1);
/// ```
#[derive(Clone, Default)]
pub struct Memo {
    values: Arc<Mutex<Values>>,
}

type Values = HashMap<TypeId, Box<dyn Any + Send>>;

impl Memo {
    /// An empty memo, for calling handlers in tests.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores a value, and returns the one that was there.
    pub fn insert<T: Send + 'static>(&self, value: T) -> Option<T> {
        taken(self.lock().insert(TypeId::of::<T>(), Box::new(value)))
    }

    /// A copy of the value.
    pub fn get<T: Clone + Send + 'static>(&self) -> Option<T> {
        self.lock().get(&TypeId::of::<T>())?.downcast_ref::<T>().cloned()
    }

    /// Removes the value and returns it.
    pub fn remove<T: Send + 'static>(&self) -> Option<T> {
        taken(self.lock().remove(&TypeId::of::<T>()))
    }

    /// Changes the value in place, starting with its default. The memo is locked meanwhile.
    pub fn with<T: Default + Send + 'static, R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let mut values = self.lock();
        let value = values.entry(TypeId::of::<T>()).or_insert_with(|| Box::new(T::default()));
        match value.downcast_mut::<T>() {
            Some(value) => work(value),
            None => unreachable!("the values are stored by their types"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Values> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Memo {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Memo").field("values", &self.lock().len()).finish()
    }
}

fn taken<T: 'static>(value: Option<Box<dyn Any + Send>>) -> Option<T> {
    value?.downcast::<T>().ok().map(|value| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memo_has_one_value_per_type() {
        let memo = Memo::new();
        assert_eq!(memo.get::<u32>(), None);
        assert_eq!(memo.insert(1u32), None);
        assert_eq!(memo.insert("text"), None);
        assert_eq!(memo.clone().insert(2u32), Some(1));
        memo.with(|value: &mut u32| *value += 1);
        assert_eq!((memo.get::<u32>(), memo.get::<&str>()), (Some(3), Some("text")));
        assert_eq!((memo.remove::<u32>(), memo.remove::<u32>()), (Some(3), None));
    }
}
