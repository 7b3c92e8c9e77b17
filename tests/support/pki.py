"""Certificates for the tests, made by ``openssl`` at run time: no private key is in the repository.

The control plane, the servers of webhooks, and the tests of client certificates use them.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess

OPENSSL_CONFIG = """
[req]
distinguished_name = dn
prompt = no
[dn]
CN = test
[ca]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign,digitalSignature
subjectKeyIdentifier = hash
[server]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature,keyEncipherment
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = IP:127.0.0.1,IP:10.0.0.1,DNS:localhost,DNS:kubernetes.default.svc
[client]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = clientAuth
"""


def make_pki(folder: pathlib.Path) -> None:
    """Make an authority (``ca``), a server certificate for localhost (``server``), and the keys of
    service accounts (``sa``), each as ``.key`` with ``.crt`` or ``.pub``.
    """
    make_authority(folder)
    make_certificate(folder, 'server', subject='/CN=kube-apiserver', extensions='server', days=30)
    openssl(folder, 'genrsa -out sa.key 2048')
    openssl(folder, 'rsa -in sa.key -pubout -out sa.pub')


def make_authority(folder: pathlib.Path) -> None:
    """Empty the folder, and make ``ca.crt`` and ``ca.key`` in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    (folder / 'openssl.cnf').write_text(OPENSSL_CONFIG)
    openssl(
        folder,
        'req -x509 -newkey rsa:2048 -nodes -days 30 -sha256 -keyout ca.key -out ca.crt'
        ' -subj /CN=test-ca -config openssl.cnf -extensions ca',
    )


def make_certificate(
    folder: pathlib.Path, name: str, *, subject: str, extensions: str, days: int = 1
) -> None:
    """Make ``name.crt`` and ``name.key`` beside the authority that signs them.

    :param extensions: ``server`` or ``client``.
    """
    openssl(
        folder,
        f'req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr'
        f' -subj {subject} -config openssl.cnf',
    )
    openssl(
        folder,
        f'x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days {days} -sha256'
        f' -out {name}.crt -extfile openssl.cnf -extensions {extensions}',
    )


def make_self_signed(folder: pathlib.Path, name: str) -> None:
    """Make ``name.crt`` and ``name.key`` of a server on localhost, which is its own authority."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    openssl(
        folder,
        f'req -x509 -newkey rsa:2048 -nodes -days 30 -sha256 -keyout {name}.key -out {name}.crt'
        ' -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1',
    )


def openssl(folder: pathlib.Path, arguments: str) -> None:
    subprocess.run(['openssl', *arguments.split()], cwd=folder, check=True, capture_output=True)
