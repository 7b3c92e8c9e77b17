"""The threads for synchronous functions, and the live views."""
from __future__ import annotations

import asyncio
import json
import logging
import threading

import pytest

from kopf._call.threads import DaemonThreads, Pools
from kopf._declare.settings import OperatorSettings
from kopf._objects.views import LiveBody


def void(_: object) -> None:
    """Nothing."""


def test_live_views_follow_the_object() -> None:
    class Live:
        number, spec = 1, {'field': 1}

        def newer_than(self, seen: int | None) -> tuple[int, bytes] | None:
            if seen == self.number:
                return None
            return self.number, json.dumps({'metadata': {}, 'spec': self.spec}).encode()

    live = Live()
    body = LiveBody(live)  # type: ignore[arg-type]
    spec, labels = body.spec, body.metadata.labels
    assert (spec['field'], dict(labels)) == (1, {})
    assert spec.get('field') == 1
    live.number, live.spec = 2, {'field': 2}
    assert spec['field'] == 2
    assert body['spec'] == {'field': 2}


def test_threads_of_daemons_are_limited_and_the_limit_is_live() -> None:
    limit = 1
    threads = DaemonThreads(lambda: limit)
    gates = [threading.Event() for _ in range(3)]
    started = [threading.Event() for _ in range(3)]

    def run(number: int) -> None:
        started[number].set()
        gates[number].wait(10)

    for number in 0, 1:
        threads.submit(lambda number=number: run(number))
    assert started[0].wait(10)
    assert not started[1].is_set()
    limit = 2
    threads.submit(lambda: run(2))
    assert started[2].wait(10)
    assert not started[1].is_set()
    gates[0].set()
    assert started[1].wait(10)
    for gate in gates:
        gate.set()


def test_exhausted_pools_are_reported(
        monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr('kopf._call.threads._PATIENCE_SECONDS', 0.05)
    caplog.set_level(logging.WARNING)

    async def main() -> None:
        settings = OperatorSettings()
        settings.execution.max_workers = 1
        pools = Pools(asyncio.get_running_loop(), settings)
        gate, done = threading.Event(), threading.Event()
        for run in pools.run_daemon, pools.run_handler:
            run(lambda: void(gate.wait(10)))
            run(done.set)
        while len(caplog.messages) < 2:
            await asyncio.sleep(0.01)
        gate.set()
        while not done.is_set():
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(main(), 10))
    [daemons, handlers] = sorted(caplog.messages)[:2]
    assert "1 calls of synchronous daemons wait for a thread" in daemons
    assert "1 calls of synchronous handlers and timers wait for a thread" in handlers
    assert "all 1 threads are busy" in daemons
