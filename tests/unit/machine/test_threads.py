"""Worker threads of the real machine."""

from __future__ import annotations

import asyncio
from threading import Barrier

from moldau.machine.real import this_machine


async def test_clients_wait_for_as_much_at_once_as_asyncio_would() -> None:
    """Five: with one processor asyncio has so many threads, with more of them more."""
    all_there = Barrier(5, timeout=30)
    run = this_machine().threads.run
    await asyncio.gather(*(run(all_there.wait) for _ in range(5)))
    assert not all_there.broken
