"""Several namespaces by their names: the objects in each are handled, those in others are not."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
@kopf.on.update('kopfexamples', labels={'sentinel': kopf.ABSENT})
def change_fn(spec, **kwargs):
    record('change_fn', kwargs, 'namespace', field=spec['field'])
    return kwargs['namespace']


@kopf.on.delete('kopfexamples', labels={'sentinel': kopf.ABSENT})
def delete_fn(**kwargs):
    record('delete_fn', kwargs, 'namespace')


def story(world):
    first, second = world.add_namespace('a'), world.add_namespace('b')
    world.add_namespace('c')
    world.create('a/before')
    world.start('-n', world.namespace, '-n', first, '-n', second)
    for name in 'own', 'a/in-a', 'b/in-b', 'c/in-c':
        world.create(name)
    for name in 'own', 'a/before', 'a/in-a', 'b/in-b':
        world.wait_handled(name)
    for name in 'a/in-a', 'b/in-b', 'c/in-c':
        world.patch(name, spec={'field': 'changed'})
    for name in 'in-a', 'in-b':
        world.wait_record('change_fn', name=name, field='changed')
    world.delete('b/in-b')
    world.wait_gone('b/in-b')
    world.wait_handled('a/in-a')
    world.sentinel()
