"""Two operators for the same objects: the one with the higher priority works, the other one pauses.

Run in one terminal:  kopf run operator.py -n default --peering=example --priority=1
and in another one:   kopf run operator.py -n default --peering=example --priority=2
"""
import kopf


@kopf.on.create('configmaps', labels={'example.com/greeted': 'please'})
def greet(name, logger, **_):
    logger.info(f"Hello, {name}!")
