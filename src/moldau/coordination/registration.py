"""Registering: an ephemeral node that says that somebody is there."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from moldau.coordination.errors import ConnectionLostError, NodeExistsError
from moldau.coordination.store import CoordinationStore, Stat, Watch


async def register(store: CoordinationStore, path: str, data: bytes, *, patience_s: float) -> Stat:
    """Make an ephemeral node of this session, and return what it is like.

    Who was killed and comes back finds what its earlier life has registered, until that session is
    over. A node that another session has for longer than the patience lasts: NodeExistsError.
    """
    while True:
        changed = asyncio.Event()
        stat = await store.exists(path, _setting(changed))
        if stat is None:
            with suppress(NodeExistsError, ConnectionLostError):
                await store.create(path, data, ephemeral=True)
        elif stat.ephemeral_owner == store.session_id:
            return stat
        else:
            try:
                await asyncio.wait_for(changed.wait(), patience_s)
            except TimeoutError:
                raise NodeExistsError(path) from None


def _setting(event: asyncio.Event) -> Watch:
    return lambda _: event.set()
