"""Types of raw data, for annotations in users' code. Nothing here runs.

Objects are plain JSON. These types name the keys that Kopf itself uses, for type checkers; at run
time, objects can have any other key.
"""
from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Any, Literal, NewType, Protocol, TypedDict

HandlerId = NewType('HandlerId', str)
Logger = logging.Logger | logging.LoggerAdapter

RawInputType = Literal[None, 'ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR']
RawEventType = Literal[None, 'ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK']


class RawMeta(TypedDict, total=False):
    """`metadata` as it comes from the API."""

    uid: str
    name: str
    namespace: str
    labels: dict[str, str]
    annotations: dict[str, str]
    finalizers: list[str]
    resourceVersion: str
    deletionTimestamp: str
    creationTimestamp: str
    selfLink: str


class RawBody(TypedDict, total=False):
    """An object as it comes from the API."""

    apiVersion: str
    kind: str
    metadata: RawMeta
    spec: dict[str, Any]
    status: dict[str, Any]


class RawError(TypedDict, total=False):
    """A failure, as the API reports it inside a watch stream."""

    apiVersion: str
    kind: str
    metadata: dict[Any, Any]
    code: int
    reason: str
    status: str
    message: str


class RawInput(TypedDict):
    """One item of a watch stream, errors included."""

    type: RawInputType
    object: RawBody | RawError


class RawEvent(TypedDict):
    """One item of a watch stream or of a listing (then the type is `None`)."""

    type: RawEventType
    object: RawBody


class MetaEssence(TypedDict, total=False):
    """The part of `metadata` whose changes matter."""

    labels: dict[str, str]
    annotations: dict[str, str]


class BodyEssence(TypedDict, total=False):
    """The part of an object whose changes matter."""

    metadata: MetaEssence
    spec: dict[str, Any]
    status: dict[str, Any]


class ObjectReference(TypedDict, total=False):
    """A reference from an event to its object."""

    apiVersion: str
    kind: str
    namespace: str | None
    name: str
    uid: str


class OwnerReference(TypedDict, total=False):
    """A reference from an object to its owner."""

    controller: bool
    blockOwnerDeletion: bool
    apiVersion: str
    kind: str
    name: str
    uid: str


class ProgressRecord(TypedDict, total=False):
    """The stored state of one handler of one object. Times are in the ISO 8601 format."""

    started: str | None
    stopped: str | None
    delayed: str | None
    purpose: str | None
    retries: int | None
    success: bool | None
    failure: bool | None
    message: str | None
    subrefs: Collection[HandlerId] | None
    #: The state of the object that a finished handler was called with; unknown to kopf 1.45.
    essence: str | None


PatchFn = Callable[[RawBody], None]

# Admission.
Headers = dict[str, str]
SSLPeer = dict[str, Any]
Operation = Literal['CREATE', 'UPDATE', 'DELETE', 'CONNECT']


class UserInfo(TypedDict):
    """Who has sent an admission request."""

    username: str
    uid: str
    groups: list[str]


class WebhookClientConfigService(TypedDict, total=False):
    """A service through which the API server reaches a webhook."""

    namespace: str | None
    name: str | None
    path: str | None
    port: int | None


class WebhookClientConfig(TypedDict, total=False):
    """How the API server reaches a webhook: `clientConfig` of webhook configurations."""

    caBundle: str | None
    url: str | None
    service: WebhookClientConfigService | None


class WebhookFn(Protocol):
    """The function that a webhook server gets from Kopf, and calls for each request."""

    def __call__(
            self,
            request: Any,
            *,
            webhook: str | None = None,
            headers: Headers | None = None,
            sslpeer: SSLPeer | None = None,
    ) -> Awaitable[Any]: ...


WebhookServerProtocol = Callable[[WebhookFn], AsyncIterator[WebhookClientConfig]]
