"""The public names and their signatures: those of kopf 1.45, and what is added to them."""
from __future__ import annotations

import importlib
import inspect
import json
import pathlib
import pickle
import re
import subprocess
import sys
from typing import Any

import pytest

import kopf

KNOWN: dict[str, Any] = json.loads(
    pathlib.Path(__file__).with_name('known_interface.json').read_text())
PACKAGE = pathlib.Path(kopf.__file__).parent
POSITIONAL = {'POSITIONAL_ONLY', 'POSITIONAL_OR_KEYWORD'}


def find(address: str) -> Any:
    parts = address.split('.')
    if parts[:2] in (['kopf', 'on'], ['kopf', 'testing'], ['kopf', 'lifecycles']) and parts[2:]:
        return getattr(importlib.import_module('.'.join(parts[:2])), parts[2])
    return getattr(kopf, parts[1])


@pytest.mark.parametrize('address', sorted(KNOWN))
def test_known_name_exists(address: str) -> None:
    assert find(address) is not None


@pytest.mark.parametrize('address', [
    address for address, known in sorted(KNOWN.items()) if 'signature' in known])
def test_known_signature_is_accepted(address: str) -> None:
    ours = inspect.signature(find(address)).parameters
    positional = [p for p in ours.values() if p.kind.name in POSITIONAL]
    for index, (name, kind, default) in enumerate(KNOWN[address]['signature']):
        if kind in POSITIONAL:
            assert index < len(positional), f"{name} cannot be passed by its position"
        if (kind == 'POSITIONAL_OR_KEYWORD' and not address.endswith(
                ('Error', 'Body', 'Meta', 'Spec', 'Status', 'Diff'))) or kind == 'KEYWORD_ONLY':
            assert name in ours, f"{name} cannot be passed by its name"
            if default is None:
                assert ours[name].default is inspect.Parameter.empty
            elif default != '...':
                assert repr(ours[name].default) == default
    known = {name for name, _, _ in KNOWN[address]['signature']}
    for name, parameter in ours.items():
        if name not in known and parameter.kind.name == 'KEYWORD_ONLY':
            assert parameter.default is not inspect.Parameter.empty, f"{name} is required"


@pytest.mark.parametrize('address', [
    address for address, known in sorted(KNOWN.items()) if known['kind'] == 'enum'])
def test_known_members_exist(address: str) -> None:
    members = find(address).__members__
    for name, value in KNOWN[address]['members'].items():
        assert name in members
        if value is not None:
            assert members[name].value == value


@pytest.mark.parametrize('address', [
    address for address, known in sorted(KNOWN.items()) if known.get('async')])
def test_known_coroutines_are_such(address: str) -> None:
    assert inspect.iscoroutinefunction(find(address))


def test_all_names_are_listed_and_loaded() -> None:
    assert set(kopf.__all__) <= set(dir(kopf))
    for name in kopf.__all__:
        assert getattr(kopf, name) is not None


def test_table_of_names_agrees_with_imports_for_type_checkers() -> None:
    import ast
    tree = ast.parse(pathlib.Path(kopf.__file__).read_text())
    block = next(node for node in tree.body
                 if isinstance(node, ast.If) and ast.unparse(node.test) == 'TYPE_CHECKING')
    imported = {
        alias.name: (node.module or '').removeprefix('kopf.')
        for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
        if (node.module or '').startswith('kopf.')
    }
    assert imported == kopf._HOME_OF


def list_public_functions() -> list[str]:
    on = importlib.import_module('kopf.on')
    addresses = [f'kopf.on.{name}' for name in on.__all__]
    addresses += [f'kopf.{name}' for name in kopf.__all__]
    return [address for address in addresses if inspect.isfunction(find(address))]


@pytest.mark.parametrize('address', list_public_functions())
def test_docstring_describes_all_parameters(address: str) -> None:
    function = find(address)
    _, _, description = (inspect.getdoc(function) or '').partition('Args:')
    described = {
        name for line in re.findall(r'^ {4}(\w[\w, ]*): \S', description, re.MULTILINE)
        for name in line.split(', ')
    }
    parameters = inspect.signature(function).parameters.values()
    assert described == {parameter.name for parameter in parameters
                         if parameter.kind.name != 'VAR_KEYWORD' and parameter.name[0] != '_'}


def test_decorators_have_examples() -> None:
    on = importlib.import_module('kopf.on')
    for name in on.__all__:
        assert f'kopf.{name}(' in getattr(on, name).__doc__ or \
            f'kopf.on.{name}(' in getattr(on, name).__doc__


def test_unknown_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match='no_such_name'):
        kopf.no_such_name  # noqa: B018


def test_new_names() -> None:
    assert callable(kopf.exponential)
    assert callable(kopf.on.condition)
    assert kopf.__version__ == '2.0.0'


@pytest.mark.parametrize('script', [
    'import kopf',
    'import kopf; kopf.on.create; kopf.on.event; kopf.TemporaryError; kopf.exponential',
])
def test_import_loads_nothing_heavy(script: str) -> None:
    heavy = {'asyncio', 'aiohttp', 'yaml', 'kubernetes', 'kubernetes_asyncio', 'pykube', 'click',
             'concurrent.futures', 'dataclasses', 'logging', 'inspect', 'kopf._native'}
    code = f'{script}; import sys, json; print(json.dumps(list(sys.modules)))'
    loaded = subprocess.run([sys.executable, '-S', '-c', f'import sys; sys.path[:] = {sys.path!r}; '
                             + code], check=True, capture_output=True, text=True)
    assert not heavy & set(json.loads(loaded.stdout))


@pytest.mark.parametrize('address, names', [
    ('kopf._cogs.structs.bodies',
     'Body RawBody RawEvent RawMeta Meta Spec Status Labels Annotations'),
    ('kopf._cogs.structs.patches', 'Patch'),
    ('kopf._cogs.structs.ephemera', 'Memo'),
    ('kopf._cogs.structs.diffs', 'Diff DiffItem DiffOperation diff'),
    ('kopf._cogs.structs.references', 'Resource Selector EVERYTHING'),
    ('kopf._cogs.structs.dicts', 'parse_field resolve ensure walk MappingView'),
    ('kopf._cogs.helpers.loaders', 'preload'),
    ('kopf._cogs.configs.configuration', 'OperatorSettings PostingSettings'),
    ('kopf._core.actions.loggers', 'configure LogFormat ObjectLogger'),
    ('kopf._core.actions.execution', 'cause_var TemporaryError PermanentError'),
    ('kopf._core.actions.invocation', 'context'),
    ('kopf._core.engines.indexing', 'Index Store'),
    ('kopf._core.engines.posting', 'event settings_var'),
    ('kopf._core.intents.causes', 'Reason ChangingCause'),
    ('kopf._core.intents.handlers', 'ChangingHandler'),
    ('kopf._core.intents.registries', 'OperatorRegistry SmartOperatorRegistry'),
    ('kopf._kits.runner', 'KopfRunner'),
])
def test_private_address_that_operators_import(address: str, names: str) -> None:
    module = importlib.import_module(address)
    for name in names.split():
        assert getattr(module, name) is not None


@pytest.mark.parametrize('address', [
    '.'.join(path.relative_to(PACKAGE.parent).with_suffix('').parts)
    for tree in ('_cogs', '_core', '_kits') for path in sorted((PACKAGE / tree).rglob('[a-z]*.py'))
])
def test_private_address_has_all_its_names(address: str) -> None:
    module = importlib.import_module(address)
    assert module.__all__
    for name in module.__all__:
        assert hasattr(module, name)
    assert inspect.getmodule(module) is module
    assert importlib.reload(module) is module


def test_objects_of_private_addresses_are_the_public_ones_and_survive_pickling() -> None:
    from kopf._cogs.structs import bodies, ephemera
    from kopf._core.intents import causes
    assert bodies.Body is kopf.Body
    assert causes.Reason is kopf.Reason
    memo = pickle.loads(pickle.dumps(ephemera.Memo(x=1)))
    assert type(memo) is kopf.Memo and memo.x == 1
    # As other versions of kopf have pickled it.
    assert pickle.loads(b'ckopf._cogs.structs.ephemera\nMemo\n.') is kopf.Memo
