"""A daemon and a timer for each object.

The daemon counts down from `spec.seconds`, and notices when someone changes that number. The timer logs
the age of the object every ten seconds.

Run with: kopf dev examples/python/06-background/operator.py -f examples/python/06-background/
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
def log_age(meta, logger, **_):
    created = datetime.datetime.fromisoformat(meta['creationTimestamp'].replace('Z', '+00:00'))
    age = datetime.datetime.now(datetime.timezone.utc) - created
    logger.info(f"It is {age.total_seconds():.0f} seconds old.")
    return {'age': round(age.total_seconds())}
