"""Upstream's private modules that existing operators import from, and what they find there.

Kopf 1.45 has its code in `kopf._cogs`, `kopf._core` and `kopf._kits`. Operators import from them
what the public interface lacks. `make_names.py` writes one module for each entry of this table.

The table says: upstream's module, our module, and the names; `theirs=ours` if the names differ.
"""
from __future__ import annotations

UPSTREAM_ADDRESSES = {
    '_cogs.configs.arrays': {
        '_declare.settings': 'SelectorMapping',
    },
    '_cogs.configs.configuration': {
        '_declare.settings': (
            'AdmissionSettings BackgroundSettings ExecutionSettings NetworkingSettings '
            'OperatorSettings PeeringSettings PersistenceSettings PostingSettings '
            'ProcessSettings QueueingSettings ScanningSettings WatchingSettings'
        ),
    },
    '_cogs.configs.conventions': {
        '_objects.storage.cleaning': 'StorageStanzaCleaner',
        '_objects.storage.keys': (
            'CollisionEvadingConvention StorageKeyFormingConvention '
            'StorageKeyMarkingConvention'
        ),
    },
    '_cogs.configs.diffbase': {
        '_objects.storage.diffbase': (
            'AnnotationsDiffBaseStorage DiffBaseStorage MultiDiffBaseStorage '
            'StatusDiffBaseStorage'
        ),
    },
    '_cogs.configs.progress': {
        '_objects.storage.progress': (
            'AnnotationsProgressStorage MultiProgressStorage ProgressStorage '
            'SmartProgressStorage StatusProgressStorage'
        ),
        '_objects.typedefs': 'ProgressRecord',
    },
    '_cogs.helpers.loaders': {
        '_cli.preload': 'preload',
    },
    '_cogs.helpers.typedefs': {
        '_objects.typedefs': 'Logger',
    },
    '_cogs.helpers.versions': {
        '_version': '__commit_id__ __version__ __version_tuple__ commit_id version version_tuple',
    },
    '_cogs.structs.bodies': {
        '_objects.typedefs': (
            'BodyEssence MetaEssence ObjectReference OwnerReference RawBody RawError RawEvent '
            'RawEventType RawInput RawInputType RawMeta'
        ),
        '_objects.views': (
            'Annotations Body Labels Meta Spec Status build_object_reference '
            'build_owner_reference'
        ),
    },
    '_cogs.structs.credentials': {
        '_connect.credentials': 'AiohttpSession ConnectionInfo KubeContext Vault',
        '_errors': 'LoginError',
    },
    '_cogs.structs.dicts': {
        '_objects.fields': (
            'FieldPath FieldSpec cherrypick ensure parse_field remove resolve '
            'resolve_obj=resolve_object walk'
        ),
        '_objects.views': 'MappingView MutableMappingView ReplaceableMappingView',
    },
    '_cogs.structs.diffs': {
        '_objects.diffs': (
            'Diff DiffItem DiffOperation DiffScope EMPTY diff diff_iter reduce reduce_iter'
        ),
    },
    '_cogs.structs.ephemera': {
        '_objects.indices': 'Index Indices=AnyIndices Store',
        '_objects.memos': 'AnyMemo Memo',
    },
    '_cogs.structs.ids': {
        '_objects.typedefs': 'HandlerId',
    },
    '_cogs.structs.patches': {
        '_objects.patches': 'JSONPatch JSONPatchItem MetaPatch Patch SpecPatch StatusPatch',
        '_objects.typedefs': 'PatchFn',
    },
    '_cogs.structs.references': {
        '_objects.resources': (
            'EVERYTHING Marker Namespace NamespaceName NamespacePattern Resource Selector '
            'match_namespace select_specific_namespaces'
        ),
    },
    '_cogs.structs.reviews': {
        '_objects.typedefs': (
            'Headers Operation SSLPeer UserInfo WebhookClientConfig '
            'WebhookClientConfigService WebhookFn WebhookServerProtocol'
        ),
    },
    '_core.actions.execution': {
        '_call.causes': 'Cause',
        '_call.context': (
            'cause_var handler_var sublifecycle_var subrefs_var subsettings_var=settings_var'
        ),
        '_declare.handlers': 'Handler',
        '_errors': (
            'ErrorsMode HandlerChildrenRetry HandlerRetriesError HandlerTimeoutError '
            'PermanentError TemporaryError'
        ),
        'lifecycles': 'HandlerState LifeCycleFn State',
    },
    '_core.actions.invocation': {
        '_declare.visible_kwargs': 'is_async_fn',
        '_compat': 'context',
    },
    '_core.actions.lifecycles': {
        'lifecycles': (
            'Handlers all_at_once asap get_default_lifecycle one_by_one randomized '
            'set_default_lifecycle shuffled'
        ),
    },
    '_core.actions.loggers': {
        '_call.loggers': (
            'DEFAULT_JSON_REFKEY LocalObjectLogger LogFormat ObjectFormatter '
            'ObjectJsonFormatter ObjectLogger ObjectPrefixingJsonFormatter '
            'ObjectPrefixingMixin ObjectPrefixingTextFormatter ObjectTextFormatter '
            'TerseObjectLogger configure logger make_formatter'
        ),
    },
    '_core.engines.activities': {
        '_errors': 'ActivityError',
    },
    '_core.engines.admission': {
        '_errors': 'AdmissionError',
    },
    '_core.engines.indexing': {
        '_objects.indices': 'Index=WritableIndex OperatorIndices=Indices Store=WritableStore',
    },
    '_core.engines.posting': {
        '_call.context': 'settings_var',
        '_call.posting': 'K8sPoster event exception info warn',
    },
    '_core.intents.callbacks': {
        '_declare.filters': 'all_ any_ none_ not_',
    },
    '_core.intents.causes': {
        '_call.causes': (
            'ActivityCause BaseCause=Cause ChangingCause DaemonCause IndexingCause '
            'ResourceCause SpawningCause WatchingCause WebhookCause'
        ),
        '_declare.handlers': 'Activity Reason WebhookType',
        '_compat': 'ALL_REASONS HANDLER_REASONS REACTOR_REASONS',
    },
    '_core.intents.filters': {
        '_declare.filters': 'ABSENT MetaFilterToken PRESENT',
    },
    '_core.intents.handlers': {
        '_declare.handlers': (
            'ActivityHandler ChangingHandler DaemonHandler IndexingHandler ResourceHandler '
            'SpawningHandler TimerHandler WatchingHandler WebhookHandler'
        ),
    },
    '_core.intents.piggybacking': {
        '_connect.logins': (
            'has_kubeconfig has_service_account login_via_async_client login_via_client '
            'login_via_pykube login_with_kubeconfig login_with_service_account'
        ),
    },
    '_core.intents.registries': {
        '_declare.registries': (
            'ActivityRegistry ChangingRegistry IndexingRegistry OperatorRegistry '
            'SmartOperatorRegistry SpawningRegistry WatchingRegistry WebhooksRegistry '
            'generate_id get_callable_id get_default_registry set_default_registry'
        ),
    },
    '_core.intents.stoppers': {
        '_call.stoppers': (
            'AsyncDaemonStopperChecker DaemonStopped DaemonStopper DaemonStoppingReason '
            'SyncDaemonStopperChecker'
        ),
    },
    '_core.reactor.running': {
        '_run.operator': 'operator run run_tasks spawn_tasks',
    },
    '_core.reactor.subhandling': {
        '_call.subhandlers': 'execute',
    },
    '_kits.hierarchies': {
        '_call.hierarchies': (
            'adjust_namespace adopt append_owner_reference harmonize_naming label '
            'remove_owner_reference'
        ),
    },
    '_kits.runner': {
        '_testing.runner': 'KopfRunner',
    },
    '_kits.webhooks': {
        '_webhooks.servers': (
            'WebhookAutoServer WebhookAutoTunnel WebhookDockerDesktopServer WebhookK3dServer '
            'WebhookMinikubeServer WebhookNgrokTunnel WebhookServer'
        ),
    },
}
