"""The operator, described for the engine: its activities, its settings, its handlers.

The front starts the engine with the activities. The engine asks for the rest when the startup
handlers are done: they may change the settings and declare more handlers.
"""
from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kopf import lifecycles
from kopf._declare import describe_handlers, describe_settings, filters, registries, signatures
from kopf._declare.handlers import Activity, Handler, ResourceHandler
from kopf._objects import encoding
from kopf._webhooks import reviews

if TYPE_CHECKING:
    from kopf import _native
    from kopf._objects.resources import Selector
    from kopf._run.front import Front

logger = logging.getLogger('kopf')


class Configuration:
    """The declarations of one operator."""

    def __init__(self, front: Front) -> None:
        self._front = front

    def describe_logins_and_activities(self) -> list[dict[str, Any]]:
        """What the engine needs before it can log in."""
        registry = self._front.registry
        activities = registry._activities.get_all_handlers()
        own = [handler for handler in activities if handler.activity != Activity.AUTHENTICATION]
        logins: list[Handler] = []
        if self._front.vault is not None:
            logins.extend(registries.make_logins(self._front.vault))
        logins = logins or [*registry._get_logins()]
        if not logins:
            logger.error("There is no way to log in: neither a login handler, nor a kubeconfig "
                         "($KUBECONFIG or ~/.kube/config), nor a service account of a pod.")
        return self._describe([*own, *logins])

    def on_configure(self, job: _native.Configure) -> None:
        front, registry = self._front, self._front.registry
        # Startup handlers may have declared more of them.
        front.indices._ensure(handler.id for handler in registry._indexing.get_all_handlers())
        handlers: list[Handler] = [
            *registry._watching.get_all_handlers(),
            *registry._changing.get_all_handlers(),
            *registry._spawning.get_all_handlers(),
            *registry._indexing.get_all_handlers(),
            *registry._webhooks.get_all_handlers(),
        ]
        activities: list[Handler] = [*registry._activities.get_all_handlers()]
        reviews.verify_server(front.settings, bool(registry._webhooks.get_all_handlers()))
        signatures.warn_about_mismatches([*activities, *handlers], front.indices)
        for problem in describe_settings.find_without_effect(front.settings):
            logger.warning(problem)
        front.mirror_levels()
        job.answer(encoding.encode({
            'settings': describe_settings.describe_settings(
                front.settings,
                lifecycle=lifecycles.describe(front.lifecycle),
                register=self._add_selector,
            ),
            'handlers': self._describe(handlers),
        }))

    def on_list_activities(self, job: _native.ListActivities) -> None:
        activities = self._front.registry._activities.get_all_handlers()
        job.answer(encoding.encode(self._describe(activities)))

    def _describe(self, handlers: Iterable[Handler]) -> list[dict[str, Any]]:
        front = self._front
        return [
            describe_handlers.declare(
                handler, front.add_handler(handler), front.registry._get_conditions(handler))
            for handler in handlers
        ]

    def _add_selector(self, selector: Selector) -> int:
        handler = ResourceHandler(id='', fn=filters.all_, selector=selector)
        return self._front.add_handler(handler)
