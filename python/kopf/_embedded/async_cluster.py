"""`kopf.testing.AsyncCluster`: the methods of `Cluster` as coroutines, for `async with`."""
from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kopf._embedded.cluster import Cluster
    from kopf._embedded.manifests import Manifest


class AsyncCluster:
    """The same cluster in `async with`: its methods are coroutines, its properties are not."""

    def __init__(self, cluster: Cluster) -> None:
        self.sync = cluster

    @property
    def kubeconfig(self) -> pathlib.Path:
        return self.sync.kubeconfig

    @property
    def url(self) -> str:
        return self.sync.url

    @property
    def token(self) -> str:
        return self.sync.token

    async def apply(self, manifest: Manifest, **kwargs: Any) -> list[dict[str, Any]]:
        return await asyncio.to_thread(self.sync.apply, manifest, **kwargs)

    async def get(self, resource: str, name: str, **kwargs: Any) -> dict[str, Any]:
        return await asyncio.to_thread(self.sync.get, resource, name, **kwargs)

    async def find(self, resource: str, name: str, **kwargs: Any) -> dict[str, Any] | None:
        return await asyncio.to_thread(self.sync.find, resource, name, **kwargs)

    async def list(self, resource: str, **kwargs: Any) -> list[dict[str, Any]]:
        return await asyncio.to_thread(self.sync.list, resource, **kwargs)

    async def create(self, body: Mapping[str, Any], **kwargs: Any) -> dict[str, Any]:
        return await asyncio.to_thread(self.sync.create, body, **kwargs)

    async def patch(
            self,
            resource: str,
            name: str,
            patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
            **kwargs: Any,
    ) -> dict[str, Any]:
        return await asyncio.to_thread(self.sync.patch, resource, name, patch, **kwargs)

    async def delete(self, resource: str, name: str, **kwargs: Any) -> None:
        await asyncio.to_thread(self.sync.delete, resource, name, **kwargs)

    async def request(self, method: str, path: str, body: Any = None, **kwargs: Any) -> Any:
        return await asyncio.to_thread(self.sync.request, method, path, body, **kwargs)

    async def wait_for(
            self,
            resource: str,
            name: str,
            condition: Callable[[dict[str, Any]], Any] | None = None,
            *,
            namespace: str = 'default',
            timeout: float = 10,
    ) -> dict[str, Any]:
        poll = self.sync._poll(resource, name, condition, namespace, timeout)
        while not poll.step():
            await asyncio.sleep(poll.pause())
        return poll.result

    async def wait_gone(
            self, resource: str, name: str, *, namespace: str = 'default', timeout: float = 10,
    ) -> None:
        poll = self.sync._poll(resource, name, None, namespace, timeout, gone=True)
        while not poll.step():
            await asyncio.sleep(poll.pause())

    async def requests(self) -> dict[tuple[str, str], int]:
        return self.sync.requests

    async def reset_requests(self) -> None:
        self.sync.reset_requests()

    async def add_fault(self, effect: str, **kwargs: Any) -> int:
        return self.sync.add_fault(effect, **kwargs)

    async def remove_faults(self, number: int | None = None) -> None:
        self.sync.remove_faults(number)

    async def advance(self, seconds: float) -> None:
        self.sync.advance(seconds)

    async def compact(self) -> None:
        self.sync.compact()
