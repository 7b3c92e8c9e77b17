"""What handlers get: views that forgive, values that may be spoilt, reasons that are strings."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.support.examples import ExampleObjects
from tests.support.operator_process import OperatorProcess
from tests.support.plane import Plane

StartOperator = Callable[..., OperatorProcess]
LAST_HANDLED = 'kopf.zalando.org/last-handled-configuration'


def test_values_changed_in_place_do_no_harm(
    operator: StartOperator, examples: ExampleObjects
) -> None:
    """Neither what is stored nor what others get depends on what a function does to its input."""
    process = operator("""
import kopf

def spoil(mapping):
    mapping['nested']['key'] = 'spoilt'
    mapping['nested']['list'].append('spoilt')
    mapping['nested'].pop('other', None)

def is_wanted(spec, **_):
    spoil(spec)
    return True

@kopf.index('kopfexamples')
def index_fn(name, spec, **_):
    spoil(spec)
    return {name: None}

@kopf.on.event('kopfexamples')
def event_fn(event, spec, **_):
    spoil(spec)
    spoil(event['object']['spec'])

@kopf.on.create('kopfexamples', when=is_wanted)
def create_fn(spec, body, patch, **_):
    spoil(spec)
    spoil(body['spec'])
    body['metadata']['labels']['label'] = 'spoilt'
    patch.status['created'] = True

@kopf.on.update('kopfexamples')
def update_fn(spec, old, new, diff, logger, **_):
    logger.info(f'Updated: {len(diff)} {old["spec"]} {new["spec"]}.')
    for mapping in old['spec'], new['spec'], spec:
        spoil(mapping)

@kopf.timer('kopfexamples', interval=0.1)
def timer_fn(spec, **_):
    spoil(spec)
""")
    spec = {'nested': {'key': 'value', 'list': ['item'], 'other': 1}}
    examples.create('obj', spec=spec, metadata={'labels': {'label': 'value'}})
    body = examples.wait('obj', lambda body: LAST_HANDLED in body['metadata']['annotations'])
    assert json.loads(body['metadata']['annotations'][LAST_HANDLED]) == {
        'spec': spec,
        'metadata': {'labels': {'label': 'value'}},
    }
    process.wait_log("Timer 'timer_fn' succeeded.", count=3)
    examples.patch('obj', {'spec': {'nested': {'other': 2}}})
    changed = {'nested': {'key': 'value', 'list': ['item'], 'other': 2}}
    process.wait_log(f'Updated: 1 {spec} {changed}.')
    body = examples.wait(
        'obj',
        lambda body: json.loads(body['metadata']['annotations'][LAST_HANDLED])['spec'] == changed,
    )
    assert body['spec'] == changed and body['metadata']['labels'] == {'label': 'value'}
    process.wait_log("Timer 'timer_fn' succeeded.", count=6)
    assert process.count('Updated:') == 1
    assert process.stop() == 0


def test_stanzas_that_are_not_there(
    operator: StartOperator, examples: ExampleObjects, plane: Plane, namespace: str
) -> None:
    """An object without a spec and a status, without labels and annotations."""
    process = operator("""
import kopf

def check(body, spec, meta, status, labels, annotations, uid, name, namespace, **_):
    for view in spec, status, labels, annotations, meta.labels, meta.annotations, body.spec:
        assert dict(view) == {} and len(view) == 0 and list(view) == [], view
        assert view.get('x') is None and view.get('x', 5) == 5 and 'x' not in view, view
        try:
            view['x']
        except KeyError:
            pass
        else:
            raise AssertionError('It is there.')
    assert (meta.name, meta.uid, meta.namespace) == (name, uid, namespace)
    assert body.metadata.name == body.meta.name == body['metadata']['name'] == name
    assert meta.deletion_timestamp is None and meta.creation_timestamp
    assert body.get('status') is None and 'spec' not in body

@kopf.on.event('configmaps', when=lambda annotations, **_: not annotations)
def event_fn(name, logger, **kwargs):
    if name == 'bare':
        check(name=name, **kwargs)
        logger.info('Watched.')

@kopf.on.create('configmaps')
async def create_fn(name, logger, **kwargs):
    if name == 'bare':
        check(name=name, **kwargs)
        logger.info('Created.')
""")
    path = f'/api/v1/namespaces/{namespace}/configmaps'
    plane.client.create(path, {'metadata': {'name': 'bare'}})
    process.wait_log('/bare] Created.')
    process.wait_log('/bare] Watched.')
    assert process.stop() == 0


def test_reasons_and_operations_are_strings(
    operator: StartOperator, examples: ExampleObjects
) -> None:
    process = operator("""
import kopf

def tell(reason, diff, logger, **_):
    assert isinstance(reason, str) and {reason: 1}[str(reason)] == 1
    assert all({op: 1}[str(op)] == 1 and item.op == op for item in diff for op in [item[0]])
    known = [word for word in ('create', 'update', 'delete', 'resume') if reason == word]
    operations = sorted(f'{op}:{".".join(field)}' for op, field, old, new in diff if field
                        for word in ('add', 'change', 'remove') if op == word)
    logger.info(f'Reasons {known}, operations {operations}, {reason!s}.')

kopf.on.create('kopfexamples', id='one')(tell)
kopf.on.update('kopfexamples', id='two')(tell)
kopf.on.delete('kopfexamples', id='three')(tell)
kopf.on.resume('kopfexamples', id='four', labels={'resumed': 'yes'})(tell)
""")
    examples.create('obj', spec={'a': 1, 'b': 2})
    process.wait_log("Reasons ['create']", ', create.')
    examples.wait('obj', lambda body: LAST_HANDLED in body['metadata']['annotations'])
    examples.patch('obj', {'spec': {'a': 5, 'b': None, 'c': 3}})
    process.wait_log(
        "Reasons ['update'], operations ['add:spec.c', 'change:spec.a', 'remove:spec.b'], update."
    )
    examples.create('other', metadata={'labels': {'resumed': 'yes'}})
    examples.wait('other', lambda body: LAST_HANDLED in body['metadata']['annotations'])
    process.stop()
    process.start()
    process.wait_log("/other] Reasons ['resume']", ', resume.')
    examples.delete('obj')
    process.wait_log("Reasons ['delete']", ', delete.')
    examples.wait_gone('obj')
    assert process.stop() == 0


def test_patches_by_all_their_names(operator: StartOperator, examples: ExampleObjects) -> None:
    process = operator("""
import kopf

@kopf.on.create('kopfexamples')
def create_fn(patch, memo, **_):
    assert isinstance(patch, dict) and patch == {}
    patch.spec['by'] = 'stanza'
    patch.status['by'] = 'stanza'
    patch.meta['labels'] = {'by-meta': 'yes'}
    patch.metadata.labels['by-metadata'] = 'yes'
    patch.labels['by-labels'] = 'yes'
    patch.annotations['example.com/by'] = 'annotations'
    patch['spec']['by-key'] = True
    assert set(patch) == {'spec', 'status', 'metadata'}

    @patch.fns.append
    def transform(body):
        body['spec'].setdefault('list', []).append('by fns')

    memo.attribute = 'x'
    memo['key'] = 'y'
    assert memo['attribute'] == 'x' and memo.key == 'y' and 'key' in memo and len(memo) == 2
    del memo.attribute
    try:
        memo.attribute
    except AttributeError:
        pass
    else:
        raise AssertionError('It is there.')
""")
    examples.create('obj', spec={'list': ['there']})
    body = examples.wait('obj', lambda body: LAST_HANDLED in body['metadata']['annotations'])
    body = examples.wait('obj', lambda body: len(body['spec']['list']) == 2)
    assert body['spec'] == {'by': 'stanza', 'by-key': True, 'list': ['there', 'by fns']}
    assert body['status']['by'] == 'stanza'
    assert set(body['metadata']['labels']) == {'by-meta', 'by-metadata', 'by-labels'}
    assert body['metadata']['annotations']['example.com/by'] == 'annotations'
    assert process.stop() == 0


def test_wrappers_get_everything(operator: StartOperator, examples: ExampleObjects) -> None:
    """Also those that look like the function that they wrap."""
    process = operator("""
import kopf
import wrapt

@wrapt.decorator
async def limited(wrapped, instance, args, kwargs):
    if kwargs['runtime'].total_seconds() > 10:
        raise RuntimeError('too late')
    return await wrapped(*args, **kwargs)

@wrapt.decorator
def noted(wrapped, instance, args, kwargs):
    return {'returned': wrapped(*args, **kwargs), 'given': sorted(kwargs)}

@kopf.on.create('kopfexamples', id='async')
@limited
async def async_fn(name, **_):
    return {'hello': name}

@kopf.on.create('kopfexamples', id='sync')
@noted
def sync_fn(name, **_):
    return name
""")
    examples.create('some', spec={})
    body = examples.wait('some', lambda body: body['status']['async'] and body['status']['sync'])
    assert body['status']['async'] == {'hello': 'some'}
    assert body['status']['sync']['returned'] == 'some'
    assert {'runtime', 'retry', 'body', 'diff', 'memo'} < set(body['status']['sync']['given'])
    assert process.stop() == 0
