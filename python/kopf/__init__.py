"""Kopf: a framework for Kubernetes operators. This is its public interface.

The names are loaded when they are first used, so that `import kopf` costs next to nothing,
and an operator loads only what it needs. The table below says where each name lives; the
imports above it say the same to type checkers and editors, and a test compares the two.
"""
from __future__ import annotations

from kopf._version import __commit_id__ as __commit_id__
from kopf._version import __version__ as __version__
from kopf._version import __version_tuple__ as __version_tuple__

TYPE_CHECKING = False  # as in `typing`, whose import would cost more than this whole module
if TYPE_CHECKING:
    from typing import Any

    from kopf import lifecycles, on
    from kopf._call.hierarchies import (
        adjust_namespace,
        adopt,
        append_owner_reference,
        harmonize_naming,
        label,
        remove_owner_reference,
    )
    from kopf._call.loggers import LocalObjectLogger, LogFormat, ObjectLogger, configure
    from kopf._call.posting import event, exception, info, warn
    from kopf._call.stoppers import (
        AsyncDaemonStopperChecker,
        DaemonStopped,
        DaemonStoppingReason,
        SyncDaemonStopperChecker,
    )
    from kopf._call.subhandlers import execute
    from kopf._connect.credentials import AiohttpSession, ConnectionInfo
    from kopf._connect.logins import (
        login_via_async_client,
        login_via_client,
        login_via_pykube,
        login_with_kubeconfig,
        login_with_service_account,
    )
    from kopf._declare.backoff import exponential
    from kopf._declare.filters import ABSENT, PRESENT, all_, any_, none_, not_
    from kopf._declare.handlers import Reason
    from kopf._declare.registries import (
        OperatorRegistry,
        get_default_registry,
        set_default_registry,
    )
    from kopf._declare.settings import OperatorSettings
    from kopf._errors import (
        AdmissionError,
        ErrorsMode,
        HandlerRetriesError,
        HandlerTimeoutError,
        LoginError,
        PermanentError,
        TemporaryError,
    )
    from kopf._objects.diffs import Diff, DiffItem, DiffOperation
    from kopf._objects.fields import FieldPath, FieldSpec
    from kopf._objects.memos import Index, Memo, Store
    from kopf._objects.patches import Patch
    from kopf._objects.resources import EVERYTHING, Resource
    from kopf._objects.storage.diffbase import (
        AnnotationsDiffBaseStorage,
        DiffBaseStorage,
        MultiDiffBaseStorage,
        StatusDiffBaseStorage,
    )
    from kopf._objects.storage.progress import (
        AnnotationsProgressStorage,
        MultiProgressStorage,
        ProgressStorage,
        SmartProgressStorage,
        StatusProgressStorage,
    )
    from kopf._objects.typedefs import (
        BodyEssence,
        HandlerId,
        Headers,
        Logger,
        ObjectReference,
        Operation,
        OwnerReference,
        PatchFn,
        ProgressRecord,
        RawBody,
        RawEvent,
        RawEventType,
        SSLPeer,
        UserInfo,
        WebhookClientConfig,
        WebhookClientConfigService,
        WebhookFn,
        WebhookServerProtocol,
    )
    from kopf._objects.views import (
        Annotations,
        Body,
        Labels,
        Meta,
        Spec,
        Status,
        build_object_reference,
        build_owner_reference,
    )
    from kopf._run.operator import operator, run, run_tasks, spawn_tasks
    from kopf._webhooks.servers import (
        WebhookAutoServer,
        WebhookAutoTunnel,
        WebhookDockerDesktopServer,
        WebhookK3dServer,
        WebhookMinikubeServer,
        WebhookNgrokTunnel,
        WebhookServer,
    )
    from kopf.lifecycles import get_default_lifecycle, set_default_lifecycle
    from kopf.on import daemon, index, register, subhandler, timer

_HOMES = {
    '_declare.backoff': 'exponential',
    '_connect.credentials': 'AiohttpSession ConnectionInfo',
    '_objects.diffs': 'Diff DiffItem DiffOperation',
    '_errors': (
        'AdmissionError ErrorsMode HandlerRetriesError HandlerTimeoutError LoginError '
        'PermanentError TemporaryError'
    ),
    '_objects.fields': 'FieldPath FieldSpec',
    '_declare.filters': 'ABSENT PRESENT all_ any_ none_ not_',
    '_declare.handlers': 'Reason',
    '_call.hierarchies': (
        'adjust_namespace adopt append_owner_reference harmonize_naming label '
        'remove_owner_reference'
    ),
    '_call.loggers': 'LocalObjectLogger LogFormat ObjectLogger configure',
    '_connect.logins': (
        'login_via_async_client login_via_client login_via_pykube login_with_kubeconfig '
        'login_with_service_account'
    ),
    '_objects.memos': 'Index Memo Store',
    '_objects.patches': 'Patch',
    '_call.posting': 'event exception info warn',
    '_declare.registries': 'OperatorRegistry get_default_registry set_default_registry',
    '_objects.resources': 'EVERYTHING Resource',
    '_run.operator': 'operator run run_tasks spawn_tasks',
    '_declare.settings': 'OperatorSettings',
    '_call.stoppers': (
        'AsyncDaemonStopperChecker DaemonStopped DaemonStoppingReason '
        'SyncDaemonStopperChecker'
    ),
    '_objects.storage.diffbase': (
        'AnnotationsDiffBaseStorage DiffBaseStorage MultiDiffBaseStorage '
        'StatusDiffBaseStorage'
    ),
    '_objects.storage.progress': (
        'AnnotationsProgressStorage MultiProgressStorage ProgressStorage SmartProgressStorage '
        'StatusProgressStorage'
    ),
    '_call.subhandlers': 'execute',
    '_objects.typedefs': (
        'BodyEssence HandlerId Headers Logger ObjectReference Operation OwnerReference '
        'PatchFn ProgressRecord RawBody RawEvent RawEventType SSLPeer UserInfo '
        'WebhookClientConfig WebhookClientConfigService WebhookFn WebhookServerProtocol'
    ),
    '_objects.views': (
        'Annotations Body Labels Meta Spec Status build_object_reference '
        'build_owner_reference'
    ),
    '_webhooks.servers': (
        'WebhookAutoServer WebhookAutoTunnel WebhookDockerDesktopServer WebhookK3dServer '
        'WebhookMinikubeServer WebhookNgrokTunnel WebhookServer'
    ),
    'lifecycles': 'get_default_lifecycle set_default_lifecycle',
    'on': 'daemon index register subhandler timer',
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
_SUBMODULES = frozenset({'lifecycles', 'on'})

__all__ = [
    'ABSENT',
    'EVERYTHING',
    'PRESENT',
    'AdmissionError',
    'AiohttpSession',
    'Annotations',
    'AnnotationsDiffBaseStorage',
    'AnnotationsProgressStorage',
    'AsyncDaemonStopperChecker',
    'Body',
    'BodyEssence',
    'ConnectionInfo',
    'DaemonStopped',
    'DaemonStoppingReason',
    'Diff',
    'DiffBaseStorage',
    'DiffItem',
    'DiffOperation',
    'ErrorsMode',
    'FieldPath',
    'FieldSpec',
    'HandlerId',
    'HandlerRetriesError',
    'HandlerTimeoutError',
    'Headers',
    'Index',
    'Labels',
    'LocalObjectLogger',
    'LogFormat',
    'Logger',
    'LoginError',
    'Memo',
    'Meta',
    'MultiDiffBaseStorage',
    'MultiProgressStorage',
    'ObjectLogger',
    'ObjectReference',
    'Operation',
    'OperatorRegistry',
    'OperatorSettings',
    'OwnerReference',
    'Patch',
    'PatchFn',
    'PermanentError',
    'ProgressRecord',
    'ProgressStorage',
    'RawBody',
    'RawEvent',
    'RawEventType',
    'Reason',
    'Resource',
    'SSLPeer',
    'SmartProgressStorage',
    'Spec',
    'Status',
    'StatusDiffBaseStorage',
    'StatusProgressStorage',
    'Store',
    'SyncDaemonStopperChecker',
    'TemporaryError',
    'UserInfo',
    'WebhookAutoServer',
    'WebhookAutoTunnel',
    'WebhookClientConfig',
    'WebhookClientConfigService',
    'WebhookDockerDesktopServer',
    'WebhookFn',
    'WebhookK3dServer',
    'WebhookMinikubeServer',
    'WebhookNgrokTunnel',
    'WebhookServer',
    'WebhookServerProtocol',
    'adjust_namespace',
    'adopt',
    'all_',
    'any_',
    'append_owner_reference',
    'build_object_reference',
    'build_owner_reference',
    'configure',
    'daemon',
    'event',
    'exception',
    'execute',
    'exponential',
    'get_default_lifecycle',
    'get_default_registry',
    'harmonize_naming',
    'index',
    'info',
    'label',
    'lifecycles',
    'login_via_async_client',
    'login_via_client',
    'login_via_pykube',
    'login_with_kubeconfig',
    'login_with_service_account',
    'none_',
    'not_',
    'on',
    'operator',
    'register',
    'remove_owner_reference',
    'run',
    'run_tasks',
    'set_default_lifecycle',
    'set_default_registry',
    'spawn_tasks',
    'subhandler',
    'timer',
    'warn',
]


def __getattr__(name: str) -> Any:
    import importlib
    if name in _SUBMODULES:
        return importlib.import_module(f'kopf.{name}')
    if name == '_native':
        from kopf._native_loader import load_native
        return load_native()
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'kopf' has no attribute {name!r}")
    value = getattr(importlib.import_module(f'kopf.{home}'), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
