"""The kwargs of change handlers: which there are, of what types, with what in them."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


def describe(kwargs):
    body, meta, spec, status, resource = (
        kwargs[name] for name in ('body', 'meta', 'spec', 'status', 'resource')
    )
    return {
        'names': sorted(kwargs),
        'resource': [
            resource.group,
            resource.version,
            resource.plural,
            resource.kind,
            resource.singular,
            sorted(resource.shortcuts),
            resource.namespaced,
            resource.preferred,
            str(resource),
            repr(resource),
        ],
        'same': [
            body.metadata.name == meta.name == kwargs['name'],
            meta.namespace == kwargs['namespace'],
            body.spec == spec,
            body['spec'] == spec,
            meta.uid == kwargs['uid'],
            dict(meta.labels) == dict(kwargs['labels']),
        ],
        'missing': [
            status.get('x'),
            list(status),
            meta.get('x'),
            body.get('x'),
            len(kwargs['annotations']),
        ],
        'reason': [
            str(kwargs['reason']) == 'create',
            kwargs['reason'] == 'create',
            kwargs['reason'] == kopf.Reason.CREATE,
        ],
        'patch': [dict(kwargs['patch']), isinstance(kwargs['patch'], dict)],
        'logger': [hasattr(kwargs['logger'], name) for name in ('info', 'exception', 'extra')],
        'plain': [
            type(spec['nested']).__name__,
            type(spec['list']).__name__,
            type(body['spec']).__name__,
        ],
        'param': kwargs['param'],
    }


@kopf.on.create('kopfexamples', param=('p', 1), labels={'sentinel': kopf.ABSENT})
async def create_fn(**kwargs):
    record('create_fn', kwargs, describe=describe(kwargs))


@kopf.on.field('kopfexamples', field='spec.nested', labels={'sentinel': kopf.ABSENT})
def field_fn(**kwargs):
    record('field_fn', kwargs, names=sorted(kwargs))


@kopf.on.update('kopfexamples')
def update_fn(**kwargs):
    record(
        'update_fn',
        kwargs,
        names=sorted(kwargs),
        equal=[op == 'change' for op, *_ in kwargs['diff']],
    )


@kopf.on.event('kopfexamples', when=lambda type, **_: type == 'DELETED')
def event_fn(**kwargs):
    record('event_fn', kwargs, names=sorted(kwargs))


@kopf.on.delete('kopfexamples')
def delete_fn(**kwargs):
    record('delete_fn', kwargs, names=sorted(kwargs))


def story(world):
    world.start()
    world.sentinel()
    world.create('obj', spec={'nested': {'a': 1}, 'list': [1], 'field': 'x'})
    world.wait_handled('obj')
    world.patch('obj', spec={'field': 'y'})
    world.wait_record('update_fn')
    world.wait_handled('obj')
    world.delete('obj')
    world.wait_gone('obj')
    world.wait_record('event_fn', name='obj')
    world.sentinel()
