"""The log lines of the handlers: formatted, with exceptions, with extras, of children of the
logger.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
async def create_fn(logger, **kwargs):
    record('create_fn', kwargs)
    logger.debug('Debugged.')
    logger.info('Informed of %r and %d%%.', 'text', 5)
    logger.warning('Unicode: žluťoučký ☃.')
    logger.error({'not': 'a text'})
    try:
        raise ValueError('inner')
    except ValueError:
        logger.exception('Caught.')
    logger.critical('Critical.')


@kopf.on.event(
    'kopfexamples', labels={'sentinel': kopf.ABSENT}, when=lambda type, **_: type == 'DELETED'
)
def event_fn(logger, **kwargs):
    logger.info('By an event handler.')
    record('event_fn', kwargs)


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.delete('obj')
    world.wait_record('event_fn')
    world.sentinel()
