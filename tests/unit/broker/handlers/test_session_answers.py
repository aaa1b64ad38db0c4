"""A client that follows a session knows at any time what one without a session is told."""

from __future__ import annotations

import asyncio

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.memory_broker import MemoryBroker
from tests.support.wire import Topic, WireClient, flatten, one_batch
from tests.unit.broker.harness import ELSEWHERE, HERE, Link, led

from moldau.errors import ErrorCode
from moldau.wire.fetch import FetchedPartition, FetchResponse

TOPIC = "r"
PARTITIONS = 3

steps = st.lists(
    st.tuples(
        st.sampled_from(["produce", "read on", "delete", "next epoch", "leave", "wait"]),
        st.integers(0, PARTITIONS - 1),
    ),
    max_size=12,
)


class Consumer:
    """Reads with a session, and knows of each partition what it was last told."""

    def __init__(self, client: WireClient, isolation_level: int) -> None:
        self.offsets = dict.fromkeys(range(PARTITIONS), 0)
        self.known: dict[int, FetchedPartition] = {}
        self._client = client
        self._isolation_level = isolation_level
        self._session = (0, 0)
        self._changed = set(self.offsets)

    async def fetch(self) -> FetchResponse:
        session_id, epoch = self._session
        wanted: dict[Topic, dict[int, int]] = {}
        if self._changed:
            wanted[TOPIC] = {index: self.offsets[index] for index in sorted(self._changed)}
        answer = await self._client.fetch_all(
            wanted,
            session_id=session_id,
            session_epoch=epoch,
            isolation_level=self._isolation_level,
        )
        assert answer.error_code == 0
        self._session = (answer.session_id, epoch + 1)
        self._changed = set()
        for _, partition in flatten(answer):
            self.known[partition.partition] = partition
        return answer

    def read_on(self, index: int) -> None:
        self.offsets[index] = self.known[index].high_watermark
        self._changed.add(index)


async def live(history: list[tuple[str, int]], isolation_level: int) -> None:
    async with MemoryBroker() as broker:
        link, client = Link(broker), await broker.connect()
        epochs = dict.fromkeys(range(PARTITIONS), 0)
        await link.update(*(led(TOPIC, index) for index in range(PARTITIONS)))
        consumer = Consumer(await broker.connect(), isolation_level)
        await consumer.fetch()
        for what, index in history:
            if what == "produce":
                await client.produce(TOPIC, one_batch(b"v", b"w"), partition=index)
            elif what == "delete" and broker.partition(TOPIC, index).is_leader:
                broker.partition(TOPIC, index).delete_records(-1)
            elif what in ("next epoch", "leave"):
                epochs[index] += 1
                leader = HERE if what == "next epoch" else ELSEWHERE
                await link.update(led(TOPIC, index, leader=leader, epoch=epochs[index]))
            elif what == "read on" and not consumer.known[index].error_code:
                consumer.read_on(index)
            told = {partition.partition for _, partition in flatten(await consumer.fetch())}
            plain = await client.fetch_all(
                {TOPIC: dict(consumer.offsets)}, isolation_level=isolation_level
            )
            for _, partition in flatten(plain):
                number = partition.partition
                known = consumer.known[number]
                assert summary(known) == summary(partition)
                if number in told:
                    assert known.records == partition.records
                else:
                    assert not partition.records
                    assert not partition.error_code


def summary(partition: FetchedPartition) -> tuple[int, int, int, int]:
    return (
        partition.error_code,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log_start_offset,
    )


@settings(deadline=None)
@example(history=[("produce", 0), ("read on", 0), ("delete", 0)], isolation_level=0)
@given(history=steps, isolation_level=st.sampled_from([0, 1]))
def test_a_session_tells_what_a_plain_fetch_tells(
    history: list[tuple[str, int]], isolation_level: int
) -> None:
    asyncio.run(live(history, isolation_level))


async def test_the_disk_of_a_quiet_partition_fails(
    broker: MemoryBroker, client: WireClient
) -> None:
    await client.create_topic("t", 2)
    first = await client.fetch_all({"t": {0: 0, 1: 0}}, session_epoch=0)
    step = {"session_id": first.session_id, "session_epoch": 1}
    assert list(flatten(await client.fetch_all({}, **step))) == []
    broker.partition("t", 1).log.health.fatal_error("test", OSError(5, "broken"))
    step["session_epoch"] = 2
    told = [partition for _, partition in flatten(await client.fetch_all({}, **step))]
    assert [(partition.partition, partition.error_code) for partition in told] == [
        (0, ErrorCode.KAFKA_STORAGE_ERROR),  # in the same directory
        (1, ErrorCode.KAFKA_STORAGE_ERROR),
    ]
