"""Large and many requests of strangers to a real broker, as strong as when each still hurt.

``tests/unit/broker/test_budgets.py`` measures legal requests of 1 MB of every API. These are
larger, or legal no more, or there are thousands of them.
"""

from __future__ import annotations

import asyncio
import resource
import struct
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.hostile import MIB, Cost, cost_of
from tests.support.in_process import eventually
from tests.support.wire import ConnectionClosedError, WireClient, one_batch

from moldau.testing.broker import MoldauProcess
from moldau.wire.api import ApiKey
from moldau.wire.headers import encode_request_header
from moldau.wire.messages import decode_response
from moldau.wire.primitives import uvarint

LOOP_MS = 50
LOOP_MS_PER_MB = 3
"""To read a frame takes time, whatever is in it; others have their turn meanwhile."""
WAIT_MS = 1000
MEMORY = 64 * MIB


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MoldauProcess]:
    settings = {"offsets.topic.num.partitions": 1}
    with MoldauProcess(tmp_path_factory.mktemp("broker"), overrides=settings) as running:
        yield running


@pytest.fixture
async def client(broker: MoldauProcess) -> AsyncIterator[WireClient]:
    async with await WireClient.connect(broker.bootstrap_servers) as connected:
        yield connected


def framed(api: ApiKey, version: int, body: bytes) -> bytes:
    content = encode_request_header(api, version, 1, "x") + body
    return struct.pack(">i", len(content)) + content


def check(cost: Cost, sent: int = 0) -> None:
    assert cost.loop_ms < LOOP_MS + LOOP_MS_PER_MB * sent / 1e6
    assert cost.wait_ms < WAIT_MS
    assert cost.memory < MEMORY + 2 * sent


async def closes(broker: MoldauProcess, frame: bytes) -> None:
    """The broker closes the connection without an answer."""

    async def attack() -> bytes:
        async with await WireClient.connect(broker.bootstrap_servers) as stranger:
            stranger.write(frame)
            return await stranger.wait_closed_by_peer()

    said, cost = await cost_of(broker, attack)
    assert said == b""
    check(cost, len(frame))


async def answer_to(broker: MoldauProcess, api: ApiKey, version: int, body: bytes) -> Any:
    frame = framed(api, version, body)

    async def attack() -> bytes:
        async with await WireClient.connect(broker.bootstrap_servers) as stranger:
            stranger.write(frame)
            return await stranger.read_frame()

    said, cost = await cost_of(broker, attack)
    check(cost, len(frame))
    return decode_response(api, version, said)[1]


# Tags --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1_000_000, 10_000_000, 49_000_000])
async def test_a_header_of_nothing_but_tags_is_refused(broker: MoldauProcess, count: int) -> None:
    """Once 20 seconds for a frame of 98 MB."""
    header = struct.pack(">hhih", ApiKey.API_VERSIONS, 3, 1, -1)
    body = header + uvarint(count) + b"\0\0" * count + b"\x02a\x02b\0"
    await closes(broker, struct.pack(">i", len(body)) + body)


# The same again and again ------------------------------------------------------------------------


def metadata(name: bytes, count: int) -> bytes:
    return uvarint(count + 1) + (uvarint(len(name) + 1) + name + b"\0") * count + b"\0\0\0\0"


@pytest.mark.parametrize("count", [1000, 10_000])
async def test_a_topic_asked_for_again_and_again_is_described_once(
    broker: MoldauProcess, client: WireClient, count: int
) -> None:
    """Once 6 seconds and 150 MB."""
    name = f"wide-{count}"
    await client.create_topic(name, 100)
    answer = await answer_to(broker, ApiKey.METADATA, 9, metadata(name.encode(), count))
    assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [(name, 100)]


async def test_a_million_topics_are_too_many(broker: MoldauProcess) -> None:
    await closes(broker, framed(ApiKey.METADATA, 9, metadata(b"", 1_000_000)))


@pytest.mark.parametrize("count", [100, 1000])
async def test_settings_asked_for_again_and_again_are_described_once(
    broker: MoldauProcess, count: int
) -> None:
    one = struct.pack(">b", 4) + b"\x021" + b"\0\0"
    body = uvarint(count + 1) + one * count + b"\x01\x01\0"
    answer = await answer_to(broker, ApiKey.DESCRIBE_CONFIGS, 4, body)
    assert [(result.error_code, result.resource_name) for result in answer.results] == [(0, "1")]


def fetch(name: bytes, count: int, wait_ms: int, least: int) -> bytes:
    partition = struct.pack(">iiqiqi", 0, -1, 0, -1, -1, 1000) + b"\0"
    body = struct.pack(">iiiib", -1, wait_ms, least, 1_000_000, 0) + struct.pack(">ii", 0, -1)
    body += b"\x02" + uvarint(len(name) + 1) + name + uvarint(count + 1) + partition * count
    return body + b"\0" + b"\x01\x01\0"


@pytest.mark.parametrize("wait_ms", [0, 2_000_000])
async def test_more_partitions_than_there_are_cannot_be_fetched(
    broker: MoldauProcess, client: WireClient, wait_ms: int
) -> None:
    name = f"fetched-{wait_ms}"
    await client.create_topic(name)
    await closes(broker, framed(ApiKey.FETCH, 12, fetch(name.encode(), 200_000, wait_ms, 100)))


async def test_a_long_poll_for_one_partition_many_times_holds_up_no_producer(
    broker: MoldauProcess, client: WireClient
) -> None:
    name = "watched"
    await client.create_topic(name)
    async with await WireClient.connect(broker.bootstrap_servers) as stranger:
        stranger.write(framed(ApiKey.FETCH, 12, fetch(name.encode(), 90_000, 2_000_000, 10_000)))

        async def produce() -> None:
            for _ in range(5):
                assert (await client.produce(name, one_batch(b"v"))).error_code == 0

        _, cost = await cost_of(broker, produce)
    assert cost.wait_ms < WAIT_MS
    assert cost.memory < MEMORY


# Patterns ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern",
    [
        "(.?){1000}z",
        "(.?){1000}" * 3 + "z",
        "(" + "|".join([".*"] * 3000) + ")z",
        "(" * 400 + "a" + ")" * 400,
        "(" * 30_000,
        "a" * 30_000,
    ],
    ids=lambda pattern: f"{pattern[:10]}-{len(pattern)}",
)
async def test_no_pattern_keeps_a_coordinator_busy(
    broker: MoldauProcess, client: WireClient, pattern: str
) -> None:
    """Once 4 seconds, with ten topics of long names."""
    for number in range(10):
        name = f"{number}".rjust(240, "a")
        await client.call(
            ApiKey.CREATE_TOPICS,
            topics=[{"name": name, "num_partitions": 1, "replication_factor": 1}],
        )
    await client.call(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
    beat = partial(
        client.call,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
        group_id=f"g{pattern[0]}{len(pattern)}",
        member_id="m",
        member_epoch=0,
        rebalance_timeout=5000,
        subscribed_topic_names=[],
        subscribed_topic_regex=pattern,
        topic_partitions=[],
    )
    answer, cost = await cost_of(broker, beat)
    assert len(answer.error_message or "") < 1000
    check(cost)


async def test_a_pattern_longer_than_any_string_closes_the_connection(
    broker: MoldauProcess, client: WireClient
) -> None:
    client.send(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
        group_id="g",
        member_id="m",
        member_epoch=0,
        subscribed_topic_regex="a" * 1_000_000,
    )
    with pytest.raises(ConnectionClosedError):
        await client.read_frame()


# Names -------------------------------------------------------------------------------------------


def settings_of(*groups: str) -> list[dict[str, Any]]:
    change = {"name": "consumer.session.timeout.ms", "config_operation": 0, "value": "45000"}
    return [{"resource_type": 32, "resource_name": name, "configs": [change]} for name in groups]


async def test_a_group_of_any_name_has_settings_of_its_own(
    broker: MoldauProcess, client: WireClient
) -> None:
    name = "../../x\n/.."
    altered = await client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=settings_of(name))
    assert [one.error_code for one in altered.responses] == [0]
    asked = [{"resource_type": 32, "resource_name": name, "configuration_keys": None}]
    answer = await client.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=asked)
    found = {one.name: one.value for one in answer.results[0].configs}
    assert found["consumer.session.timeout.ms"] == "45000"
    assert not list(broker.directory.glob("**/*x*\n*"))


async def test_thousands_of_groups_get_settings_while_others_are_served(
    broker: MoldauProcess, client: WireClient
) -> None:
    resources = settings_of(*(f"grp{number}" for number in range(2000)))
    alter = partial(client.call, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources)
    answer, cost = await cost_of(broker, alter)
    assert [one.error_code for one in answer.responses] == 2000 * [0]
    assert cost.wait_ms < WAIT_MS
    assert cost.memory < MEMORY


# Connections -------------------------------------------------------------------------------------


@pytest.fixture
def many_descriptors() -> Iterator[int]:
    """As many as this process may have."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_thousands_of_idle_connections_cost_little(
    broker: MoldauProcess, many_descriptors: int
) -> None:
    idle: list[WireClient] = []
    most = min(3000, many_descriptors // 2)

    async def attack() -> None:
        while len(idle) < most:
            idle.append(await WireClient.connect(broker.bootstrap_servers))
        await idle[-1].call(ApiKey.API_VERSIONS, 0)

    try:
        _, cost = await cost_of(broker, attack)
    finally:
        for one in idle:
            one.abort()
    assert cost.wait_ms < WAIT_MS
    assert cost.memory < 3000 * 16 * 1024


async def test_a_flood_of_garbage_leaves_few_lines(
    broker: MoldauProcess, client: WireClient
) -> None:
    before = broker.log_file.stat().st_size
    for number in range(2000):
        async with await WireClient.connect(broker.bootstrap_servers) as stranger:
            stranger.write(struct.pack(">iQQ", -5 - number, number, number))
            if number % 100 == 99:
                assert await stranger.wait_closed_by_peer() == b""
    assert (await client.call(ApiKey.API_VERSIONS, 0)).error_code == 0
    assert broker.log_file.stat().st_size - before < 20_000


class FewDescriptors(MoldauProcess):
    def _command(self) -> list[str]:
        return ["sh", "-c", 'ulimit -n 256; exec "$0" "$@"', *super()._command()]


async def test_more_idle_connections_than_descriptors_do_not_end_the_broker(
    tmp_path: Path,
) -> None:
    """Those for which there is no place wait to be accepted, or even to be connected."""
    with FewDescriptors(tmp_path) as broker:
        first = await WireClient.connect(broker.bootstrap_servers)
        assert (await first.call(ApiKey.API_VERSIONS, 0)).error_code == 0
        connecting = [
            asyncio.create_task(WireClient.connect(broker.bootstrap_servers)) for _ in range(280)
        ]
        await eventually(lambda: sum(task.done() for task in connecting) > 150)
        for _ in range(50):  # it accepts in these turns whom it wants to
            await first.call(ApiKey.API_VERSIONS, 0)
        await first.create_topic("t", 50)
        assert (await first.produce("t", one_batch(b"v"))).error_code == 0
        for task in connecting:
            task.cancel()
        for one in await asyncio.gather(*connecting, return_exceptions=True):
            if isinstance(one, WireClient):
                one.abort()
        async with await WireClient.connect(broker.bootstrap_servers) as late:
            assert (await late.call(ApiKey.API_VERSIONS, 0)).error_code == 0
        await first.close()
        assert broker.alive
