//! Handlers that change their own object at each call, which calls them again: the next calls are delayed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kopf_reaction::{Reason, Severity, python_repr};
use serde_json::Value;

use super::reactor::ObjectPass;
use crate::front::CycleContext;

/// Updates of one object in a row that its own handlers have caused, before the next ones are delayed.
const OWN_UPDATES_AT_MOST: u8 = 10;

const LONGEST_DELAY: Duration = Duration::from_secs(60);

impl ObjectPass<'_> {
    /// How long the next update must wait, if the handlers cause one update of their object after another.
    pub(super) fn own_update_delay(
        &mut self,
        context: &CycleContext,
        called: &[Arc<str>],
        wanted: Option<&Value>,
    ) -> Option<Duration> {
        let cause = context.cause.get()?;
        let is_wanted =
            wanted.and_then(Value::as_object).is_some_and(|wanted| wanted.keys().any(|key| key != "status"));
        let is_own = cause.reason == Reason::Update && context.event.is_none() && is_wanted;
        let own_updates = &mut self.object.memory.own_updates;
        *own_updates = if is_own { own_updates.saturating_add(1) } else { 0 };
        let excess = own_updates.checked_sub(OWN_UPDATES_AT_MOST)?;
        let delay = Duration::from_secs(1 << excess.min(6)).min(LONGEST_DELAY);
        let fields: BTreeSet<String> = cause.diff.iter().map(|item| item.field.to_string()).collect();
        let handlers: Vec<String> = called.iter().map(|id| python_repr(&Value::from(&**id))).collect();
        let text = format!(
            "Handler {} changes {} of the object it handles at each call, which calls it again: {own_updates} times in a row \
            by now. The next call is delayed by {} seconds.",
            handlers.join(", "),
            fields.into_iter().collect::<Vec<_>>().join(", "),
            delay.as_secs(),
        );
        self.log(Severity::Warning, text);
        Some(delay)
    }
}
