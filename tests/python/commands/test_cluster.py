"""`kopf.testing.Cluster` and the fixtures of the pytest plugin."""
from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import logging
import os
import pathlib
import ssl
import stat
import threading
import urllib.error
import urllib.request

import pytest
import yaml

from kopf._declare.registries import SmartOperatorRegistry
from kopf.testing import Cluster, ClusterError, KopfRunner

CRD = {
    'apiVersion': 'apiextensions.k8s.io/v1',
    'kind': 'CustomResourceDefinition',
    'metadata': {'name': 'kopfexamples.kopf.dev'},
    'spec': {
        'group': 'kopf.dev',
        'scope': 'Namespaced',
        'names': {'kind': 'KopfExample', 'plural': 'kopfexamples', 'singular': 'kopfexample',
                  'shortNames': ['kex']},
        'versions': [{
            'name': 'v1', 'served': True, 'storage': True,
            'schema': {'openAPIV3Schema': {
                'type': 'object', 'x-kubernetes-preserve-unknown-fields': True}},
        }],
    },
}

OBJECT = {
    'apiVersion': 'kopf.dev/v1', 'kind': 'KopfExample',
    'metadata': {'name': 'one'}, 'spec': {'field': 'value'},
}

HANDLERS = '''
import kopf

@kopf.on.create('kopfexamples')
def create_fn(spec, **_):
    return spec['field']

@kopf.on.delete('kopfexamples')
def delete_fn(**_):
    pass
'''


@pytest.fixture(scope='module')
def cluster():
    with Cluster(manifests=[CRD], environ=False) as cluster:
        yield cluster


@pytest.mark.parametrize('name', [
    'kopfexamples', 'kopfexample', 'kex', 'KopfExample', 'kopfexamples.kopf.dev',
    'kopfexamples.v1.kopf.dev', 'kopf.dev/v1/kopfexamples',
])
def test_names_of_resources(cluster, name):
    cluster.apply(OBJECT)
    assert cluster.get(name, 'one')['spec'] == {'field': 'value'}


def test_unknown_resources_are_named(cluster):
    with pytest.raises(ClusterError, match="no such resource: 'nopes'") as caught:
        cluster.list('nopes')
    assert caught.value.code == 404


def test_the_life_of_an_object(cluster):
    created = cluster.create({**OBJECT, 'metadata': {'generateName': 'two-'}})
    name = created['metadata']['name']
    with pytest.raises(ClusterError, match='already exists') as caught:
        cluster.create({**OBJECT, 'metadata': {'name': name}})
    assert (caught.value.code, caught.value.reason) == (409, 'AlreadyExists')
    assert cluster.patch('kex', name, {'spec': {'field': None}})['spec'] == {}
    operations = [{'op': 'add', 'path': '/spec/a', 'value': 1}]
    assert cluster.patch('kex', name, operations)['spec'] == {'a': 1}
    assert [item['kind'] for item in cluster.list('kex', fields=f'metadata.name={name}')] \
        == ['KopfExample']
    cluster.delete('kex', name)
    cluster.wait_gone('kex', name)
    assert cluster.find('kex', name) is None
    cluster.delete('kex', name)
    with pytest.raises(ClusterError, match=f'"{name}" not found'):
        cluster.get('kex', name)


def test_lists_are_selected(cluster):
    for namespace, label in [('default', 'x'), ('default', 'y'), ('kube-public', 'x')]:
        metadata = {'name': f'labelled-{label}', 'namespace': namespace, 'labels': {'l': label}}
        cluster.apply({'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': metadata})

    def found(**kwargs):
        return [(item['metadata']['namespace'], item['metadata']['name'])
                for item in cluster.list('cm', **kwargs)]

    assert found(labels='l=x') == [('default', 'labelled-x'), ('kube-public', 'labelled-x')]
    assert found(labels='l=x', namespace='kube-public') == [('kube-public', 'labelled-x')]
    assert found(labels='l', fields='metadata.name=labelled-y') == [('default', 'labelled-y')]


@pytest.mark.parametrize('form', ['path', 'text path', 'folder', 'text', 'mapping', 'list'])
def test_forms_of_manifests(cluster, tmp_path, form):
    objects = [{'apiVersion': 'v1', 'kind': 'ConfigMap',
                'metadata': {'name': f'form-{number}'}, 'data': {'a': 'b'}}
               for number in range(1 if form == 'mapping' else 2)]
    text = yaml.safe_dump_all(objects)
    (tmp_path / 'a.yaml').write_text(text)
    (tmp_path / 'ignored.txt').write_text('{')
    manifest = {
        'path': tmp_path / 'a.yaml', 'text path': str(tmp_path / 'a.yaml'), 'folder': tmp_path,
        'text': text, 'mapping': objects[0], 'list': objects,
    }[form]
    applied = cluster.apply(manifest, namespace='kube-public')
    assert [(item['metadata']['namespace'], item['data']) for item in applied] \
        == [('kube-public', {'a': 'b'})] * len(objects)


def test_refused_manifests_are_named(cluster):
    with pytest.raises(ClusterError, match='configmaps/X in the namespace default: ConfigMap "X"'):
        cluster.apply({'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'X'}})


def test_waiting_tells_what_was_seen(cluster):
    cluster.apply(OBJECT)
    with pytest.raises(TimeoutError, match=r'kex/one was to be as expected in 0 s; it is .*value'):
        cluster.wait_for('kex', 'one', lambda obj: obj['status']['absent'], timeout=0)
    with pytest.raises(TimeoutError, match='kex/one was to be gone'):
        cluster.wait_gone('kex', 'one', timeout=0)


def test_the_clock_is_moved_on(cluster):
    def stamp(name: str) -> str:
        created = cluster.create({'apiVersion': 'v1', 'kind': 'ConfigMap',
                                  'metadata': {'name': name}})
        return created['metadata']['creationTimestamp']

    before = stamp('early')
    cluster.advance(24 * 3600)
    assert stamp('late')[:10] > before[:10]


def test_requests_are_counted(cluster):
    cluster.apply(OBJECT)
    cluster.reset_requests()
    cluster.get('kex', 'one')
    cluster.get('kex', 'one')
    cluster.list('deployments')
    assert cluster.requests == {
        ('get', 'kopfexamples.kopf.dev'): 2,
        ('list', 'deployments.apps'): 1,
    }


def test_faults_on_demand(cluster):
    cluster.apply(OBJECT)
    cluster.add_fault('error', code=503, verb='get', resource='kopfexamples', times=1)
    with pytest.raises(ClusterError) as caught:
        cluster.get('kex', 'one')
    assert caught.value.code == 503
    cluster.get('kex', 'one')
    number = cluster.add_fault('disconnect', verb='list')
    with pytest.raises(ClusterError):
        cluster.list('kex')
    cluster.remove_faults(number)
    cluster.list('kex')
    with pytest.raises(ClusterError, match='nope'):
        cluster.add_fault('nope')


def test_the_environment(monkeypatch):
    monkeypatch.setenv('KUBECONFIG', 'before')
    with Cluster() as cluster:
        path = cluster.kubeconfig
        assert os.environ['KUBECONFIG'] == str(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        config = yaml.safe_load(path.read_text())
        assert config['clusters'][0]['cluster']['server'] == cluster.url
        assert config['users'][0]['user']['token'] == cluster.token
    assert os.environ['KUBECONFIG'] == 'before'
    assert not path.parent.exists()
    with pytest.raises(RuntimeError, match='not running'):
        cluster.list('pods')


def test_strangers_are_refused(cluster):
    context = ssl.create_default_context(cadata=_authority(cluster))
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f'{cluster.url}/api/v1/namespaces', context=context)
    with caught.value as answer:
        assert answer.code == 401


def _authority(cluster: Cluster) -> str:
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    return base64.b64decode(config['clusters'][0]['cluster']['certificate-authority-data']).decode()


def test_objects_are_kept_in_a_folder(tmp_path):
    manifest = {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'kept'}}
    with Cluster(data_dir=tmp_path / 'data', environ=False) as first:
        first.apply(manifest)
    with Cluster(data_dir=tmp_path / 'data', environ=False) as second:
        assert second.find('cm', 'kept') is not None
        assert second.token == first.token


async def check_async() -> None:
    async with Cluster(manifests=[CRD]) as cluster:
        assert os.environ['KUBECONFIG'] == str(cluster.kubeconfig)
        await cluster.apply(OBJECT)
        await cluster.wait_for('kex', 'one', lambda obj: obj['spec'])
        await cluster.patch('kex', 'one', {'spec': {'a': 1}})
        assert (await cluster.get('kex', 'one'))['spec']['a'] == 1
        assert len(await cluster.list('kex')) == 1
        await cluster.delete('kex', 'one')
        await cluster.wait_gone('kex', 'one')
        assert await cluster.find('kex', 'one') is None


def test_async_with():
    asyncio.run(check_async())


def test_fixtures_of_the_plugin(kopf_cluster, kopf_runner, tmp_path):
    (tmp_path / 'handlers.py').write_text(HANDLERS)
    kopf_cluster.apply(CRD)
    kopf_runner(tmp_path / 'handlers.py')
    kopf_cluster.apply(OBJECT)
    seen = kopf_cluster.wait_for('kex', 'one', lambda obj: obj['status']['create_fn'])
    assert seen['status']['create_fn'] == 'value'
    kopf_cluster.delete('kex', 'one')
    kopf_cluster.wait_gone('kex', 'one')


def test_hours_of_retries_pass_at_once(kopf_cluster, kopf_runner, tmp_path):
    (tmp_path / 'handlers.py').write_text('''
import kopf

@kopf.on.create('kopfexamples')
def create_fn(retry, patch, **_):
    patch.status['tried'] = retry + 1
    if retry < 3:
        raise kopf.TemporaryError("not yet", delay=3600)
    return retry
''')
    kopf_cluster.apply(CRD)
    kopf_runner(tmp_path / 'handlers.py')
    kopf_cluster.apply(OBJECT)
    for tried in 1, 2, 3:
        kopf_cluster.wait_for('kex', 'one', lambda obj, n=tried: obj['status']['tried'] == n)
        kopf_cluster.advance(3600)
    seen = kopf_cluster.wait_for('kex', 'one', lambda obj: obj['status']['create_fn'])
    assert seen['status']['create_fn'] == 3


def test_time_can_be_moved_on_for_peers(kopf_cluster, tmp_path, monkeypatch):
    """The operator was frozen for a month, which passes at once.

    So long, since the time of this process was moved on by other tests already.
    """
    month = 30 * 24 * 3600
    manifests = pathlib.Path(__file__).parents[2] / 'support' / 'crds'
    now = datetime.datetime.now(datetime.timezone.utc).isoformat()
    kopf_cluster.apply(CRD)
    kopf_cluster.apply(manifests / 'peering.yaml')
    kopf_cluster.apply({
        'apiVersion': 'kopf.dev/v1', 'kind': 'ClusterKopfPeering', 'metadata': {'name': 'default'},
        'status': {'somebody': {'priority': 100, 'lifetime': month, 'lastseen': now}},
    })
    script = tmp_path / 'handlers.py'
    script.write_text(HANDLERS)
    paused = threading.Event()
    watcher = logging.Handler()
    watcher.emit = lambda record: 'Pausing' in record.getMessage() and paused.set()
    monkeypatch.setattr(logging.getLogger('kopf.engine.peering'), 'handlers', [watcher])
    with KopfRunner(['run', '-A', str(script)], registry=SmartOperatorRegistry()) as runner:
        assert paused.wait(30)
        kopf_cluster.apply(OBJECT)
        kopf_cluster.advance(month)
        kopf_cluster.wait_for('kex', 'one', lambda obj: obj['status'])
    assert 'Pausing operations in favour of [<Peer somebody: ' in runner.output
    assert 'Resuming operations after the pause.' in runner.output
    assert not kopf_cluster.get('clusterkopfpeerings', 'default')['status']


def move_on(cluster, seconds, condition):
    """Move the time on until it is so.

    Mostly once: what is stored by a call is seen before its end, with which its pause begins.
    """
    for _ in range(10):
        cluster.advance(seconds)
        with contextlib.suppress(TimeoutError):
            return cluster.wait_for('kex', 'one', condition, timeout=2)['status']
    raise AssertionError(cluster.get('kex', 'one'))


def test_days_of_timers_and_daemons_pass_at_once(kopf_cluster, kopf_runner, tmp_path):
    (tmp_path / 'handlers.py').write_text('''
import kopf

@kopf.timer('kopfexamples', interval=3600, initial_delay=86400)
def timer_fn(status, **_):
    return status.get('timer_fn', 0) + 1

@kopf.daemon('kopfexamples')
async def daemon_fn(retry, patch, **_):
    patch.status['tried'] = retry + 1
    if retry < 2:
        raise kopf.TemporaryError("not yet", delay=86400)
    return 'done'
''')
    kopf_cluster.apply(CRD)
    kopf_runner(tmp_path / 'handlers.py')
    kopf_cluster.apply(OBJECT)
    seen = kopf_cluster.wait_for('kex', 'one', lambda obj: obj['status']['tried'] == 1)
    assert seen['status'] == {'tried': 1}
    status = move_on(kopf_cluster, 86400, lambda obj: obj['status']['timer_fn'] == 1)
    assert 'daemon_fn' not in status
    for number in range(2, 5):
        move_on(kopf_cluster, 3600, lambda obj, n=number: obj['status']['timer_fn'] == n)
    status = move_on(kopf_cluster, 86400, lambda obj: obj['status']['daemon_fn'])
    # However long it was, a timer ticks once for it.
    assert status['tried'] == 3 and status['timer_fn'] < 8
    kopf_cluster.delete('kex', 'one')
    kopf_cluster.wait_gone('kex', 'one')


def test_days_of_idling_pass_at_once(kopf_cluster, kopf_runner, tmp_path):
    day = 24 * 3600
    (tmp_path / 'handlers.py').write_text(f'''
import kopf

@kopf.timer('kopfexamples', idle={7 * day})
async def idle_fn(spec, **_):
    return spec['field']

@kopf.timer('kopfexamples', interval={day})
async def daily_fn(status, **_):
    return status.get('daily_fn', 0) + 1

@kopf.on.create('kopfexamples')
@kopf.on.update('kopfexamples')
def change_fn(spec, **_):
    return spec['field']
''')
    kopf_cluster.apply(CRD)
    kopf_runner(tmp_path / 'handlers.py')
    kopf_cluster.apply(OBJECT)
    kopf_cluster.wait_for('kex', 'one', lambda obj: obj['status']['change_fn'] == 'value')
    status = move_on(kopf_cluster, day, lambda obj: obj['status']['daily_fn'] >= 2)
    assert 'idle_fn' not in status
    # The change ends the idle time; it starts again from zero.
    kopf_cluster.patch('kex', 'one', {'spec': {'field': 'changed'}})
    kopf_cluster.wait_for('kex', 'one', lambda obj: obj['status']['change_fn'] == 'changed')
    seen = kopf_cluster.get('kex', 'one')['status']['daily_fn']
    status = move_on(kopf_cluster, 3 * day, lambda obj: obj['status']['daily_fn'] > seen)
    assert 'idle_fn' not in status
    status = move_on(kopf_cluster, 7 * day, lambda obj: obj['status']['idle_fn'])
    assert status['idle_fn'] == 'changed'
