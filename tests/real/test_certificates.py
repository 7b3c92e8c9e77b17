"""Clients that the cluster knows by their certificates."""

from __future__ import annotations

import base64
import pathlib
import subprocess
from collections.abc import Callable

import pytest

from tests.controlplane.plane import ControlPlane
from tests.support.client import kubeconfig_of
from tests.support.examples import ExampleObjects
from tests.support.operator_process import OperatorProcess
from tests.support.pki import make_certificate

SCRIPT = """
import kopf

@kopf.on.create('kopfexamples')
def create_fn(**_):
    return 'created'
"""


@pytest.mark.parametrize('form', ['data', 'files'])
def test_the_certificate_of_the_kubeconfig(
    plane: ControlPlane,
    operator: Callable[..., OperatorProcess],
    examples: ExampleObjects,
    tmp_path: pathlib.Path,
    form: str,
) -> None:
    pki = plane.folder / 'pki'
    subject = '/O=system:masters/CN=certified'
    make_certificate(pki, f'client-{form}', subject=subject, extensions='client')
    certificate, key = pki / f'client-{form}.crt', pki / f'client-{form}.key'

    def encoded(path: pathlib.Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    user = {
        'files': {'client-certificate': str(certificate), 'client-key': str(key)},
        'data': {
            'client-certificate-data': encoded(certificate),
            'client-key-data': encoded(key),
        },
    }[form]
    cluster = {
        'server': plane.client.server,
        'certificate-authority-data': encoded(pki / 'ca.crt'),
    }
    config = tmp_path / 'certified'
    config.write_text(kubeconfig_of(cluster, user))
    process = operator(SCRIPT, env={'KUBECONFIG': str(config)})
    examples.create('obj')
    examples.wait('obj', lambda body: body['status']['create_fn'] == 'created')
    assert process.stop() == 0


def test_a_certificate_that_is_not_allowed_anything(
    plane: ControlPlane, operator: Callable[..., OperatorProcess], tmp_path: pathlib.Path
) -> None:
    """The cluster knows who it is, and refuses: the operator logs that, and goes on."""
    pki = plane.folder / 'pki'
    make_certificate(pki, 'client-nobody', subject='/CN=nobody-special', extensions='client')
    process = operator(
        SCRIPT
        + f"""
@kopf.on.login()
def login_fn(**_):
    return kopf.ConnectionInfo(
        server={plane.client.server!r},
        ca_path={str(pki / 'ca.crt')!r},
        certificate_path={str(pki / 'client-nobody.crt')!r},
        private_key_path={str(pki / 'client-nobody.key')!r},
    )
"""
    )
    process.wait_log('nobody-special')
    assert process.is_running()
    assert process.stop() == 0


def test_a_certificate_of_version_1(
    plane: ControlPlane,
    operator: Callable[..., OperatorProcess],
    examples: ExampleObjects,
    tmp_path: pathlib.Path,
) -> None:
    """``openssl x509 -req`` makes such ones for users; kubectl and the Python clients use them."""
    pki, certificate, key = plane.folder / 'pki', tmp_path / 'old.crt', tmp_path / 'old.key'
    request = f'openssl req -newkey rsa:2048 -nodes -keyout {key} -out {tmp_path}/old.csr'
    sign = f'openssl x509 -req -in {tmp_path}/old.csr -CA ca.crt -CAkey ca.key -days 1'
    for command in (
        [*request.split(), '-subj', '/O=system:masters/CN=old', '-config', 'openssl.cnf'],
        [*sign.split(), '-set_serial', '1', '-out', str(certificate)],
    ):
        subprocess.run(command, cwd=pki, check=True, capture_output=True)
    show = ['openssl', 'x509', '-in', str(certificate), '-noout', '-text']
    if b'Version: 1 ' not in subprocess.run(show, check=True, capture_output=True).stdout:
        pytest.skip('This openssl makes no certificates of version 1.')

    config = tmp_path / 'config'
    config.write_text(
        kubeconfig_of(
            {'server': plane.client.server, 'certificate-authority': str(pki / 'ca.crt')},
            {'client-certificate': str(certificate), 'client-key': str(key)},
        )
    )
    process = operator(SCRIPT, env={'KUBECONFIG': str(config)})
    examples.create('obj')
    examples.wait('obj', lambda body: body['status']['create_fn'] == 'created')
    assert process.stop() == 0
