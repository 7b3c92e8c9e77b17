"""Families of objects: dicts, lists, objects of pykube, models of client libraries."""
from __future__ import annotations

import sys
import types
from typing import Any

import pytest

import kopf

OWNER = kopf.Body({
    'apiVersion': 'v1', 'kind': 'Owner',
    'metadata': {'name': 'o', 'namespace': 'ns', 'uid': 'u', 'labels': {'a': 'b'}}})
REFERENCE = {'controller': True, 'blockOwnerDeletion': True, 'apiVersion': 'v1', 'kind': 'Owner',
             'name': 'o', 'uid': 'u'}


class Metadata:
    attribute_map = {'owner_references': 'ownerReferences', 'generate_name': 'generateName'}

    def __init__(self) -> None:
        self.name = self.generate_name = self.namespace = None
        self.labels = self.owner_references = None


class Model:
    attribute_map = {'metadata': 'metadata', 'spec': 'spec'}

    def __init__(self, metadata: Any = None, spec: Any = None) -> None:
        self.metadata = metadata
        self.spec = spec


class PykubeObject:
    def __init__(self, obj: Any) -> None:
        self.obj = obj


Model.__module__ = 'kubernetes.client.models.v1_pod'
PykubeObject.__module__ = 'pykube.objects'


@pytest.fixture(autouse=True)
def _client(monkeypatch: pytest.MonkeyPatch) -> None:
    client = types.ModuleType('kubernetes.client')
    client.V1ObjectMeta = Metadata  # type: ignore[attr-defined]
    client.V1OwnerReference = types.SimpleNamespace  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, 'kubernetes.client', client)


def test_adopt_a_dict() -> None:
    child: dict[str, Any] = {}
    kopf.adopt(child, owner=OWNER)
    assert child == {'metadata': {'ownerReferences': [REFERENCE], 'generateName': 'o-',
                                  'namespace': 'ns', 'labels': {'a': 'b'}}}
    kopf.adopt(child, owner=OWNER)
    assert len(child['metadata']['ownerReferences']) == 1


def test_adopt_keeps_what_is_there() -> None:
    child: dict[str, Any] = {'metadata': {'name': 'c', 'namespace': 'x', 'labels': {'a': 'c'}}}
    kopf.adopt([child], owner=OWNER)
    assert child['metadata'] == {'name': 'c', 'namespace': 'x', 'labels': {'a': 'c'},
                                 'ownerReferences': [REFERENCE]}


def test_adopt_by_force_and_strictly() -> None:
    child: dict[str, Any] = {'metadata': {'generateName': 'c-', 'namespace': 'x',
                                          'labels': {'a': 'c'}},
                             'spec': {'template': {}}}
    kopf.adopt(child, owner=OWNER, forced=True, strict=True, nested='spec.template')
    assert child['metadata'] == {'name': 'o', 'namespace': 'ns', 'labels': {'a': 'b'},
                                 'ownerReferences': [REFERENCE]}
    assert child['spec'] == {'template': {'metadata': {'labels': {'a': 'b'}}}}


def test_adopt_a_pykube_object() -> None:
    child = PykubeObject({})
    kopf.adopt([child], owner=OWNER)
    assert child.obj['metadata']['namespace'] == 'ns'


def test_adopt_a_model() -> None:
    child = Model()
    kopf.adopt(child, owner=OWNER)
    metadata = child.metadata
    assert (metadata.name, metadata.generate_name, metadata.namespace, metadata.labels) == (
        None, 'o-', 'ns', {'a': 'b'})
    assert [vars(reference) for reference in metadata.owner_references] == [{
        'api_version': 'v1', 'kind': 'Owner', 'name': 'o', 'uid': 'u', 'controller': True,
        'block_owner_deletion': True}]
    kopf.harmonize_naming(child, 'x', forced=True, strict=True)
    assert (metadata.name, metadata.generate_name) == ('x', None)
    kopf.remove_owner_reference(child, owner=OWNER)
    assert metadata.owner_references == []


def test_references_of_dicts() -> None:
    child: dict[str, Any] = {}
    kopf.append_owner_reference(child, OWNER, controller=False, block_owner_deletion=None)
    assert child['metadata']['ownerReferences'] == [
        {'controller': False, 'apiVersion': 'v1', 'kind': 'Owner', 'name': 'o', 'uid': 'u'}]
    kopf.remove_owner_reference([child], OWNER)
    assert child['metadata']['ownerReferences'] == []


def test_labels() -> None:
    child: dict[str, Any] = {'metadata': {'labels': {'a': '1'}}, 'spec': {}}
    kopf.label([child], {'a': '2', 'c': None}, nested=['spec', 'absent'])
    assert child == {'metadata': {'labels': {'a': '1', 'c': None}},
                     'spec': {'metadata': {'labels': {'a': '2', 'c': None}}}}
    with pytest.warns(DeprecationWarning):
        kopf.label(child, {'a': '3'}, force=True)
    assert child['metadata']['labels']['a'] == '3'


def test_names_and_namespaces() -> None:
    child: dict[str, Any] = {}
    kopf.harmonize_naming(child, 'x', strict=True)
    kopf.adjust_namespace(child, 'y')
    kopf.adjust_namespace(child, 'z')
    assert child == {'metadata': {'name': 'x', 'namespace': 'y'}}
    kopf.harmonize_naming(child, 'other', forced=True)
    kopf.adjust_namespace(child, None, forced=True)
    assert child == {'metadata': {'generateName': 'other-', 'namespace': None}}


@pytest.mark.parametrize('fn', [
    kopf.adopt, kopf.label, kopf.harmonize_naming, kopf.adjust_namespace,
    kopf.append_owner_reference, kopf.remove_owner_reference])
def test_owner_is_required_outside_of_handlers(fn: Any) -> None:
    with pytest.raises(LookupError, match='Owner must be set'):
        fn({})


def test_unsupported_classes() -> None:
    with pytest.raises(TypeError, match='not supported'):
        kopf.adopt(object(), owner=OWNER)
