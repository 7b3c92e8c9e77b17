"""By a category, by a version that is not preferred, and the objects of other kinds left alone."""

import kopf
from tests.parity.recorder import record, sentinel

UNORDERED = True
sentinel()

kopf.set_default_lifecycle(kopf.lifecycles.all_at_once)
recorded = set()


def record_once(id, kwargs, **values):
    """The number and the types of events depend on the time."""
    if (id, kwargs['name']) not in recorded:
        recorded.add((id, kwargs['name']))
        record(id, {'name': kwargs['name']}, **values)


@kopf.on.create(category='kopfdemo', id='category')
def category_fn(resource, **kwargs):
    record('category', kwargs, resource=repr(resource))


@kopf.on.event('kopf.dev', 'v1beta1', 'kopfstatuses', id='beta')
def beta_fn(resource, body, **kwargs):
    record_once('beta', kwargs, resource=repr(resource), version=body['apiVersion'])


@kopf.on.event('kst', id='preferred')
def preferred_fn(resource, body, **kwargs):
    record_once('preferred', kwargs, resource=repr(resource), version=body['apiVersion'])


def story(world):
    world.start()
    world.sentinel()
    world.create('obj', plural='kopfstatuses')
    world.create('obj')
    world.wait_handled('obj', plural='kopfstatuses')
    world.wait_record('beta')
    world.wait_record('preferred')
    world.sentinel()
