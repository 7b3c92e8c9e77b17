//! What the handlers and the options want: which resources, in which namespaces, for which handlers.

use std::sync::Arc;

use kopf_reaction::{Handler, HandlerType, ServedSelector, find_duplicate_conversion};
use regex_lite::Regex;

use super::selectors::FrontSelectorCallbacks;
use super::{Operator, OperatorError, OperatorOptions};
use crate::front::{Configuration, SelectorCallbacks};
use crate::peering::Peering;
use crate::{NamespacePattern, Wanted};

/// What the handlers and the options want to be served.
pub(super) struct Plan {
    pub handlers: Arc<[Arc<Handler>]>,
    pub webhooks: Vec<Arc<Handler>>,
    pub wanted: Wanted,
    pub selector_callbacks: Arc<dyn SelectorCallbacks>,
}

impl Plan {
    pub(super) fn new(
        operator: &Operator,
        options: &OperatorOptions,
        configuration: &Configuration,
    ) -> Result<Self, OperatorError> {
        let handlers: Arc<[Arc<Handler>]> = served_handlers(configuration).into();
        let webhooks = webhook_handlers(configuration);
        if let Some((one, other)) = find_duplicate_conversion(&webhooks) {
            let options = one.webhook.clone();
            let (from, to) = options.map(|options| (options.from, options.to)).unwrap_or_default();
            let (from, to) = (from.unwrap_or_default(), to.unwrap_or_default());
            let text =
                format!("{} and {} are for the same conversion, from {from} to {to}", one.title(), other.title());
            return Err(OperatorError::Configuration(text));
        }
        let expressions = options.namespace_expressions.iter().map(|expression| whole_name(expression));
        let expressions = expressions.collect::<Result<Vec<Regex>, _>>()?;
        let globs = options.namespaces.iter().cloned().map(NamespacePattern::Globs);
        let wanted = Wanted {
            selectors: handlers.iter().map(|handler| served_selector(handler)).collect(),
            passive: webhooks.iter().map(|handler| handler.selector.clone().unwrap_or_default()).collect(),
            namespaces: expressions.iter().map(|_| NamespacePattern::Callback).chain(globs).collect(),
            groups: Peering::groups(&configuration.settings),
            clusterwide: options.clusterwide,
        };
        let selector_callbacks = Arc::new(FrontSelectorCallbacks {
            front: Arc::clone(&operator.caller.front),
            handlers: handlers.iter().chain(&webhooks).cloned().collect(),
            expressions,
            log: operator.env.log.clone(),
        });
        Ok(Self { handlers, webhooks, wanted, selector_callbacks })
    }
}

/// The handlers of objects that this engine serves.
fn served_handlers(configuration: &Configuration) -> Vec<Arc<Handler>> {
    let served = |handler: &&Arc<Handler>| {
        matches!(
            handler.handler_type,
            HandlerType::Event | HandlerType::Change | HandlerType::Index | HandlerType::Daemon | HandlerType::Timer
        )
    };
    configuration.handlers.iter().filter(served).cloned().collect()
}

/// The handlers of webhooks.
fn webhook_handlers(configuration: &Configuration) -> Vec<Arc<Handler>> {
    let handlers = configuration.handlers.iter().filter(|handler| handler.handler_type == HandlerType::Webhook);
    handlers.filter(|handler| handler.webhook.is_some()).cloned().collect()
}

fn served_selector(handler: &Handler) -> ServedSelector {
    ServedSelector {
        selector: handler.selector.clone().unwrap_or_default(),
        patching: matches!(handler.handler_type, HandlerType::Change | HandlerType::Daemon | HandlerType::Timer),
    }
}

fn whole_name(expression: &str) -> Result<Regex, OperatorError> {
    let invalid = |error| OperatorError::Configuration(format!("the namespace pattern {expression}: {error}"));
    Regex::new(&format!("^(?:{expression})$")).map_err(invalid)
}
