"""Admission reviews: what webhook handlers see, and the function that webhook servers call.

The engine decides which handlers to call, and answers the cluster. It receives requests through its
own server, or through a server that a user has written and that calls this module.
"""
from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from kopf._call.causes import ConversionCause, ResourceCause, WebhookCause
from kopf._objects import encoding
from kopf._objects.diffs import Diff
from kopf._objects.memos import ReviewedMemo
from kopf._objects.patches import Patch
from kopf._objects.views import Body

if TYPE_CHECKING:
    from kopf._declare.settings import OperatorSettings
    from kopf._native import Review, ReviewAnswered, WebhookServer
    from kopf._objects.typedefs import Headers, SSLPeer, WebhookClientConfig
    from kopf._run.front import Front

logger = logging.getLogger('kopf._core.engines.admission')


class WebhookError(Exception):
    """A request to a webhook is malformed."""


class MissingDataError(WebhookError):
    """A part of the request is missing."""


class UnknownResourceError(WebhookError):
    """No handler is for the resource of the request."""


class AmbiguousResourceError(WebhookError):
    """The request matches several resources. Kopf never raises it; servers may expect it."""


class ReviewContext:
    """What the calls for one review share. Created when the front first needs it."""

    __slots__ = ('body', 'cause', 'front', 'patch', 'patch_json', 'warnings')

    def __init__(self, front: Front, review: Review) -> None:
        from kopf._call.loggers import LocalObjectLogger
        self.front = front
        self.body = Body._from_json(review.body)
        self.patch = Patch(None, body=self.body)
        self.patch_json: str | None = None
        self.warnings: list[str] = []
        facts = json.loads(review.facts)
        common = {
            'logger': LocalObjectLogger(body=self.body, settings=front.settings),
            'object_memo': ReviewedMemo(front.memos, review.memory, self._get_uid(facts)),
            'indices': front.indices,
            'resource': front.get_resource(review.resource),
            'patch': self.patch,
            'body': self.body,
        }
        self.cause: ResourceCause
        if 'from_version' in facts:
            self.cause = ConversionCause(**common, **facts)
        else:
            facts['sslpeer'] = _as_tuples(facts['sslpeer'])
            self.cause = WebhookCause(
                **common, **facts, warnings=self.warnings,
                old=Body._from_json(review.old) if review.old is not None else None,
                new=Body._from_json(review.new) if review.new is not None else None,
                diff=Diff._from_json(review.diff),
            )

    def _get_uid(self, facts: Mapping[str, Any]) -> str | None:
        """The uid to keep the memo under; None while the object does not exist."""
        is_kept = facts.get('operation') not in (None, 'CREATE')
        return self.body.metadata.uid if is_kept else None

    @classmethod
    def of(cls, front: Front, review: Review) -> ReviewContext:
        context = review.context
        if context is None:
            context = review.context = cls(front, review)
        return context


def _as_tuples(peer: Mapping[str, Any]) -> dict[str, Any]:
    """Python's own description of a certificate consists of tuples."""
    def convert(value: Any) -> Any:
        return tuple(convert(item) for item in value) if isinstance(value, list) else value
    return {key: convert(value) for key, value in peer.items()}


def verify_server(settings: OperatorSettings, has_handlers: bool) -> None:
    """Refuse to start without a server: Kopf would silently never call the webhook handlers."""
    if has_handlers and settings.admission.server is None:
        raise ValueError("Admission handlers exist, but no admission server/tunnel is configured "
                         "in `settings.admission.server`.")


class Webhooks:
    """The webhooks of one operator: the function for servers, and the engine's own server."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._addresses: dict[int, asyncio.Queue[WebhookClientConfig | Exception]] = {}
        self._pending: set[asyncio.Future[Any]] = set()

    async def __call__(
            self,
            request: Any,
            *,
            webhook: str | None = None,
            headers: Headers | None = None,
            sslpeer: SSLPeer | None = None,
            reason: Any = None,
    ) -> Any:
        """Answer a request of the cluster. Users' servers get this as `fn`."""
        native = self._front.native
        if native is None:
            raise WebhookError("The operator has stopped.")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        review = encoding.encode({
            'request': request,
            'webhook': webhook or None,
            'headers': dict(headers) if headers is not None else {},
            'sslpeer': sslpeer if sslpeer is not None else {},
        })
        if not native.review(future, review):
            raise WebhookError("The operator is not ready for webhooks.")
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        answer = await future
        if 'error' not in answer:
            return answer
        raise {400: MissingDataError, 404: UnknownResourceError}.get(answer['code'], WebhookError)(
            answer['error'])

    async def run(self) -> None:
        """Run the server of the settings as long as the operator runs."""
        server = self._front.settings.admission.server
        assert server is not None
        try:
            async with contextlib.AsyncExitStack() as stack:
                if isinstance(server, contextlib.AbstractAsyncContextManager):
                    server = await stack.enter_async_context(server)
                generator: Any = server(self)
                if hasattr(generator, 'aclose'):
                    stack.push_async_callback(generator.aclose)
                async for client_config in generator:
                    if self._front.native is not None:
                        self._front.native.announce_webhooks(encoding.encode(client_config))
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            logger.error(f"The server of webhooks has failed: {error!r}")
            self._front.abort(error)

    async def serve(self, options: Mapping[str, Any]) -> AsyncIterator[WebhookClientConfig]:
        """Run the engine's server; yield each address where the cluster can reach it."""
        number = max(self._addresses, default=0) + 1
        addresses: asyncio.Queue[WebhookClientConfig | Exception] = asyncio.Queue()
        self._addresses[number] = addresses
        native = self._front.native
        if native is None or not native.serve_webhooks(number, encoding.encode(options)):
            raise WebhookError("The operator is not ready for webhooks.")
        try:
            while True:
                address = await addresses.get()
                if isinstance(address, Exception):
                    raise address
                yield address
        finally:
            del self._addresses[number]
            if self._front.native is not None:
                self._front.native.stop_webhooks(number)

    def on_server(self, job: WebhookServer) -> None:
        """The engine's server reports its address, or that it has failed."""
        addresses = self._addresses.get(job.number)
        if addresses is not None:
            config = job.client_config
            addresses.put_nowait(json.loads(config) if config is not None else OSError(job.error))

    def on_answered(self, job: ReviewAnswered) -> None:
        """The engine answers a request that it got from a user's server."""
        if not job.token.done():
            job.token.set_result(json.loads(job.response))
