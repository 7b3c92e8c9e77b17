"""Nothing is posted when posting is disabled; everything is still logged."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.startup()
def configure(settings, **_):
    settings.posting.enabled = False
    settings.posting.loggers = True


@kopf.on.create('kopfexamples')
def create_fn(body, logger, **kwargs):
    record('create_fn', kwargs)
    kopf.info(body, reason='Informed', message='Some information.')
    logger.warning('Warned.')


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.sentinel()
