"""Work that others should not have to wait for, cut into turns of the event loop.

Turns are counted in items and not in time: each takes some microseconds, and a simulated broker
takes the same turns in every run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

T = TypeVar("T")

ITEMS_PER_TURN: Final = 100


async def others_turn() -> None:
    """Go on when everybody else who is ready had a turn."""
    await asyncio.sleep(0)


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """The items, with the others' turn after every hundred. They must not change meanwhile."""
    for number, item in enumerate(items, 1):
        yield item
        if not number % ITEMS_PER_TURN:
            await others_turn()
