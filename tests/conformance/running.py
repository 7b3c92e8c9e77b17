"""Runs scenarios on one server or two, several at a time, and tells what came of each request.

Called by __main__.py and by the tests. A server is a :class:`~.exchange.Server`; the place of the
real one can be taken by its recorded answers.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import itertools
import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import hooks
from .comparison import Deliberate, Difference, differences
from .exchange import Answer, Server
from .normalise import Normaliser
from .scenario import Request, Scenario, Step, part

#: How many scenarios run at once.
THREADS = 12
#: The word of runs on fresh servers, so that all names are as in the recording.
RUN = 'r'
#: What any wait is limited to. It is long for the sake of busy machines.
PATIENCE_SECONDS = 60.0
INTERVAL_SECONDS = 0.05

#: Normalised answers, one for each step.
Answers = list[dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Result:
    """What came of one request."""

    scenario: Scenario
    number: int
    #: Empty if the answers are equal.
    unexplained: tuple[Difference, ...]
    deliberate: tuple[Deliberate, ...]

    @property
    def key(self) -> str:
        return f'{self.scenario.key} #{self.number}'

    @property
    def equal(self) -> bool:
        return not self.unexplained and not self.deliberate

    @property
    def step(self) -> Step:
        return self.scenario.steps[self.number]


def run_all(
    scenarios: Iterable[Scenario],
    real: Callable[[Scenario], Answers],
    ours: Callable[[Scenario], Answers],
    deliberate: list[Deliberate],
    *,
    threads: int = THREADS,
) -> list[Result]:
    """The results in the order of the corpus.

    What defines new kinds runs last: it changes what others see of the whole server.
    """

    def one(scenario: Scenario) -> list[Result]:
        return compare(scenario, real(scenario), ours(scenario), deliberate)

    ordered = sorted(scenarios, key=lambda scenario: scenario.defines_kinds)
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        results = []
        for _, part in itertools.groupby(ordered, key=lambda scenario: scenario.defines_kinds):
            results += [result for found in pool.map(one, part) for result in found]
        return results


def compare(
    scenario: Scenario, real: Answers, ours: Answers, deliberate: list[Deliberate]
) -> list[Result]:
    results = []
    for number, (expected, got) in enumerate(zip(real, ours, strict=True)):
        if scenario.steps[number].unseen:
            continue
        unexplained, covered = [], []
        for difference in differences(expected, got):
            key = f'{scenario.key} #{number}'
            matching = [entry for entry in deliberate if entry.covers(key, difference)]
            if matching:
                covered.append(matching[0])
            else:
                unexplained.append(difference)
        results.append(Result(scenario, number, tuple(unexplained), tuple(dict.fromkeys(covered))))
    return results


def run_scenario(server: Server, scenario: Scenario, run: str) -> Answers:
    """Sends all steps in their order.

    :param run: a short word, different in each run on the same server.
    """
    word = f'{scenario.word}{run}'
    namespace = f'ns-{word}'
    values: dict[str, Any] = {'ns': namespace, 'id': word, 'ip': scenario.address}
    if scenario.calls_hooks:
        values |= hooks.values()
    normaliser = Normaliser(values, track_versions=not scenario.workloads)
    make_namespace(server, namespace)
    answers = []
    for step in scenario.steps:
        answer = send(server, step, values)
        remember(step, answer, values)
        answers.append(normaliser.answer(answer))
    delete = {'propagationPolicy': 'Background'}
    server.send(admin_request('DELETE', f'/api/v1/namespaces/{namespace}', delete))
    return answers


def send(server: Server, step: Step, values: Mapping[str, Any]) -> Answer:
    request = step.request(values)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        answer = server.send(request)
        # A server is busy for a moment when a new kind has been defined.
        is_final = answer.code != 429 and satisfied(step.until, answer)
        if is_final or time.monotonic() > deadline:
            return answer
        time.sleep(INTERVAL_SECONDS)


def satisfied(until: Mapping[str, Any], answer: Answer) -> bool:
    if 'code' in until and answer.code != until['code']:
        return False
    if 'path' in until:
        return part(parsed(answer), until['path']) == until['is']
    return True


def remember(step: Step, answer: Answer, values: dict[str, Any]) -> None:
    if step.save and answer.code < 400:
        body = parsed(answer)
        for name, path in step.save.items():
            values[name] = part(body, path)


def parsed(answer: Answer) -> Any:
    try:
        return json.loads(answer.body)
    except ValueError:
        return None


def make_namespace(server: Server, name: str) -> None:
    """A namespace with what controllers put into each."""
    body = {'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': name}}
    answer = server.send(admin_request('POST', '/api/v1/namespaces', body))
    if answer.code != 201:
        raise RuntimeError(f'{server.url}: namespace {name}: {answer.code} {answer.body[:300]!r}')
    deadline = time.monotonic() + PATIENCE_SECONDS
    for path in 'serviceaccounts/default', 'configmaps/kube-root-ca.crt':
        request = admin_request('GET', f'/api/v1/namespaces/{name}/{path}')
        while server.send(request).code != 200:
            if time.monotonic() > deadline:
                raise RuntimeError(f'{server.url}: no {path} in {name}')
            time.sleep(INTERVAL_SECONDS)


def admin_request(method: str, path: str, body: Any = None) -> Request:
    data = None if body is None else json.dumps(body).encode()
    return Request(method, path, data, {'Content-Type': 'application/json'} if data else {})
