"""A daemon and a timer for each object.

The daemon counts down from `spec.seconds`, and sees when somebody changes that number. The timer tells
every ten seconds how old the object is.
"""
import datetime

import kopf


@kopf.daemon('countdowns', cancellation_timeout=5)
async def count_down(stopped, spec, patch, logger, **_):
    passed = 0
    while passed < spec.get('seconds', 10):
        if await stopped.wait(1):
            logger.info(f"Stopped after {passed} seconds: {stopped.reason}")
            return
        passed += 1
    logger.info("Lift off!")
    patch.status['phase'] = 'Done'


@kopf.timer('countdowns', interval=10)
def tell_age(meta, logger, **_):
    created = datetime.datetime.fromisoformat(meta['creationTimestamp'].replace('Z', '+00:00'))
    age = datetime.datetime.now(datetime.timezone.utc) - created
    logger.info(f"It is {age.total_seconds():.0f} seconds old.")
    return {'age': round(age.total_seconds())}
