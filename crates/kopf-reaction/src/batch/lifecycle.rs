//! Lifecycles: which of the due handlers a batch calls, and in which order.

use std::sync::Arc;

use serde::Deserialize;

use crate::Handler;

/// How a batch chooses among the due handlers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// One handler: that with the fewest retries so far.
    #[default]
    Asap,
    /// All of them, in the order of declaration.
    AllAtOnce,
    /// The first one.
    OneByOne,
    /// One at random.
    Randomized,
    /// All of them, in random order.
    Shuffled,
    /// A function of the user decides; the engine asks the front.
    Front,
}

impl Lifecycle {
    /// Chooses among the due handlers; `None` if only the front can decide. `random` returns numbers in 0..1.
    pub(crate) fn choose(
        self,
        due: &[(Arc<Handler>, u32)],
        random: &mut dyn FnMut() -> f64,
    ) -> Option<Vec<Arc<Handler>>> {
        let all = || due.iter().map(|(handler, _)| Arc::clone(handler)).collect::<Vec<_>>();
        let chosen = match self {
            Self::Asap => due
                .iter()
                .min_by_key(|(_, retries)| *retries)
                .map(|(handler, _)| Arc::clone(handler))
                .into_iter()
                .collect(),
            Self::AllAtOnce => all(),
            Self::OneByOne => all().into_iter().take(1).collect(),
            Self::Randomized => {
                let mut handlers = all();
                if handlers.is_empty() { handlers } else { vec![handlers.swap_remove(pick(handlers.len(), random))] }
            }
            Self::Shuffled => {
                let mut handlers = all();
                for last in (1..handlers.len()).rev() {
                    handlers.swap(last, pick(last + 1, random));
                }
                handlers
            }
            Self::Front => return None,
        };
        Some(chosen)
    }
}

fn pick(count: usize, random: &mut dyn FnMut() -> f64) -> usize {
    ((random() * count as f64) as usize).min(count.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HandlerType;

    #[test]
    fn each_lifecycle_chooses_its_handlers() {
        let due: Vec<(Arc<Handler>, u32)> = [("a", 2), ("b", 1), ("c", 1)]
            .iter()
            .enumerate()
            .map(|(index, (id, retries))| (Arc::new(Handler::new(index, id, HandlerType::Change)), *retries))
            .collect();
        let table: [(Lifecycle, Option<&[&str]>); 6] = [
            (Lifecycle::Asap, Some(&["b"])),
            (Lifecycle::AllAtOnce, Some(&["a", "b", "c"])),
            (Lifecycle::OneByOne, Some(&["a"])),
            (Lifecycle::Randomized, Some(&["c"])),
            (Lifecycle::Shuffled, Some(&["a", "b", "c"])),
            (Lifecycle::Front, None),
        ];
        for (lifecycle, expected) in table {
            let chosen = lifecycle.choose(&due, &mut || 0.99);
            let ids = chosen.map(|handlers| handlers.iter().map(|h| h.id.to_string()).collect::<Vec<_>>());
            assert_eq!(ids, expected.map(|ids| ids.iter().map(|id| (*id).to_owned()).collect()), "{lifecycle:?}");
            let nothing = lifecycle.choose(&[], &mut || 0.0);
            assert!(nothing.is_none_or(|handlers| handlers.is_empty()), "{lifecycle:?}");
        }
    }
}
