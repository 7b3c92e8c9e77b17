"""What the scenario scripts about webhooks import beside kopf: a server, and the label by which
only the objects of this run are asked about, as all runs share one cluster.

The certificate is for these tests only: upstream makes none without more packages.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any

import kopf

HERE = pathlib.Path(__file__).parent

#: The name of the namespace of the run; the world sets it.
WORLD = os.environ.get('PARITY_WORLD', 'nowhere')
LABELS = {'world': WORLD}


def serve(**options: Any) -> None:
    @kopf.on.startup()
    def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.admission.managed = f'{WORLD}.kopf.dev'
        settings.admission.server = kopf.WebhookServer(
            addr='127.0.0.1',
            certfile=HERE / 'webhooks.crt',
            pkeyfile=HERE / 'webhooks.key',
            **options,
        )
