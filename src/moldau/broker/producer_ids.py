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
        self._reserving = asyncio.Lock()

    async def next(self) -> int:
        producer_id = next(self._block, None)
        while producer_id is None:
            async with self._reserving:
                # Someone else may have reserved a block while this caller waited.
                producer_id = next(self._block, None)
                if producer_id is None:
                    block = await self._next_block()
                    self._block = iter(range(block.first, block.first + block.count))
                    producer_id = next(self._block, None)
        return producer_id
