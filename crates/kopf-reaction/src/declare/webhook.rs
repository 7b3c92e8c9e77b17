//! Options of webhook handlers.

use serde::Deserialize;

/// Options of webhook handlers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct WebhookOptions {
    /// What the webhook is for.
    #[serde(rename = "type")]
    pub webhook_type: WebhookType,
    /// The operations that it is called for, such as `CREATE`; `None` means all.
    #[serde(default)]
    pub operations: Option<Vec<String>>,
    /// The subresource that it is called for; `None` means the object itself, `*` means the object and all subresources.
    #[serde(default)]
    pub subresource: Option<String>,
    /// The configuration stays in the cluster while the operator does not run.
    #[serde(default)]
    pub persistent: bool,
    /// The handler has side effects, except in dry runs.
    #[serde(default)]
    pub side_effects: bool,
    /// If the API server cannot reach the operator, it makes the change anyway.
    #[serde(default)]
    pub ignore_failures: bool,
    /// Conversions: the version of the given objects.
    #[serde(default)]
    pub from: Option<String>,
    /// Conversions: the version of the returned objects.
    #[serde(default)]
    pub to: Option<String>,
}

/// What a webhook is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WebhookType {
    /// Admits or denies a change.
    Validating,
    /// Modifies or denies a change.
    Mutating,
    /// Converts objects between versions of their resource.
    Converting,
}

impl WebhookType {
    /// The name in the declarations of the Python front.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Validating => "validating",
            Self::Mutating => "mutating",
            Self::Converting => "converting",
        }
    }
}

impl WebhookOptions {
    /// Options of a webhook for all operations on the object itself.
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
