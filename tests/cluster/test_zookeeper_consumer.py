"""The old high-level consumer: a real ZooKeeper, a real broker, consumers that come, go and die."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.members.team import create_topic, write
from tests.support.moldau import Moldau
from tests.support.proxy import CuttableWay
from tests.support.zookeeper import ZooKeeper

from moldau.client.zookeeper_consumer import AsyncZooKeeperConsumer, ZooKeeperConsumer
from moldau.coordination import paths, znodes
from moldau.coordination.zookeeper import ZooKeeperStore
from moldau.model import TopicPartition

PARTITIONS = 7
PATIENCE_S = 120.0
SESSION_MS = 40_000
SHORT_SESSION_MS = 1500

Place = tuple[int, int]

MEMBER = """
import json, sys
from moldau.client.zookeeper_consumer import ZooKeeperConsumer
settings, topic = json.loads(sys.argv[1]), sys.argv[2]
with ZooKeeperConsumer(settings) as consumer:
    consumer.subscribe([topic])
    while True:
        for record in consumer.poll(0.1).records():
            print(record.partition, record.offset, flush=True)
"""


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moldau]:
    server = Moldau(tmp_path_factory.mktemp("broker"), {})
    server.start()
    yield server
    server.kill()


class Reader:
    """A consumer that polls all the time and counts what it sees."""

    def __init__(self, group: Group, settings: dict[str, object]) -> None:
        self._group = group
        self.consumer = AsyncZooKeeperConsumer(settings)
        self.seen: Counter[Place] = Counter()
        self._task: asyncio.Task[None] | None = None

    async def start(self, topic: str) -> None:
        await self.consumer.subscribe([topic])
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            for record in (await self.consumer.poll(0.2)).records():
                place = TopicPartition(record.topic, record.partition)
                assert [one for one in self._group.readers if one.reads(place)] == [self]
                self.seen[record.partition, record.offset] += 1

    def reads(self, partition: TopicPartition) -> bool:
        """Whether records of this partition could be handed out here now."""
        session = self.consumer._session
        held = session is not None and session.lease.held
        return held and partition in self.consumer.assignment()

    @property
    def owned(self) -> set[int]:
        return {one.partition for one in self.consumer.assignment()}

    async def stop(self) -> None:
        """End after the record at hand: what was polled is processed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.consumer.close()

    @property
    def failure(self) -> BaseException | None:
        done = self._task is not None and self._task.done()
        return self._task.exception() if done and self._task is not None else None


class Group:
    def __init__(self, zookeeper: ZooKeeper, broker: Moldau, partitions: int = PARTITIONS) -> None:
        self.name = self.topic = f"zk-{uuid4().hex[:8]}"
        self.zookeeper, self.broker = zookeeper, broker
        self.written: set[Place] = set()
        self.readers: list[Reader] = []
        self.processes: list[subprocess.Popen[str]] = []
        create_topic(broker.bootstrap, self.topic, partitions)

    def settings(self, **changes: object) -> dict[str, object]:
        return {
            "bootstrap.servers": self.broker.bootstrap,
            "zookeeper.connect": self.zookeeper.address,
            "zookeeper.session.timeout.ms": SESSION_MS,
            "group.id": self.name,
            "auto.offset.reset": "smallest",
            "rebalance.backoff.ms": 5000,
            **changes,
        }

    async def write(self, each: int) -> None:
        written = await asyncio.to_thread(
            write, self.broker.bootstrap, self.topic, each, PARTITIONS
        )
        self.written |= written

    async def join(self, **changes: object) -> Reader:
        reader = Reader(self, self.settings(**{k.replace("_", "."): v for k, v in changes.items()}))
        self.readers.append(reader)
        await reader.start(self.topic)
        return reader

    def spawn(self, output: Path, **changes: object) -> subprocess.Popen[str]:
        """A consumer in a process of its own, to be killed."""
        settings = self.settings(**{k.replace("_", "."): v for k, v in changes.items()})
        with output.open("w") as sink:
            process = subprocess.Popen(
                [sys.executable, "-c", MEMBER, json.dumps(settings), self.topic],
                stdout=sink,
                text=True,
            )
        self.processes.append(process)
        return process

    @property
    def seen(self) -> Counter[Place]:
        return sum((reader.seen for reader in self.readers), Counter())

    async def until(self, condition: Callable[[], object], what: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not condition():
                    for reader in self.readers:
                        assert reader.failure is None, reader.failure
                    await asyncio.sleep(0.01)
        except TimeoutError:
            shares = [reader.owned for reader in self.readers]
            raise AssertionError(f"{what} did not happen; shares are {shares}") from None

    async def until_shared(self, *sizes: int) -> None:
        def shared() -> bool:
            owned = [reader.owned for reader in self.readers]
            whole = set().union(*owned) == set(range(PARTITIONS))
            return whole and sorted(map(len, owned)) == sorted(sizes)

        await self.until(shared, f"sharing as {sizes}")

    async def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        for reader in self.readers:
            await reader.stop()


@pytest.fixture
async def group(zookeeper: ZooKeeper, broker: Moldau) -> Group:
    return Group(zookeeper, broker)


async def stored(group: Group) -> dict[int, int]:
    """What ZooKeeper has as the group's offsets."""
    store = await ZooKeeperStore.open(group.zookeeper.address)
    root = f"/consumers/{group.name}/offsets/{group.topic}"
    names = await store.children(root)
    nodes = await store.get_many([f"{root}/{name}" for name in names])
    await store.close()
    return {int(name): int(node[0]) for name, node in zip(names, nodes, strict=True) if node}


async def test_consumers_share_and_share_anew_and_offsets_stay(group: Group) -> None:
    try:
        await group.write(20)
        one = await group.join()
        assert one.owned == set(range(PARTITIONS))
        two = await group.join()
        await group.until_shared(4, 3)
        three = await group.join()
        await group.until_shared(3, 3, 1)
        assert not one.owned & two.owned | two.owned & three.owned | one.owned & three.owned
        await group.write(20)
        await group.until(lambda: group.seen.keys() == group.written, "reading all")
        await two.stop()
        group.readers.remove(two)
        await group.until_shared(4, 3)
        await group.write(10)
        await group.until(lambda: (group.seen + two.seen).keys() == group.written, "reading more")
    finally:
        await group.close()
    assert await stored(group) == dict.fromkeys(range(PARTITIONS), 50)
    # Whoever comes next goes on where the others ended.
    group.readers.clear()
    try:
        before = set(group.written)
        again = await group.join()
        await group.write(5)
        await group.until(lambda: len(again.seen) == 5 * PARTITIONS, "resuming")
        assert again.seen.keys() == group.written - before
    finally:
        await group.close()


async def test_partitions_of_a_killed_consumer_go_to_the_others(
    group: Group, tmp_path: Path
) -> None:
    try:
        await group.write(10)
        one = await group.join(auto_commit_interval_ms=100)
        output = tmp_path / "member"
        process = group.spawn(
            output, zookeeper_session_timeout_ms=SHORT_SESSION_MS, auto_commit_interval_ms=100
        )
        await group.until(lambda: len(one.owned) < PARTITIONS, "the arrival of the process")
        await group.write(10)

        def places() -> set[Place]:
            whole, _, _ = output.read_text().rpartition("\n")
            return {(int(p), int(o)) for p, o in map(str.split, whole.splitlines())}

        await group.until(lambda: len(places()) > 10, "reading in the process")
        process.kill()
        process.wait()
        await group.until_shared(PARTITIONS)
        await group.write(10)
        await group.until(lambda: one.seen.keys() | places() == group.written, "reading all")
    finally:
        await group.close()


async def test_a_consumer_that_is_cut_off_stops_and_comes_back_in_a_new_session(
    group: Group,
) -> None:
    way = await CuttableWay("127.0.0.1", group.zookeeper.port).start()
    try:
        stays = await group.join()
        cut = await group.join(
            zookeeper_connect=way.address, zookeeper_session_timeout_ms=SHORT_SESSION_MS
        )
        await group.until_shared(4, 3)
        session = cut.consumer._session
        assert session is not None
        way.cut()
        await group.until(lambda: not session.lease.held, "the end of the lease")
        seen = cut.seen.total()
        await group.until(lambda: stays.owned == set(range(PARTITIONS)), "the takeover")
        await group.write(10)
        await group.until(lambda: stays.seen.keys() == group.written, "reading all")
        assert cut.seen.total() == seen  # it may still believe that it owns, but hands nothing out
        way.mend()
        await group.until_shared(4, 3)
        assert cut.consumer._session is not session
        await group.write(10)
        await group.until(lambda: group.seen.keys() == group.written, "reading with both")
    finally:
        await group.close()
        await way.close()


async def test_topics_that_brokers_registered_in_zookeeper_are_watched(group: Group) -> None:
    """As with brokers of that time: what ZooKeeper says of a topic holds."""
    store = await ZooKeeperStore.open(group.zookeeper.address)
    try:
        await store.ensure_path(paths.TOPICS)
        some = znodes.encode_topic(znodes.TopicNode({0: (1,), 1: (1,)}, uuid4()))
        await store.create(paths.topic(group.topic), some)
        one, two = await group.join(), await group.join()
        await group.until(lambda: [len(one.owned), len(two.owned)] == [1, 1], "one partition each")
        grown: dict[int, tuple[int, ...]] = dict.fromkeys(range(PARTITIONS), (1,))
        await store.set(
            paths.topic(group.topic), znodes.encode_topic(znodes.TopicNode(grown, uuid4()))
        )
        await group.until_shared(4, 3)
    finally:
        await group.close()
        await store.close()


def test_without_asyncio(zookeeper: ZooKeeper, broker: Moldau) -> None:
    group = Group(zookeeper, broker)
    group.written |= write(broker.bootstrap, group.topic, 3, PARTITIONS)
    with ZooKeeperConsumer(group.settings(), auto_commit_enable=False) as consumer:
        consumer.subscribe([group.topic])
        seen: set[Place] = set()
        while seen != group.written:
            records = list(consumer.poll(60.0, max_records=4).records())
            assert 0 < len(records) <= 4
            seen |= {(record.partition, record.offset) for record in records}
        consumer.commit()
        assert len(consumer.assignment()) == PARTITIONS
    assert asyncio.run(stored(group)) == dict.fromkeys(range(PARTITIONS), 3)
