"""Waiting for an object of the embedded cluster to meet a condition, or to be gone."""
from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any


class Poll:
    """Polls an object; the caller decides how to wait between the looks."""

    def __init__(
            self,
            what: str,
            look: Callable[[], dict[str, Any] | None],
            condition: Callable[[dict[str, Any]], Any] | None,
            timeout: float,
            gone: bool,
    ) -> None:
        self.what = what
        self.look = look
        self.condition = condition
        self.gone = gone
        self.timeout = timeout
        self.deadline = time.monotonic() + timeout
        self.interval = 0.001
        self.result: dict[str, Any] = {}

    def step(self) -> bool:
        late = time.monotonic() >= self.deadline
        seen = self.look()
        if self.is_done(seen):
            self.result = seen or {}
            return True
        if late:
            expected = 'be gone' if self.gone else 'be as expected'
            raise TimeoutError(
                f"{self.what} was to {expected} in {self.timeout} s; it is {json.dumps(seen)}")
        return False

    def is_done(self, seen: dict[str, Any] | None) -> bool:
        if seen is None or self.gone:
            return seen is None and self.gone
        if self.condition is None:
            return True
        try:
            return bool(self.condition(seen))
        except (KeyError, IndexError, TypeError, AttributeError):
            return False  # The fields are not there yet.

    def pause(self) -> float:
        """Short pauses at first, then longer ones: slow changes should cost little."""
        self.interval = min(self.interval * 1.5, 0.1)
        return self.interval
