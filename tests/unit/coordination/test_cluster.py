from __future__ import annotations

import asyncio

from tests.support.memory_storage import MemoryStorage, open_store

from moldau.coordination import cluster, paths


async def test_a_new_store_is_prepared_in_one_transaction_and_then_left_alone() -> None:
    disk = MemoryStorage()
    store = await open_store(disk)
    session = store.session()
    await cluster.prepare(session)
    assert store.zxid == 1
    for path in paths.PERSISTENT_PATHS:
        assert await session.exists(path) is not None
    await cluster.prepare(session)
    assert store.zxid == 1


async def test_brokers_that_start_together_prepare_together() -> None:
    store = await open_store(MemoryStorage())
    await asyncio.gather(*(cluster.prepare(store.session()) for _ in range(3)))
    assert await store.session().children("/brokers") == ["ids", "seqid", "topics"]


async def test_the_first_broker_names_the_cluster() -> None:
    store = await open_store(MemoryStorage())
    first, second = store.session(), store.session()
    await cluster.prepare(first)
    assert await cluster.get_cluster_id(first) is None
    named = await asyncio.gather(
        cluster.ensure_cluster_id(first, "one"), cluster.ensure_cluster_id(second, "two")
    )
    assert len(set(named)) == 1
    assert await cluster.ensure_cluster_id(second, "three") == named[0]
    assert await cluster.get_cluster_id(second) == named[0]
