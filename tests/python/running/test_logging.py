"""Logging: formats, prefixes, loggers of objects."""
from __future__ import annotations

import datetime
import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kopf
from kopf._call.loggers import (
    LevelWatch,
    TerseObjectLogger,
    _KopfStreamHandler,
    emit,
    get_levels,
    make_formatter,
)

BODY = kopf.Body({'apiVersion': 'v1', 'kind': 'K',
                  'metadata': {'name': 'n', 'namespace': 'ns', 'uid': 'u'}})
REFERENCE = {'apiVersion': 'v1', 'kind': 'K', 'name': 'n', 'uid': 'u', 'namespace': 'ns'}
LOGGER = kopf.ObjectLogger(body=BODY, settings=kopf.OperatorSettings())
CLUSTER_LOGGER = kopf.ObjectLogger(body=kopf.Body({'metadata': {'name': 'c'}}),
                                   settings=kopf.OperatorSettings())


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    logger = logging.getLogger('kopf.objects')
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handlers, level = list(logger.handlers), logger.level
    logger.handlers[:] = [handler]
    logger.setLevel(logging.DEBUG)
    yield stream
    logger.handlers[:] = handlers
    logger.setLevel(level)


def use(*args: Any) -> None:
    logging.getLogger('kopf.objects').handlers[0].setFormatter(make_formatter(*args))


@pytest.mark.parametrize('args, expected', [
    ([kopf.LogFormat.PLAIN, False], 'hello x\n'),
    ([kopf.LogFormat.PLAIN, True], '[ns/n] hello x\n'),
    ([kopf.LogFormat.PLAIN, None], '[ns/n] hello x\n'),
    (['%(levelname)s:%(message)s', False], 'INFO:hello x\n'),
])
def test_text(stream: io.StringIO, args: Any, expected: str) -> None:
    use(*args)
    LOGGER.info("hello %s", 'x')
    assert stream.getvalue() == expected


def test_full_format(stream: io.StringIO) -> None:
    use(kopf.LogFormat.FULL, None)
    CLUSTER_LOGGER.warning("hello")
    assert stream.getvalue()[25:] == ' kopf.objects         [WARNING ] [c] hello\n'


def test_json(stream: io.StringIO) -> None:
    use(kopf.LogFormat.JSON, None, None)
    LOGGER.info("hello %s é", 'x', extra={
        'mine': 1, 'moment': datetime.datetime(2020, 1, 1), 'bytes': b'x', '_private': 1,
        'error': ValueError('y')})
    data = json.loads(stream.getvalue())
    timestamp = data.pop('timestamp')
    assert datetime.datetime.fromisoformat(timestamp).tzinfo is not None
    assert data == {
        'message': 'hello x é', 'mine': 1, 'moment': '2020-01-01T00:00:00', 'bytes': 'eA==',
        'error': 'ValueError: y', 'object': REFERENCE, 'severity': 'info'}
    assert list(json.loads(stream.getvalue())) == [
        'message', 'mine', 'moment', 'bytes', 'error', 'timestamp', 'object', 'severity']


def test_json_of_the_engine_refers_to_cluster_scoped_objects_as_handlers_do(
        stream: io.StringIO) -> None:
    use(kopf.LogFormat.JSON, None, None)
    reference = {'apiVersion': 'v1', 'kind': 'K', 'name': 'c', 'uid': 'u'}
    emit('kopf.objects', logging.INFO, 'hello', reference=reference, local=True, error=None,
         settings=kopf.OperatorSettings())
    CLUSTER_LOGGER.info('hello')
    by_engine, by_handler = map(json.loads, stream.getvalue().splitlines())
    assert by_engine['object'] == {**reference, 'namespace': None}
    assert by_engine['object'].keys() == by_handler['object'].keys()


def test_json_with_prefix_and_key(stream: io.StringIO) -> None:
    use(kopf.LogFormat.JSON, True, 'k8s')
    LOGGER.error("hello")
    data = json.loads(stream.getvalue())
    assert data['message'] == '[ns/n] hello' and data['k8s'] == REFERENCE
    assert data['severity'] == 'error' and 'object' not in data


def test_json_with_traceback(stream: io.StringIO) -> None:
    use(kopf.LogFormat.JSON, None)
    try:
        raise ValueError("boo")
    except ValueError:
        LOGGER.exception("failed", extra={'mine': 1})
    data = json.loads(stream.getvalue())
    assert list(data) == ['message', 'exc_info', 'mine', 'timestamp', 'object', 'severity']
    assert data['exc_info'].endswith('ValueError: boo')


@pytest.mark.parametrize('level, severity', [
    (10, 'debug'), (20, 'info'), (30, 'warn'), (40, 'error'), (50, 'fatal')])
def test_severities(stream: io.StringIO, level: int, severity: str) -> None:
    use(kopf.LogFormat.JSON)
    LOGGER.log(level, "x")
    assert json.loads(stream.getvalue())['severity'] == severity


def test_json_of_dicts_and_own_severity(stream: io.StringIO) -> None:
    use(kopf.LogFormat.JSON)
    LOGGER.info({'a': 1})
    assert json.loads(stream.getvalue())['a'] == 1
    assert json.loads(stream.getvalue())['message'] == ''
    LOGGER.info("x", extra={'severity': 'mine'})
    assert json.loads(stream.getvalue().splitlines()[1])['severity'] == 'mine'


def test_extras(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    LOGGER.info("x", extra={'mine': 1})
    kopf.LocalObjectLogger(body=BODY, settings=kopf.OperatorSettings()).info("y")
    one, two = caplog.records
    assert (one.k8s_ref, one.k8s_skip, one.mine) == (REFERENCE, False, 1)  # type: ignore
    assert two.k8s_skip is True  # type: ignore


def test_callers_are_those_of_users(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    LOGGER.info("x")
    kopf.LocalObjectLogger(body=BODY, settings=kopf.OperatorSettings()).info("y")
    assert [record.filename for record in caplog.records] == ['test_logging.py'] * 2


def test_terse_logger() -> None:
    logger = TerseObjectLogger(body=BODY, settings=kopf.OperatorSettings())
    logger.logger.setLevel(logging.INFO)
    try:
        assert not logger.isEnabledFor(logging.INFO)
        assert logger.isEnabledFor(logging.WARNING)
    finally:
        logger.logger.setLevel(logging.NOTSET)


@pytest.mark.parametrize('kwargs, level', [
    ({}, 'INFO'), ({'debug': True}, 'DEBUG'), ({'verbose': True}, 'DEBUG'),
    ({'quiet': True}, 'WARNING')])
def test_configure(kwargs: Any, level: str) -> None:
    root = logging.getLogger()
    kopf.configure(**kwargs)
    kopf.configure(**kwargs)
    assert logging.getLevelName(root.level) == level
    assert logging.getLogger('asyncio').propagate is bool(kwargs.get('debug'))
    assert len([handler for handler in root.handlers
                if isinstance(handler, _KopfStreamHandler)]) == 1


def test_unknown_format() -> None:
    with pytest.raises(ValueError, match='123'):
        make_formatter(123)  # type: ignore[arg-type]


def test_changed_levels_are_noticed() -> None:
    watch = LevelWatch()
    logger = logging.getLogger('kopf.activities')
    changes: list[Callable[[], None]] = [
        lambda: logger.setLevel(logging.ERROR),
        lambda: logging.getLogger().setLevel(logging.getLogger().level + 1),
        lambda: logging.getLogger('kopf.objects').setLevel(logging.CRITICAL),
        lambda: logging.disable(logging.DEBUG),
    ]
    level = logging.getLogger().level
    try:
        assert watch.has_changed()
        for change in changes:
            assert not watch.has_changed()
            change()
            assert watch.has_changed()
        logging.getLogger('elsewhere').setLevel(logging.ERROR)
        assert not watch.has_changed()
    finally:
        logging.disable(logging.NOTSET)
        logging.getLogger().setLevel(level)
        for name in ('kopf.activities', 'kopf.objects', 'elsewhere'):
            logging.getLogger(name).setLevel(logging.NOTSET)


def test_levels_for_the_engine() -> None:
    logger = logging.getLogger('kopf.activities')
    logger.setLevel(logging.ERROR)
    try:
        levels = get_levels()
        assert levels['kopf.activities.startup'] == logging.ERROR
        assert levels['kopf'] == logging.getLogger().getEffectiveLevel()
        logging.disable(logging.CRITICAL)
        assert get_levels()['kopf'] == logging.CRITICAL + 1
    finally:
        logging.disable(logging.NOTSET)
        logger.setLevel(logging.NOTSET)
