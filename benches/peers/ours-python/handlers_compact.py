"""The same operator, with the records of the framework in the status: fewer writes per object.

``settings.persistence.compact`` is of ours alone, so that upstream's Kopf cannot run this file.
"""

import pathlib
import sys

import kopf

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'kopf'))

import handlers_async  # noqa: F401  (its handlers are declared by importing it)


@kopf.on.startup()
async def configure_compact(settings: kopf.OperatorSettings, **_):
    settings.persistence.compact = True
