"""Webhooks as users write them: a cluster asks our operators before it makes changes."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.parse
from collections.abc import Callable
from typing import Any

from tests.operators.admission.managed_webhooks import Webhooks, refused
from tests.support.client import wait_for
from tests.support.examples import ExampleObjects
from tests.support.operator_process import OperatorProcess
from tests.support.plane import Plane

StartOperator = Callable[..., OperatorProcess]


def test_validation(webhooks: Webhooks, examples: ExampleObjects) -> None:
    process = webhooks.start("""
@kopf.on.validate('kopfexamples', labels=LABELS)
def check_it(spec, operation, dryrun, userinfo, logger, **_):
    logger.info(f'{operation} by {bool(userinfo["username"])}, dryrun={dryrun}.')
    if spec.get('size', 0) > 5:
        raise kopf.AdmissionError('Too big.', code=400)
    if spec.get('size', 0) < 0:
        raise kopf.PermanentError('Negative.')
    if 'broken' in spec:
        raise ValueError('Broken.')
""")
    metadata = {'labels': webhooks.labels}
    webhooks.wait_asked('check_it')
    examples.create('good', spec={'size': 1}, metadata=metadata)
    process.wait_log('CREATE by True, dryrun=False.')
    prefix = f'admission webhook "check-it.{webhooks.name}" denied the request: '
    table = [({'size': 6}, 400, 'Too big.'), ({'size': -1}, 500, 'Negative.'),
             ({'broken': 1}, 500, 'Broken.')]
    for spec, code, message in table:
        answer = refused(lambda spec=spec: examples.create('bad', spec=spec, metadata=metadata))
        assert answer == (code, prefix + message)
    assert refused(lambda: examples.patch('good', {'spec': {'size': 7}}))[0] == 400
    examples.create('foreign', spec={'size': 6})
    assert process.stop() == 0
    assert webhooks.configured() == []
    examples.patch('good', {'spec': {'size': 7}})


def test_kwargs_of_webhook_handlers(
    webhooks: Webhooks, plane: Plane, namespace: str, examples: ExampleObjects
) -> None:
    """Of creations, changes, deletions; of the status; of what is only tried out; by whom."""
    process = webhooks.start("""
import json

@kopf.on.validate('kopfstatuses', labels=LABELS, param='some')
@kopf.on.validate('kopfstatuses', labels=LABELS, subresource='status', id='check_status')
def check(operation, subresource, dryrun, userinfo, headers, sslpeer, warnings, resource, name,
          namespace, body, spec, status, old, new, diff, memo, retry, param, logger, **rest):
    assert not {'stopped', 'event', 'type'} & set(rest), rest
    assert userinfo['username'] and 'system:masters' in userinfo['groups'], userinfo
    assert headers['Content-Type'] == 'application/json' and not sslpeer, (headers, sslpeer)
    assert (warnings, retry, resource.plural) == ([], 0, 'kopfstatuses'), (warnings, retry)
    diff = [(str(op), list(field), old, new) for op, field, old, new in diff
            if field[:1] in (('spec',), ('status',))]
    given = [operation, subresource, dryrun, param, name, dict(spec), dict(status)]
    logger.info('Given: ' + json.dumps([*given, old is None, new is None, diff]))
""")
    objects = ExampleObjects(plane.client, namespace, 'kopfstatuses', 'KopfStatus')
    path = f'{objects.path}/obj'
    webhooks.path = objects.path
    webhooks.wait_asked('check', count=2, kind='KopfStatus')
    objects.create('obj', spec={'x': 1}, metadata={'labels': webhooks.labels})
    wait_for(
        'the cluster asks about the status',
        lambda: objects.client.patch(f'{path}/status?dryRun=All', {'status': {'asked': 1}})
        and process.count('"asked": 1'),
    )
    objects.patch('obj', {'spec': {'x': 2}})
    objects.client.patch(f'{path}?dryRun=All', {'spec': {'x': 3}})
    objects.client.patch(f'{path}/status', {'status': {'y': 1}})
    objects.delete('obj')
    lines = [line.split('Given: ')[1] for line in process.lines() if 'Given: ' in line]
    given = [entry for entry in map(json.loads, lines) if entry[4] == 'obj']
    given = [entry for entry in given if 'asked' not in entry[6]]
    change = [['change', ['spec', 'x'], 1, 2]]
    tried = [['change', ['spec', 'x'], 2, 3]]
    added = [['add', ['status'], None, {'y': 1}]]
    assert given[0][:9] == ['CREATE', None, False, 'some', 'obj', {'x': 1}, {}, True, False]
    assert given[1] == ['UPDATE', None, False, 'some', 'obj', {'x': 2}, {}, False, False, change]
    assert given[2] == ['UPDATE', None, True, 'some', 'obj', {'x': 3}, {}, False, False, tried]
    assert given[3][:7] == ['UPDATE', 'status', False, None, 'obj', {'x': 2}, {'y': 1}]
    assert given[3][7:] == [False, False, added]
    assert given[4][:7] == ['DELETE', None, False, 'some', 'obj', {'x': 2}, {'y': 1}]
    assert given[4][7:9] == [False, True] and len(given) == 5
    assert process.stop() == 0


def test_mutation_and_warnings(webhooks: Webhooks, examples: ExampleObjects) -> None:
    process = webhooks.start("""
@kopf.on.mutate('kopfexamples', labels=LABELS)
def complete(spec, patch, warnings, old, new, diff, **_):
    patch.spec['size'] = spec.get('size', 1) + 1
    patch.metadata.annotations['kopf.dev/note'] = 'mutated'
    patch.spec['drop'] = None
    warnings.append('You have been warned.')

@kopf.on.mutate('kopfexamples', labels=LABELS, operations=['CREATE'])
async def transform(patch, **_):
    @patch.fns.append
    def extend(body):
        body['spec'].setdefault('items', []).append('x')
""")
    webhooks.wait_asked('complete', 'mutating', 2)
    metadata = {'labels': webhooks.labels}
    body = examples.create('obj', spec={'drop': 1, 'items': ['a']}, metadata=metadata)
    assert body['spec'] == {'size': 2, 'items': ['a', 'x']}
    assert body['metadata']['annotations']['kopf.dev/note'] == 'mutated'
    body = examples.patch('obj', {'spec': {'more': 1}})
    assert body['spec'] == {'size': 3, 'items': ['a', 'x'], 'more': 1}
    assert process.stop() == 0
    assert webhooks.configured('mutating') == []


def test_the_configuration(webhooks: Webhooks) -> None:
    webhooks.start("""
@kopf.on.validate('kopfexamples', labels=LABELS, operations=['UPDATE', 'DELETE'],
                  subresource='status', side_effects=True, ignore_failures=True, persistent=True)
def stays(**_):
    pass

@kopf.on.validate('kopfexamples', labels=LABELS, id='Some/Mixed_id', field='spec.x')
def goes(**_):
    pass
""")
    first, second = webhooks.wait(count=2)
    assert first['name'] == f'stays.{webhooks.name}'
    assert first['sideEffects'] == 'NoneOnDryRun'
    assert first['failurePolicy'] == 'Ignore'
    assert first['rules'][0]['resources'] == ['kopfexamples/status']
    assert first['rules'][0]['operations'] == ['UPDATE', 'DELETE']
    assert first['rules'][0]['apiGroups'] == ['kopf.dev']
    assert first['timeoutSeconds'] == 30
    assert first['clientConfig']['url'].startswith('https://localhost:')
    assert first['clientConfig']['url'].endswith('/stays')
    assert second['name'] == f'some.mixed-id.spec.x.{webhooks.name}'
    assert second['clientConfig']['url'].endswith('/Some/Mixed_id/spec.x')
    assert second['failurePolicy'] == 'Fail'
    expression = {'key': 'admitted-by', 'operator': 'In', 'values': [webhooks.name]}
    assert second['objectSelector'] == {'matchExpressions': [expression]}


def test_persistent_webhooks_stay(webhooks: Webhooks, examples: ExampleObjects) -> None:
    process = webhooks.start("""
@kopf.on.validate('kopfexamples', labels=LABELS, persistent=True)
def stays(**_):
    pass

@kopf.on.validate('kopfexamples', labels=LABELS)
def goes(**_):
    pass
""")
    webhooks.wait_asked('stays', count=2)
    assert process.stop() == 0
    assert [webhook['name'] for webhook in webhooks.configured() or []] == [
        f'stays.{webhooks.name}'
    ]
    metadata = {'labels': webhooks.labels}
    assert refused(lambda: examples.create('obj', metadata=metadata))[0] == 500


def test_killed_and_started_again(webhooks: Webhooks, examples: ExampleObjects) -> None:
    process = webhooks.start("""
@kopf.on.validate('kopfexamples', labels=LABELS)
def check(**_):
    pass
""")
    webhooks.wait_asked('check')
    before = webhooks.wait()
    process.kill()
    metadata = {'labels': webhooks.labels}
    assert refused(lambda: examples.create('obj', metadata=metadata))[0] == 500
    process.start()
    wait_for('a new address', lambda: webhooks.configured() not in (None, [], before))
    webhooks.wait_asked('check')
    examples.create('obj', metadata=metadata)
    assert process.stop() == 0
    assert webhooks.configured() == []


def test_a_paused_operator_answers(
    plane: Plane, namespace: str, webhooks: Webhooks, examples: ExampleObjects
) -> None:
    peerings = f'/apis/kopf.dev/v1/namespaces/{namespace}/kopfpeerings'
    plane.client.create(
        peerings,
        {
            'apiVersion': 'kopf.dev/v1',
            'kind': 'KopfPeering',
            'metadata': {'name': 'team'},
            'status': {
                'boss': {'priority': 100, 'lifetime': 600, 'lastseen': '2100-01-01T00:00:00Z'}
            },
        },
    )
    process = webhooks.start(
        """
@kopf.on.validate('kopfexamples', labels=LABELS)
def check_it(spec, **_):
    if spec.get('size', 0) > 5:
        raise kopf.AdmissionError('Too big.', code=400)

@kopf.on.create('kopfexamples')
def create_fn(**_):
    return 'created'
""",
        '--peering=team',
    )
    process.wait_log('Pausing operations in favour of')
    webhooks.wait_asked('check_it')
    metadata = {'labels': webhooks.labels}
    assert refused(lambda: examples.create('bad', spec={'size': 6}, metadata=metadata))[0] == 400
    examples.create('good', metadata=metadata)
    assert process.count("Handler 'create_fn'") == 0
    plane.client.patch(f'{peerings}/team', {'status': {'boss': None}})
    examples.wait('good', lambda body: body['status']['create_fn'] == 'created')
    assert process.stop() == 0
    assert webhooks.configured() == []


def test_started_again_without_webhooks(webhooks: Webhooks, examples: ExampleObjects) -> None:
    process = webhooks.start("""
@kopf.on.validate('kopfexamples', labels=LABELS)
def check(**_):
    pass
""")
    webhooks.wait()
    process.kill()
    webhooks.start("""
@kopf.on.create('kopfexamples')
def create(**_):
    pass
""")
    webhooks.wait(count=0)
    wait_for(
        'the cluster asks nobody',
        lambda: examples.create('obj', metadata={'labels': webhooks.labels}),
    )


def test_another_operator_has_taken_over(webhooks: Webhooks) -> None:
    script = """
@kopf.on.validate('kopfexamples', labels=LABELS)
def check(**_):
    pass
"""
    first = webhooks.start(script)
    before = webhooks.wait()
    webhooks.start(script)
    wait_for('the other address', lambda: webhooks.configured() not in (None, [], before))
    assert first.stop() == 0
    assert len(webhooks.configured() or []) == 1


def test_memos_and_indices_of_the_process(webhooks: Webhooks, examples: ExampleObjects) -> None:
    process = webhooks.start("""
@kopf.on.create('kopfexamples')
def create(memo, **_):
    memo.seen = 'by the creation'

@kopf.on.validate('kopfexamples', labels=LABELS, operations=['CREATE', 'UPDATE'])
def check(memo, spec, old, logger, **_):
    if old is not None and old['spec'] != spec:
        logger.info(f'Seen {memo.get("seen")}.')
""")
    webhooks.wait_asked('check')
    examples.create('obj', metadata={'labels': webhooks.labels})
    process.wait_log('Creation is processed: 1 succeeded')
    examples.patch('obj', {'spec': {'x': 1}})
    process.wait_log('Seen by the creation.')


def test_memos_beside_daemons_and_timers(webhooks: Webhooks, examples: ExampleObjects) -> None:
    process = webhooks.start("""
@kopf.daemon('kopfexamples')
async def daemon(memo, stopped, **_):
    await stopped.wait()

@kopf.timer('kopfexamples', interval=0.1)
async def timer(memo, logger, **_):
    logger.info('Ticked after reviews.' if memo.get('reviews') else 'Ticked, no reviews.')

@kopf.on.validate('kopfexamples', labels=LABELS, operations=['UPDATE'])
def check(memo, old, spec, logger, **_):
    if old['spec'] != spec:
        memo['reviews'] = memo.get('reviews', 0) + 1
        logger.info(f'Reviewed with a {type(memo).__name__}: {memo.reviews}.')
""")
    webhooks.wait()
    examples.create('obj', metadata={'labels': webhooks.labels})
    process.wait_log('Ticked, no reviews.')
    examples.patch('obj', {'spec': {'x': 1}})
    # Maybe more than once: the API server asks again if the object has changed meanwhile.
    process.wait_log('Reviewed with a Memo: 1.')
    process.wait_log('Ticked after reviews.')


def test_memos_of_objects_that_are_only_reviewed(
    webhooks: Webhooks, examples: ExampleObjects
) -> None:
    process = webhooks.start("""
@kopf.on.validate('kopfexamples', labels=LABELS)
def check(memo, old, logger, dryrun, **_):
    if not dryrun:
        memo.reviews = memo.get('reviews', 0) + 1
        logger.info(f'Review {memo.reviews} {"of an update" if old else "of a creation"}.')
""")
    webhooks.wait_asked('check')
    examples.create('obj', metadata={'labels': webhooks.labels})
    process.wait_log('Review 1 of a creation.')
    examples.patch('obj', {'spec': {'x': 1}})
    process.wait_log('Review 1 of an update.')
    examples.patch('obj', {'spec': {'x': 2}})
    process.wait_log('Review 2 of an update.')


def test_filters_and_callbacks(webhooks: Webhooks, examples: ExampleObjects) -> None:
    process = webhooks.start("""
def note(text):
    def fn(warnings, **_):
        warnings.append(text)
    return fn

kopf.on.validate('kopfexamples', labels=LABELS, id='field', field='spec.x', value=5)(note('field'))
def is_wanted(spec, operation, **_):
    return spec.get('x') == 5 and operation == 'CREATE'

kopf.on.validate('kopfexamples', labels=LABELS, id='when', when=is_wanted)(note('when'))
kopf.on.validate('kopfexamples', labels=LABELS, id='annotation',
                 annotations={'a': lambda value, **_: value in (None, 'b')})(note('annotation'))

@kopf.on.mutate('kopfexamples', labels=LABELS, id='collect')
def collect(patch, **_):
    patch.spec['asked'] = True
""")
    webhooks.wait(count=3)
    webhooks.wait_asked('collect', 'mutating')
    webhooks.wait_asked('annotation', count=3)
    base = {'labels': webhooks.labels}
    path = examples.path
    connection = examples.client
    for number, (metadata, spec, expected) in enumerate([
        ({**base, 'annotations': {'a': 'c'}}, {'x': 5}, ['field', 'when']),
        ({**base, 'annotations': {'a': 'c'}}, {'x': 4}, []),
        ({**base, 'annotations': {'a': 'b'}}, {}, ['annotation']),
    ]):
        body = {'apiVersion': 'kopf.dev/v1', 'kind': 'KopfExample',
                'metadata': {'name': f'obj-{number}', **metadata}, 'spec': spec}
        assert sorted(warnings_of(connection, path, body)) == expected
    assert process.stop() == 0


def warnings_of(client: Any, path: str, body: Any) -> list[str]:
    """The warnings come in headers, which the client of the tests does not show."""
    address = urllib.parse.urlsplit(client.server)
    context = ssl.create_default_context(cafile=str(client.ca))
    connection = http.client.HTTPSConnection(
        address.hostname or '', address.port, context=context, timeout=30
    )
    headers = {'Authorization': f'Bearer {client.token}', 'Content-Type': 'application/json'}
    connection.request('POST', path, json.dumps(body), headers)
    response = connection.getresponse()
    response.read()
    assert response.status == 201
    warnings = response.headers.get_all('Warning') or []
    connection.close()
    return [text.split('"')[1] for text in warnings]
