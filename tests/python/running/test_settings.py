"""Settings: their defaults, their checks, and their form for the engine."""
from __future__ import annotations

import concurrent.futures
import itertools
import json

import pytest

import kopf
from kopf._declare.describe_settings import describe_settings, find_without_effect, flatten_delays
from kopf._objects.resources import Selector


def test_defaults() -> None:
    settings = kopf.OperatorSettings()
    description = describe_settings(settings, lifecycle='asap', register=lambda _: 0)
    assert json.loads(json.dumps(description)) == description
    assert description['persistence']['finalizer'] == 'kopf.zalando.org/KopfFinalizerMarker'
    assert description['persistence']['progress_storage']['type'] == 'multi'
    assert description['persistence']['diffbase_storage']['type'] == 'annotations'
    assert description['execution'] == {'default_backoff': 60, 'max_workers': None}
    assert description['networking']['error_backoffs'] == [1, 1, 2, 3, 5, 8, 13, 21]
    assert description['queueing']['error_delays'][-1] == 610
    assert description['posting']['loggers'] is False
    assert description['lifecycle'] == 'asap'


def test_selectors() -> None:
    settings = kopf.OperatorSettings()
    selectors = settings.watching.label_selectors
    selectors['kopf.dev', 'kopfexamples'] = 'a=b'
    selectors[lambda resource: resource.plural == 'pods'] = 'c=d'
    assert selectors['kopf.dev', 'kopfexamples'] == 'a=b'
    assert selectors[Selector('kopf.dev', 'kopfexamples')] == 'a=b'
    assert 'other' not in selectors and len(selectors) == 2
    assert selectors.collect(kopf.Resource('', 'v1', 'pods')) == ['c=d']
    first, second = describe_settings(
        settings, lifecycle='asap', register=lambda _: 77)['watching']['label_selectors']
    assert first['selector']['any_name'] == 'kopfexamples' and first['index'] is None
    assert second['selector']['callback'] and second['index'] == 77 and second['value'] == 'c=d'
    with pytest.raises(TypeError, match='123'):
        selectors[123] = 'x'


def test_delays() -> None:
    assert flatten_delays(5) == [5]
    assert flatten_delays((1, 2)) == [1, 2]
    assert flatten_delays(None) == []
    assert len(flatten_delays(itertools.count())) == 1000


def test_executor() -> None:
    settings = kopf.OperatorSettings()
    settings.execution.max_workers = 3
    assert settings.execution.executor._max_workers == 3  # type: ignore[attr-defined]
    assert settings.execution.executor is settings.execution.executor
    settings.execution.max_workers = 5
    assert settings.execution.executor._max_workers == 5  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match='lower than 1'):
        settings.execution.max_workers = 0
    own = concurrent.futures.ThreadPoolExecutor(1)
    settings.execution.executor = own
    assert settings.execution.executor is own


def test_deprecated_names() -> None:
    settings = kopf.OperatorSettings()
    with pytest.warns(DeprecationWarning, match='queueing'):
        assert settings.batching is settings.queueing
    with pytest.warns(DeprecationWarning, match='batching'):
        settings.queueing.batch_window = 5
    with pytest.warns(DeprecationWarning, match='batching'):
        assert settings.queueing.batch_window == 5
    settings.peering.namespaced = True
    assert settings.peering.clusterwide is False


@pytest.mark.parametrize('group, name', [
    ('persistence', 'consistency_timeout'), ('queueing', 'idle_timeout'),
    ('posting', 'idle_timeout'),
])
def test_settings_without_effect_are_named(group: str, name: str) -> None:
    settings = kopf.OperatorSettings()
    assert find_without_effect(settings) == []
    setattr(getattr(settings, group), name, 123)
    [problem] = find_without_effect(settings)
    assert problem.startswith(f'settings.{group}.{name} has no effect: the engine ')
