//! What only the handlers of webhooks have in their declarations.

use serde::Deserialize;

/// What only the handlers of webhooks have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct WebhookOptions {
    #[serde(rename = "type")]
    pub webhook_type: WebhookType,
    /// None means all.
    #[serde(default)]
    pub operations: Option<Vec<String>>,
    /// None means the object itself, `*` means all of them and the object.
    #[serde(default)]
    pub subresource: Option<String>,
    /// Stays configured while the operator does not run.
    #[serde(default)]
    pub persistent: bool,
    /// Does something besides answering, except for dry runs.
    #[serde(default)]
    pub side_effects: bool,
    /// If the operator cannot be reached, the change is made without asking it.
    #[serde(default)]
    pub ignore_failures: bool,
    /// Of conversions: from which version.
    #[serde(default)]
    pub from: Option<String>,
    /// Of conversions: to which version.
    #[serde(default)]
    pub to: Option<String>,
}

/// What a webhook is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WebhookType {
    /// Accepts or refuses.
    Validating,
    /// Changes, and maybe refuses.
    Mutating,
    /// Turns objects of one version into objects of another one.
    Converting,
}

impl WebhookType {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Validating => "validating",
            Self::Mutating => "mutating",
            Self::Converting => "converting",
        }
    }
}

impl WebhookOptions {
    pub fn new(webhook_type: WebhookType) -> Self {
        Self {
            webhook_type,
            operations: None,
            subresource: None,
            persistent: false,
            side_effects: false,
            ignore_failures: false,
            from: None,
            to: None,
        }
    }
}
