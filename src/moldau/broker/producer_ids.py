"""Producer ids for idempotent producers, handed out of blocks that the cluster reserves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from moldau.controller import ProducerIdBlock


class ProducerIds:
    """Gives each caller an id that no other producer of the cluster ever had."""

    def __init__(self, next_block: Callable[[], Awaitable[ProducerIdBlock]]) -> None:
        self._next_block = next_block
        self._block = iter(range(0))
        self._reserving: asyncio.Task[None] | None = None

    async def next(self) -> int:
        """Raises what the reservation of a block fails with: all who wait for it fail together, and
        do not try one after the other.
        """
        producer_id = next(self._block, None)
        while producer_id is None:
            if self._reserving is None:
                self._reserving = asyncio.ensure_future(self._reserve())
            # One that is given up by its caller is still wanted by the others.
            await asyncio.shield(self._reserving)
            producer_id = next(self._block, None)
        return producer_id

    async def _reserve(self) -> None:
        try:
            block = await self._next_block()
            self._block = iter(range(block.first, block.first + block.count))
        finally:
            self._reserving = None
