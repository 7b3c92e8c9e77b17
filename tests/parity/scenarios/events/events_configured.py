"""The names and the source of events, and from which level on they are posted."""

import logging

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.startup()
def configure(settings, **_):
    settings.posting.level = logging.WARNING
    settings.posting.event_name_prefix = 'mine-'
    settings.posting.reporting_component = 'component'
    settings.posting.reporting_instance = 'instance'


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def create_fn(body, **kwargs):
    record('create_fn', kwargs)
    kopf.event(body, type='Custom', reason='Always', message='Whatever the level.')
    kopf.info(body, reason='Informed', message='Below the level.')
    kopf.warn(body, reason='Warned', message='A warning.')
    kopf.exception(body, reason='Failed', exc=ValueError('boo'))


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.wait_events(3)
    world.sentinel()
    for event in world.list('events'):
        world.note('name', event['metadata']['name'][:5])
