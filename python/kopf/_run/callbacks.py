"""The engine's questions to users' callbacks: filters, selectors, lifecycles, initial delays.

The front hands these jobs over to here; each is answered at once, in the event loop.
"""
from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kopf import lifecycles
from kopf._call.causes import CycleContext
from kopf._declare import filters
from kopf._declare.handlers import Handler, SpawningHandler
from kopf._objects import resources
from kopf._webhooks.reviews import ReviewContext

if TYPE_CHECKING:
    from kopf import _native
    from kopf._call.causes import Cause
    from kopf._run.front import Front


class Callbacks:
    """The callbacks of one operator."""

    def __init__(self, front: Front) -> None:
        self._front = front

    def on_filters(self, job: _native.EvaluateFilters) -> None:
        cycle = job.cycle
        job.answer(self._evaluate(job.questions, lambda index: self._get_cause(index, cycle)))

    def on_review_filters(self, job: _native.EvaluateReviewFilters) -> None:
        cause = ReviewContext.of(self._front, job.review).cause
        job.answer(self._evaluate(job.questions, lambda index: cause))

    def on_selector(self, job: _native.EvaluateSelector) -> None:
        resource = resources.Resource._from_json(json.loads(job.resource))
        job.answer(bool(self._front.handlers[job.handler].selector.fn(resource)))

    def on_choose(self, job: _native.ChooseHandlers) -> None:
        handlers = {index: self._front.handlers[index] for index in job.handlers}
        if not handlers:
            job.answer([])
            return
        first = next(iter(handlers))
        batch = self._front.sub_batches.get(first)
        lifecycle = batch.lifecycle if batch is not None and batch.lifecycle else None
        kwargs = self._get_cause(first, job.cycle).kwargs
        state = lifecycles.State(json.loads(job.state))
        job.answer(_choose(lifecycle or self._front.lifecycle, handlers, state, kwargs))

    def on_initial_delay(self, job: _native.ComputeInitialDelay) -> None:
        handler = self._front.handlers[job.handler]
        assert isinstance(handler, SpawningHandler) and callable(handler.initial_delay)
        cause = CycleContext.of(self._front, job.cycle).get_cause(handler, job.cycle)
        job.answer(float(handler.initial_delay(**cause.kwargs)))

    def _evaluate(
            self,
            questions: Sequence[tuple[int, str, bytes | None]],
            get_cause: Callable[[int], Cause],
    ) -> list[bool]:
        kwargs_by_key: dict[Any, dict[str, Any]] = {}  # by handler types, or by sub-batches
        decisions: list[bool] = []
        for index, slot, content in questions:
            handler = self._front.handlers[index]
            key = self._front.sub_batches.get(index) or handler.kind
            if key not in kwargs_by_key:
                kwargs_by_key[key] = get_cause(index).kwargs
            kwargs = kwargs_by_key[key]
            declared, slot = self._find_filters(handler, slot)
            if slot == 'when':
                decisions.append(bool(declared.when(**kwargs)))
                continue
            if slot == 'selector':
                decisions.append(declared.selector.check(kwargs['resource']))
                continue
            group, dot, name = slot.partition('.')
            criteria = getattr(declared, group)
            criterion = criteria[name] if dot else criteria
            value = json.loads(content) if content is not None else None
            decisions.append(filters.evaluate(criterion, value, content is not None, kwargs))
        return decisions

    def _find_filters(self, handler: Any, slot: str) -> tuple[Any, str]:
        """Whose callback a slot names: of the handler, or of one of its conditions."""
        group, _, rest = slot.partition('.')
        if group != 'conditions':
            return handler, slot
        index, _, rest = rest.partition('.')
        return list(self._front.registry._get_conditions(handler))[int(index)], rest

    def _get_cause(self, index: int, cycle: _native.Cycle) -> Cause:
        """What filters and lifecycles see: the whole cycle, or the same as the parent."""
        batch = self._front.sub_batches.get(index)
        if batch is not None:
            return batch.cause
        context = CycleContext.of(self._front, cycle)
        return context.get_cause(self._front.handlers[index], cycle)


def _choose(
        lifecycle: Callable[..., Any],
        handlers: dict[int, Handler],
        state: lifecycles.State,
        kwargs: dict[str, Any],
) -> list[int]:
    """Let the lifecycle choose, in its order; handlers that are no candidates do not count."""
    indexes = {id(handler): index for index, handler in handlers.items()}
    chosen = lifecycle(list(handlers.values()), **{**kwargs, 'state': state})
    return [indexes[id(handler)] for handler in chosen if id(handler) in indexes]
