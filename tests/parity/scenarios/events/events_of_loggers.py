"""With posting.loggers, the log lines of the handlers become events, from the given level."""

import logging

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.startup()
def configure(settings, **_):
    settings.posting.loggers = True
    settings.posting.level = logging.WARNING


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def create_fn(logger, **kwargs):
    record('create_fn', kwargs)
    logger.debug('Debugged.')
    logger.info('Informed.')
    logger.warning('Warned of %s.', 'something')
    logger.error('Failed.', extra={'some': 'extra'})


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def failing_fn(**kwargs):
    record('failing_fn', kwargs)
    raise kopf.PermanentError('This comes as an event, too.')


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.wait_events(3)
    world.sentinel()
