"""Ways to log in, and the form of credentials for the engine."""
from __future__ import annotations

import base64
import datetime
import json
import pathlib
import sys
import types
from typing import Any

import pytest

import kopf
from kopf._connect import credentials, logins
from kopf._declare.handlers import ActivityHandler

PEM = '-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n'
HANDLER = ActivityHandler(id='login', fn=lambda **_: None, activity=None)


def log_in(fn: Any) -> Any:
    import logging
    return fn(logger=logging.getLogger('x'), settings=kopf.OperatorSettings())


def write_kubeconfig(path: pathlib.Path, user: dict[str, Any], **cluster: Any) -> None:
    path.write_text(json.dumps({
        'current-context': 'ctx',
        'contexts': [{'name': 'ctx', 'context': {'cluster': 'c', 'user': 'u',
                                                 'namespace': 'ns'}}],
        'clusters': [{'name': 'c', 'cluster': {'server': 'https://x', **cluster}}],
        'users': [{'name': 'u', 'user': user}]}))


def test_description() -> None:
    info = kopf.ConnectionInfo(
        server='https://x', ca_path=pathlib.Path('/ca'), certificate_data=PEM,
        private_key_data=base64.b64encode(PEM.encode()), token='t', insecure=True,
        expiration=datetime.datetime(2030, 1, 1), priority=5, default_namespace='ns')
    assert credentials.describe(HANDLER, info) == {
        'server': 'https://x', 'ca_path': '/ca', 'ca_data': None, 'insecure': True,
        'username': None, 'password': None, 'scheme': None, 'token': 't', 'token_path': None,
        'certificate_path': None, 'certificate_data': PEM, 'private_key_path': None,
        'private_key_data': PEM, 'default_namespace': 'ns', 'proxy_url': None, 'trust_env': False,
        'expiration': '2030-01-01T00:00:00+00:00', 'priority': 5, 'kubeconfig': False}


def test_secrets_are_not_shown() -> None:
    info = kopf.ConnectionInfo(
        server='https://x', username='me', password='SECRET-1', token='SECRET-2',
        private_key_data='SECRET-3')
    assert 'https://x' in repr(info) and 'me' in repr(info)
    assert 'SECRET' not in f'{info!r} {info!s} {[info]}'


@pytest.mark.parametrize('value, message', [
    ('text', 'str instead of'), ({'server': 'x'}, 'dict instead of'),
    (kopf.AiohttpSession(server='x', aiohttp_session=None),
     r'has returned a kopf.AiohttpSession, which is not supported: .+ Return a kopf.Connection'),
])
def test_wrong_results(value: Any, message: str) -> None:
    with pytest.raises(kopf.PermanentError, match=message):
        credentials.describe(HANDLER, value)


@pytest.mark.parametrize('name', ['ca', 'certificate', 'private_key'])
def test_path_or_data(name: str) -> None:
    with pytest.raises(ValueError, match='Need only one'):
        kopf.ConnectionInfo(server='x', **{f'{name}_path': 'x', f'{name}_data': 'x'})


@pytest.mark.parametrize('kwargs, header', [
    ({}, None), ({'token': 't'}, 'Bearer t'), ({'scheme': 'S', 'token': 't'}, 'S t'),
    ({'scheme': 'S'}, 'S'), ({'username': 'u', 'password': 'p'}, 'Basic dTpw'),
])
def test_headers(kwargs: Any, header: str | None) -> None:
    headers = kopf.ConnectionInfo(server='x', **kwargs).as_http_headers()
    assert headers == ({'Authorization': header} if header else {})


def test_insecure_tls() -> None:
    import ssl
    context = kopf.ConnectionInfo(server='x', insecure=True).as_ssl_context()
    assert context.verify_mode is ssl.CERT_NONE
    with pytest.warns(DeprecationWarning):
        kopf.ConnectionInfo(server='x').as_aiohttp_basic_auth()


def test_kubeconfig(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / 'one', tmp_path / 'two'
    write_kubeconfig(first, {'token': 't', 'client-certificate': 'crt'}, **{
        'certificate-authority-data': 'data', 'proxy-url': 'http://proxy'})
    write_kubeconfig(second, {'token': 'other'})
    monkeypatch.setenv('KUBECONFIG', f'{first}:{second}')
    info = log_in(kopf.login_with_kubeconfig)
    assert info.server == 'https://x' and info.token == 't' and info.default_namespace == 'ns'
    assert info.ca_data == 'data' and info.proxy_url == 'http://proxy' and info.priority == 10
    assert info.certificate_path == str(tmp_path / 'crt')
    assert type(info) is kopf.ConnectionInfo


@pytest.mark.parametrize('user', [
    {'exec': {'command': 'aws'}}, {'auth-provider': {'name': 'oidc', 'config': {}}}])
def test_kubeconfig_with_plugins_is_left_to_the_engine(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, user: Any) -> None:
    write_kubeconfig(tmp_path / 'config', user)
    monkeypatch.setenv('KUBECONFIG', str(tmp_path / 'config'))
    info = log_in(kopf.login_with_kubeconfig)
    assert credentials.describe(HANDLER, info)['kubeconfig'] is True


@pytest.mark.parametrize('text, message', [
    ('{}', 'Current context is not set'), ('{"current-context": "x"}', "'x'"),
    ('[unclosed', 'Cannot read')])
def test_wrong_kubeconfig(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
                          text: str, message: str) -> None:
    (tmp_path / 'config').write_text(text)
    monkeypatch.setenv('KUBECONFIG', str(tmp_path / 'config'))
    with pytest.raises(kopf.LoginError, match=message):
        log_in(kopf.login_with_kubeconfig)


def test_no_kubeconfig(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv('KUBECONFIG', raising=False)
    monkeypatch.setenv('HOME', str(tmp_path))
    assert not logins.has_kubeconfig()
    assert log_in(kopf.login_with_kubeconfig) is None


def test_service_account(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, '_SECRETS', str(tmp_path))
    assert log_in(kopf.login_with_service_account) is None
    (tmp_path / 'token').write_text('t\n')
    (tmp_path / 'namespace').write_text('ns')
    info = log_in(kopf.login_with_service_account)
    assert (info.server, info.token, info.token_path, info.default_namespace, info.ca_path) == (
        'https://kubernetes.default.svc', 't', str(tmp_path / 'token'), 'ns', None)
    (tmp_path / 'ca.crt').write_text('')
    assert log_in(kopf.login_with_service_account).ca_path == str(tmp_path / 'ca.crt')


class ConfigException(Exception):
    pass


def make_client(calls: list[str], fail: bool = False) -> Any:
    """A stand-in for the official client library."""
    def load_incluster_config() -> None:
        raise ConfigException

    def load_kube_config() -> None:
        calls.append('kubeconfig')
        if fail:
            raise ConfigException

    configuration = types.SimpleNamespace(
        host='https://x', ssl_ca_cert='/ca', verify_ssl=True, username='', password='',
        cert_file=None, key_file=None,
        get_api_key_with_prefix=lambda name: 'Bearer t' if name == 'authorization' else None)
    client = types.ModuleType('kubernetes.client')
    client.Configuration = types.SimpleNamespace(  # type: ignore[attr-defined]
        get_default_copy=lambda: configuration)
    config = types.ModuleType('kubernetes.config')
    config.ConfigException = ConfigException  # type: ignore[attr-defined]
    config.load_incluster_config = load_incluster_config  # type: ignore[attr-defined]
    config.load_kube_config = load_kube_config  # type: ignore[attr-defined]
    package = types.ModuleType('kubernetes')
    package.client, package.config = client, config  # type: ignore[attr-defined]
    return {'kubernetes': package, 'kubernetes.client': client, 'kubernetes.config': config}


def test_login_via_client(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name, module in make_client(calls).items():
        monkeypatch.setitem(sys.modules, name, module)
    info = log_in(kopf.login_via_client)
    assert calls == ['kubeconfig']
    assert (info.server, info.ca_path, info.scheme, info.token, info.insecure, info.username) == (
        'https://x', '/ca', 'Bearer', 't', False, None)


def test_login_via_client_without_configs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in make_client([], fail=True).items():
        monkeypatch.setitem(sys.modules, name, module)
    with pytest.raises(kopf.LoginError, match='neither in-cluster'):
        log_in(kopf.login_via_client)


@pytest.mark.parametrize('name, fn', [
    ('kubernetes', kopf.login_via_client), ('pykube', kopf.login_via_pykube)])
def test_login_without_libraries(monkeypatch: pytest.MonkeyPatch, name: str, fn: Any) -> None:
    monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type]
    assert log_in(fn) is None


def test_library_imported_later_is_configured(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / 'kubernetes'
    package.mkdir()
    (package / '__init__.py').write_text('from kubernetes import config\n')
    (package / 'config.py').write_text(
        'class ConfigException(Exception): pass\n'
        'loaded = []\n'
        'def load_incluster_config(): raise ConfigException\n'
        'def load_kube_config(): loaded.append(True)\n')
    for name in [name for name in sys.modules if name.split('.')[0] == 'kubernetes']:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, 'meta_path', list(sys.meta_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    logins.configure_when_imported()
    logins.configure_when_imported()
    import kubernetes.config  # type: ignore[import-not-found]
    try:
        assert kubernetes.config.loaded == [True]
        assert type(kubernetes.__loader__).__name__ == 'SourceFileLoader'
    finally:
        for name in [name for name in sys.modules if name.split('.')[0] == 'kubernetes']:
            del sys.modules[name]
