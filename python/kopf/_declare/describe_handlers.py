"""Handlers as data for the engine: their selectors, filters and options as JSON values.

Functions and callbacks stay in Python. The engine refers to a handler by its index in the table of
the front, and to a callback by the name of its slot.
"""
from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kopf._declare import backoff, filters
from kopf._declare.handlers import (
    ActivityHandler,
    ChangingHandler,
    Condition,
    DaemonHandler,
    Handler,
    ResourceHandler,
    SpawningHandler,
    TimerHandler,
    WebhookHandler,
)
from kopf._objects import resources


def declare(handler: Handler, index: int, conditions: Collection[Condition] = ()) -> dict[str, Any]:
    """Describe one handler, in JSON-compatible values."""
    declaration: dict[str, Any] = {
        'index': index,
        'id': handler.id,
        'fn': id(handler.fn),
        'kind': handler.kind,
        'activity': None,
        'reason': None,
        'initial': False,
        'deleted': False,
        'requires_finalizer': False,
        'selector': None,
        'labels': None,
        'annotations': None,
        'field': None,
        'field_needs_change': False,
        'value': None,
        'old': None,
        'new': None,
        'when': False,
        'errors': handler.errors.name.lower() if handler.errors is not None else None,
        'timeout': handler.timeout,
        'retries': handler.retries,
        'backoff': backoff.describe(handler.backoff),
        'concurrency': None,
        'fallback': False,
        'background': {},
    }
    if isinstance(handler, ActivityHandler):
        declaration['activity'] = str(handler.activity) if handler.activity is not None else None
        declaration['fallback'] = handler._fallback
    if isinstance(handler, ResourceHandler):
        declaration.update(
            selector=resources.describe(handler.selector),
            labels=filters.describe_all(handler.labels),
            annotations=filters.describe_all(handler.annotations),
            field=list(handler.field) if handler.field else None,
            value=filters.describe(handler.value),
            when=handler.when is not None,
            concurrency=handler.concurrency,
            conditions=[_condition(condition, index) for index, condition in enumerate(conditions)],
        )
    if isinstance(handler, ChangingHandler):
        declaration.update(
            reason=str(handler.reason) if handler.reason is not None else None,
            initial=bool(handler.initial),
            deleted=bool(handler.deleted),
            requires_finalizer=bool(handler.requires_finalizer),
            field_needs_change=bool(handler.field_needs_change),
            old=filters.describe(handler.old),
            new=filters.describe(handler.new),
        )
    if isinstance(handler, SpawningHandler):
        declaration['requires_finalizer'] = bool(handler.requires_finalizer)
        declaration['background'] = _background_options(handler)
    if isinstance(handler, WebhookHandler):
        declaration['reason'] = None
        declaration['webhook'] = _webhook(handler)
    return declaration


def _condition(condition: Condition, index: int) -> dict[str, Any]:
    """`on.condition`: the engine decides it after the filters of the handler; Python calls back."""
    return {
        'index': index,
        'selector': resources.describe(condition.selector),
        'labels': filters.describe_all(condition.labels),
        'annotations': filters.describe_all(condition.annotations),
        'field': list(condition.field) if condition.field else None,
        'value': filters.describe(condition.value),
        'old': filters.describe(condition.old),
        'new': filters.describe(condition.new),
        'when': condition.when is not None,
    }


def _background_options(handler: SpawningHandler) -> dict[str, Any]:
    """When daemons and timers run, and how they stop."""
    delay = handler.initial_delay
    options: dict[str, Any] = {'initial_delay': {'callback': True} if callable(delay) else delay}
    if isinstance(handler, DaemonHandler):
        options.update(
            cancellation_backoff=handler.cancellation_backoff,
            cancellation_timeout=handler.cancellation_timeout,
            cancellation_polling=handler.cancellation_polling,
        )
    if isinstance(handler, TimerHandler):
        options.update(interval=handler.interval, idle=handler.idle, sharp=bool(handler.sharp))
    return options


def _webhook(handler: WebhookHandler) -> Mapping[str, Any]:
    operations = handler.operations
    if isinstance(operations, (set, frozenset)):
        operations = sorted(operations)
    return {
        'type': str(handler.reason),
        'operations': list(operations) if operations else None,
        'subresource': handler.subresource,
        'persistent': bool(handler.persistent),
        'side_effects': bool(handler.side_effects),
        'ignore_failures': bool(handler.ignore_failures),
        'from': handler.from_version,
        'to': handler.to_version,
    }
