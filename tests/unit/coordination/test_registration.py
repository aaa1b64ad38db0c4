"""Registering: whose node it is, and how long somebody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.support.memory_storage import MemoryStorage, open_store

from moldau.coordination.embedded import EmbeddedStore
from moldau.coordination.errors import NodeExistsError
from moldau.coordination.registration import register

PATH = "/broker"


@pytest.fixture
async def store() -> AsyncIterator[EmbeddedStore]:
    store = await open_store(MemoryStorage())
    yield store
    await store.close()


async def test_the_node_belongs_to_the_session(store: EmbeddedStore) -> None:
    session = store.session()
    stat = await register(session, PATH, b"me", patience_s=60)
    assert stat.ephemeral_owner == session.session_id
    assert await session.get(PATH) == (b"me", stat)


async def test_what_an_earlier_attempt_has_registered_is_taken(store: EmbeddedStore) -> None:
    session = store.session()
    first = await register(session, PATH, b"me", patience_s=60)
    assert await register(session, PATH, b"me", patience_s=60) == first


async def test_who_comes_back_waits_for_the_end_of_its_earlier_session(
    store: EmbeddedStore,
) -> None:
    before, session = store.session(), store.session()
    earlier = await register(before, PATH, b"me", patience_s=60)
    registering = asyncio.ensure_future(register(session, PATH, b"me", patience_s=60))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not registering.done()
    await store.expire(before)
    assert (await registering).czxid > earlier.czxid


async def test_who_is_there_to_stay_keeps_others_out(store: EmbeddedStore) -> None:
    await register(store.session(), PATH, b"me", patience_s=60)
    with pytest.raises(NodeExistsError, match="/broker"):
        await register(store.session(), PATH, b"other", patience_s=0.01)
