"""What the scenario scripts about webhooks import beside kopf: a server, and the label by which
only the objects of this run are asked about, as all runs share one cluster.

The harness makes the certificate, one for the whole session: upstream makes none without more
packages, and the configurations of both sides, which are compared, contain it.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any

import kopf

#: The arguments of a server with the certificate of the session; the world sets the folder.
CERTIFICATES = pathlib.Path(os.environ.get('PARITY_CERTIFICATES', 'nowhere'))
CERTIFICATE = {
    'certfile': CERTIFICATES / 'webhooks.crt',
    'pkeyfile': CERTIFICATES / 'webhooks.key',
}

#: The name of the namespace of the run; the world sets it.
WORLD = os.environ.get('PARITY_WORLD', 'nowhere')
LABELS = {'world': WORLD}


def serve(**options: Any) -> None:
    @kopf.on.startup()
    def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.admission.managed = f'{WORLD}.kopf.dev'
        settings.admission.server = kopf.WebhookServer(
            addr='127.0.0.1',
            **CERTIFICATE,
            **options,
        )
