"""Where brokers have their secret from."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.machines import LoopThreads

from moldau.broker.cluster_secret import cluster_secret
from moldau.config.option import ConfigError
from moldau.config.values.broker import BrokerConfig
from moldau.coordination import cluster, paths
from moldau.coordination.embedded import EmbeddedStore
from moldau.coordination.storage import DiskStorage
from moldau.coordination.store import CoordinationStore
from moldau.machine.real.disk import OsDisk
from moldau.testing.disk import MemoryDisk


class Chance:
    def __init__(self, seed: int) -> None:
        self.secrets = Random(seed)
        self.threads = LoopThreads()
        self.disk = OsDisk()


@pytest.fixture
async def store() -> CoordinationStore:
    threads = LoopThreads()
    opened = await EmbeddedStore.open(DiskStorage(MemoryDisk(), "/data"), threads.run, lambda: 1)
    session = opened.session()
    await cluster.prepare(session)
    return session


async def secret(store: CoordinationStore, seed: int = 1, **settings: str) -> str:
    machine: Any = Chance(seed)
    names = {name.replace("_", "."): value for name, value in settings.items()}
    return await cluster_secret(BrokerConfig.load(names), store, machine)


async def test_the_first_broker_makes_one_for_all(store: CoordinationStore) -> None:
    made = await secret(store, seed=1)
    assert len(made) >= 32
    assert await secret(store, seed=2) == made


async def test_what_is_configured_counts(store: CoordinationStore) -> None:
    assert await secret(store, cluster_secret="told") == "told"
    assert await secret(store, seed=2, cluster_secret="told") == "told"
    (kept,) = await store.get_many([paths.SECRET_VERIFIER])
    assert kept is not None
    assert b"told" not in kept[0]
    assert await store.exists(paths.CLUSTER_SECRET) is None


async def test_a_broker_with_another_secret_is_refused(store: CoordinationStore) -> None:
    await secret(store, cluster_secret="told")
    with pytest.raises(ConfigError, match=r"another secret.*/cluster/secret_verifier"):
        await secret(store, cluster_secret="guessed")
    await store.delete(paths.SECRET_VERIFIER)
    assert await secret(store, cluster_secret="guessed") == "guessed"


async def test_a_broker_without_the_configured_secret_is_refused(store: CoordinationStore) -> None:
    await secret(store, cluster_secret="told")
    with pytest.raises(ConfigError, match=r"set cluster\.secret or cluster\.secret\.file"):
        await secret(store)
    assert await secret(store, cluster_secret="told") == "told", "it has left nothing behind"


async def test_a_configured_secret_does_not_join_brokers_without_one(
    store: CoordinationStore,
) -> None:
    made = await secret(store)
    with pytest.raises(ConfigError, match=r"another secret.*delete node /cluster/secret of"):
        await secret(store, cluster_secret="told")
    assert await secret(store) == made, "it has left nothing behind"


async def test_of_two_that_come_at_once_with_different_ones_not_both_start(
    store: CoordinationStore,
) -> None:
    started = await asyncio.gather(
        secret(store, cluster_secret="told"), secret(store, seed=2), return_exceptions=True
    )
    assert await store.exists(paths.CLUSTER_SECRET) is not None
    assert await store.exists(paths.SECRET_VERIFIER) is not None
    assert any(isinstance(one, ConfigError) for one in started)


async def test_a_file_is_read_without_its_last_line_end(
    store: CoordinationStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "secret"
    path.write_text("in a file\n")
    path.chmod(0o600)
    assert await secret(store, cluster_secret_file=str(path)) == "in a file"
    assert not caplog.records


async def test_a_file_that_others_may_read_is_warned_of(
    store: CoordinationStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "secret"
    path.write_text("in a file\n")
    path.chmod(0o640)
    assert await secret(store, cluster_secret_file=str(path)) == "in a file"
    assert "can be read by others" in caplog.text


@pytest.mark.parametrize("contents", [None, b"", b"\n", b"\xff"])
async def test_a_file_without_a_secret_stops_the_start(
    store: CoordinationStore, tmp_path: Path, contents: bytes | None
) -> None:
    path = tmp_path / "secret"
    if contents is not None:
        path.write_bytes(contents)
    with pytest.raises(ConfigError, match="cluster\\.secret\\.file"):
        await secret(store, cluster_secret_file=str(path))


def test_only_one_of_the_two_can_be_set() -> None:
    with pytest.raises(ConfigError, match="not both"):
        BrokerConfig.load({"cluster.secret": "a", "cluster.secret.file": "b"})


def test_the_secret_is_not_shown() -> None:
    option = BrokerConfig.table["cluster.secret"]
    assert option.type.name == "PASSWORD"
