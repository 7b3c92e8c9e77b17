"""The settings as data for the engine, under the same names."""
from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kopf._objects import resources
from kopf._objects.storage.describe import describe_diffbase, describe_progress

if TYPE_CHECKING:
    from kopf._declare.settings import OperatorSettings, SelectorMapping
    from kopf._objects.resources import Selector

# Infinite sequences of delays are cut: the engine repeats the last one.
_MAX_DELAYS = 1000


def describe_settings(
        settings: OperatorSettings,
        *,
        lifecycle: str,
        register: Callable[[Selector], int],
) -> dict[str, Any]:
    """The part of the settings that the engine needs.

    A selector with a callback stays in Python; the engine refers to it by its index.
    """
    posting, peering, watching = settings.posting, settings.peering, settings.watching
    queueing, background, networking = settings.queueing, settings.background, settings.networking
    persistence = settings.persistence

    def selectors(mapping: SelectorMapping[str]) -> list[dict[str, Any]]:
        return [
            {'selector': resources.describe(selector), 'value': value,
             'index': register(selector) if selector.fn is not None else None}
            for selector, value in mapping.items()
        ]

    return {
        'process': {
            'ultimate_exiting_timeout': settings.process.ultimate_exiting_timeout,
        },
        'posting': {
            'enabled': posting.enabled,
            'loggers': posting.loggers,
            'level': posting.level,
            'default_backoffs': flatten_delays(posting.default_backoffs),
            'logging_backoffs': flatten_delays(posting.logging_backoffs),
            'worker_limit': posting.worker_limit,
            'idle_timeout': posting.idle_timeout,
            'reporting_component': posting.reporting_component,
            'reporting_instance': posting.reporting_instance,
            'event_name_prefix': posting.event_name_prefix,
        },
        'peering': {
            'name': peering.name,
            'stealth': peering.stealth,
            'priority': peering.priority,
            'lifetime': peering.lifetime,
            'mandatory': peering.mandatory,
            'standalone': peering.standalone,
            'clusterwide': peering.clusterwide,
        },
        'watching': {
            'server_timeout': watching.server_timeout,
            'client_timeout': watching.client_timeout,
            'connect_timeout': watching.connect_timeout,
            'reconnect_backoff': watching.reconnect_backoff,
            'inactivity_timeout': watching.inactivity_timeout,
            'chunk_size': watching.chunk_size,
            'initial_streaming': watching.initial_streaming,
            'label_selectors': selectors(watching.label_selectors),
            'field_selectors': selectors(watching.field_selectors),
            'shard_selectors': selectors(watching.shard_selectors),
        },
        'queueing': {
            'worker_limit': queueing.worker_limit,
            'idle_timeout': queueing.idle_timeout,
            'exit_timeout': queueing.exit_timeout,
            'error_delays': flatten_delays(queueing.error_delays),
        },
        'scanning': {
            'disabled': settings.scanning.disabled,
        },
        'admission': {
            'managed': settings.admission.managed,
        },
        'execution': {
            'default_backoff': settings.execution.default_backoff,
            'max_workers': settings.execution.max_workers,
        },
        'background': {
            'cancellation_polling': background.cancellation_polling,
            'instant_exit_timeout': background.instant_exit_timeout,
            'instant_exit_zero_time_cycles': background.instant_exit_zero_time_cycles,
        },
        'networking': {
            'request_timeout': networking.request_timeout,
            'connect_timeout': networking.connect_timeout,
            'error_backoffs': flatten_delays(networking.error_backoffs),
            'enforce_retry_after': networking.enforce_retry_after,
            'trust_env': networking.trust_env,
        },
        'persistence': {
            'finalizer': persistence.finalizer,
            'compact': persistence.compact,
            'consistency_timeout': persistence.consistency_timeout,
            'progress_storage': describe_progress(persistence.progress_storage),
            'diffbase_storage': describe_diffbase(persistence.diffbase_storage),
        },
        'lifecycle': lifecycle,
    }


#: Settings that Kopf accepts for compatibility only, and why it does not need them.
_WITHOUT_EFFECT = {
    ('persistence', 'consistency_timeout'):
        "the engine knows the versions that its patches produce, and waits for no echoes",
    ('queueing', 'idle_timeout'):
        "the engine has no worker per object that could be idle",
    ('posting', 'idle_timeout'):
        "the engine has no worker per object that could be idle",
}


def find_without_effect(settings: OperatorSettings) -> list[str]:
    """The settings that were changed without effect, each as a sentence for the log."""
    return [
        f"settings.{group}.{name} has no effect: {reason}."
        for (group, name), reason in _WITHOUT_EFFECT.items()
        if getattr(getattr(settings, group), name) != _get_default(getattr(settings, group), name)
    ]


def _get_default(group: Any, name: str) -> Any:
    [field] = [field for field in dataclasses.fields(group) if field.name == name]
    return field.default


def flatten_delays(delays: float | Iterable[float] | None) -> list[float]:
    """Make a list of delays from anything that users may pass instead."""
    if delays is None:
        return []
    if isinstance(delays, Iterable):
        return list(itertools.islice(delays, _MAX_DELAYS))
    return [delays]
