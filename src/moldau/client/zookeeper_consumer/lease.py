"""Whether the session, and with it every owner node, is certain to be there still.

A server keeps a session for its timeout after it last heard of the client. A client that is cut off
cannot see its session end, and the others will have taken over its partitions by then; so it must
stop by itself when the timeout has passed since the last answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from moldau.coordination.errors import SessionExpiredError
from moldau.coordination.store import CoordinationStore

RENEWALS_PER_TIMEOUT = 4


class Lease:
    def __init__(
        self, store: CoordinationStore, timeout_s: float, on_renewal: Callable[[], object]
    ) -> None:
        self._store = store
        self._timeout_s = timeout_s
        self._on_renewal = on_renewal
        self._until = 0.0
        self._task: asyncio.Task[None] | None = None

    @property
    def held(self) -> bool:
        return asyncio.get_running_loop().time() < self._until

    async def start(self) -> None:
        await self._renew()
        self._task = asyncio.create_task(self._keep(), name="lease of a ZooKeeper session")

    async def stop(self) -> None:
        self._until = 0.0
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _renew(self) -> None:
        asked_at = asyncio.get_running_loop().time()
        await self._store.exists("/")
        self._until = asked_at + self._timeout_s
        self._on_renewal()

    async def _keep(self) -> None:
        try:
            while True:
                if self.held:
                    await asyncio.sleep(self._timeout_s / RENEWALS_PER_TIMEOUT)
                await self._renew()
        except SessionExpiredError:
            self._until = 0.0
