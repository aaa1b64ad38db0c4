"""Fetch over the wire: long polls, limits, isolation, epochs, order of answers."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest
from tests.support.in_process import InProcessBroker, eventually
from tests.support.partition_log import verified
from tests.support.wire import (
    WireClient,
    base_offsets,
    flatten,
    one_batch,
    size_of,
    values_of,
)

from moldau.errors import ErrorCode
from moldau.log import AppendOrigin
from moldau.records.control import ControlType, build_end_txn_marker
from moldau.wire.api import ApiKey
from moldau.wire.fetch import FetchPartition
from moldau.wire.primitives import error_from

UNKNOWN_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
LONG_MS = 600_000
"""A wait that no test lives to see: whoever answers sooner was woken."""
BATCH_SIZE = len(one_batch(b"0123456789"))


async def parked(broker: InProcessBroker, topic: str = "t", count: int = 1) -> None:
    """Wait until that many requests wait for a partition."""
    await eventually(lambda: broker.partition(topic).parked == count, "parking")


# Long polls --------------------------------------------------------------------------------------


async def test_a_long_poll_is_answered_by_an_append_of_another_client(
    broker: InProcessBroker, client: WireClient
) -> None:
    await client.create_topic("t")
    consumer = await broker.connect()
    waiting = asyncio.create_task(consumer.fetch("t", max_wait_ms=LONG_MS))
    await parked(broker)
    await client.produce("t", one_batch(b"v"))
    assert values_of(await waiting) == [b"v"]
    assert broker.partition("t").parked == 0


async def test_a_long_poll_waits_for_min_bytes(broker: InProcessBroker, client: WireClient) -> None:
    await client.create_topic("t")
    consumer = await broker.connect()
    waiting = asyncio.create_task(
        consumer.fetch("t", max_wait_ms=LONG_MS, min_bytes=3 * BATCH_SIZE)
    )
    await parked(broker)
    for _ in range(2):
        await client.produce("t", one_batch(b"0123456789"))
        assert broker.partition("t").parked == 1
    assert not waiting.done()
    await client.produce("t", one_batch(b"0123456789"))
    assert base_offsets(await waiting) == [0, 1, 2]


async def test_when_the_wait_is_over_the_answer_carries_what_is_there(
    client: WireClient,
) -> None:
    await client.create_topic("t")
    await client.produce("t", one_batch(b"little"))
    fetched = await client.fetch("t", max_wait_ms=20, min_bytes=1 << 20)
    assert values_of(fetched) == [b"little"]
    empty = await client.fetch("t", 1, max_wait_ms=20)
    assert (empty.error_code, values_of(empty), empty.high_watermark) == (0, [], 1)


@pytest.mark.parametrize(("max_wait_ms", "min_bytes"), [(0, 1), (LONG_MS, 0), (-5, 1)])
async def test_who_does_not_want_to_wait_is_answered_at_once(
    client: WireClient, max_wait_ms: int, min_bytes: int
) -> None:
    await client.create_topic("t")
    fetched = await client.fetch("t", max_wait_ms=max_wait_ms, min_bytes=min_bytes)
    assert (fetched.error_code, values_of(fetched)) == (0, [])


async def test_one_partition_with_data_ends_the_wait_for_all(
    broker: InProcessBroker, client: WireClient
) -> None:
    await client.create_topic("t", 3)
    consumer = await broker.connect()
    waiting = asyncio.create_task(
        consumer.fetch_all({"t": {0: 0, 1: 0, 2: 0}}, max_wait_ms=LONG_MS)
    )
    await parked(broker)
    await client.produce("t", one_batch(b"v"), partition=1)
    found = {p.partition: values_of(p) for _, p in flatten(await waiting)}
    assert found == {0: [], 1: [b"v"], 2: []}
    assert [broker.partition("t", n).parked for n in range(3)] == [0, 0, 0]


async def test_a_partition_that_cannot_be_read_ends_the_wait_for_all(client: WireClient) -> None:
    await client.create_topic("t", 2)
    answer = await client.fetch_all({"t": {0: 0, 1: 99}}, max_wait_ms=LONG_MS)
    codes = {p.partition: error_from(p.error_code) for _, p in flatten(answer)}
    assert codes == {0: ErrorCode.NONE, 1: ErrorCode.OFFSET_OUT_OF_RANGE}


async def test_a_partition_that_does_not_exist_ends_no_wait_for_the_others(
    broker: InProcessBroker, client: WireClient
) -> None:
    """Otherwise a consumer that keeps asking for it would never wait again."""
    await client.create_topic("t")
    consumer = await broker.connect()
    fetch = consumer.send_fetch({"t": {0: 0, 5: 0}}, max_wait_ms=LONG_MS)
    await parked(broker)
    await client.produce("t", one_batch(b"v"))
    answer = await consumer.receive_fetch(fetch)
    codes = {p.partition: error_from(p.error_code) for _, p in flatten(answer)}
    assert codes == {0: ErrorCode.NONE, 5: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_a_consumer_that_leaves_is_forgotten(
    broker: InProcessBroker, client: WireClient
) -> None:
    await client.create_topic("t")
    consumer = await broker.connect()
    consumer.send_fetch({"t": {0: 0}}, max_wait_ms=LONG_MS)
    await parked(broker)
    consumer.abort()
    await parked(broker, count=0)
    await eventually(lambda: broker.connections == 1)


async def test_a_client_that_has_no_more_to_say_still_gets_its_answers(
    broker: InProcessBroker, client: WireClient
) -> None:
    await client.create_topic("t")
    consumer = await broker.connect()
    fetch = consumer.send_fetch({"t": {0: 0}}, max_wait_ms=LONG_MS)
    metadata = consumer.send(ApiKey.METADATA, topics=[])
    consumer.end_of_requests()
    await parked(broker)
    await client.produce("t", one_batch(b"v"))
    assert [values_of(p) for _, p in flatten(await consumer.receive_fetch(fetch))] == [[b"v"]]
    await consumer.receive(ApiKey.METADATA, metadata)
    assert await consumer.wait_closed_by_peer() == b""


async def test_deleting_a_topic_ends_the_waits_for_it(
    broker: InProcessBroker, client: WireClient
) -> None:
    topic_id = await client.create_topic("t")
    by_name, by_id = await broker.connect(), await broker.connect()
    waiting = [
        asyncio.create_task(by_name.fetch("t", max_wait_ms=LONG_MS)),
        asyncio.create_task(by_id.fetch(topic_id, max_wait_ms=LONG_MS)),
    ]
    await parked(broker, count=2)
    await client.call(ApiKey.DELETE_TOPICS, topics=[{"name": "t"}], timeout=60_000)
    codes = {error_from((await one).error_code) for one in waiting}
    assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}


async def test_a_hundred_waiting_consumers_all_hear_of_one_append(
    broker: InProcessBroker, client: WireClient
) -> None:
    await client.create_topic("t")
    consumers = [await broker.connect() for _ in range(100)]
    waiting = [
        asyncio.create_task(consumer.fetch("t", max_wait_ms=LONG_MS)) for consumer in consumers
    ]
    await parked(broker, count=100)
    await client.produce("t", one_batch(b"v"))
    for one in waiting:
        assert values_of(await one) == [b"v"]


# Pipelining --------------------------------------------------------------------------------------


async def test_requests_behind_a_parked_fetch_wait_for_its_answer(
    broker: InProcessBroker, client: WireClient
) -> None:
    """What is asked behind it is true after it; other connections are not held up."""
    await client.create_topic("watched")
    await client.create_topic("t")
    fetch = client.send_fetch({"watched": {0: 0}}, max_wait_ms=LONG_MS)
    produces = [client.send_produce({"t": {0: one_batch(b"%d" % n)}}) for n in range(3)]
    ends = client.send(
        ApiKey.LIST_OFFSETS,
        replica_id=-1,
        topics=[{"name": "watched", "partitions": [{"partition_index": 0, "timestamp": -1}]}],
    )
    await parked(broker, "watched")
    other = await broker.connect()
    await other.produce("watched", one_batch(b"wake"))
    answer = await client.receive_fetch(fetch)
    assert [values_of(p) for _, p in flatten(answer)] == [[b"wake"]]
    for n, sent in enumerate(produces):
        assert (await client.receive_produce(sent)).topics[0][2][0].base_offset == n
    (listed,) = (await client.receive(ApiKey.LIST_OFFSETS, ends)).topics
    assert listed.partitions[0].offset == 1


async def test_several_fetches_of_one_client_wait_one_after_another(
    broker: InProcessBroker, client: WireClient
) -> None:
    await client.create_topic("first")
    await client.create_topic("second")
    sent = [
        client.send_fetch({"first": {0: 0}}, max_wait_ms=LONG_MS),
        client.send_fetch({"second": {0: 0}}, max_wait_ms=LONG_MS),
    ]
    await parked(broker, "first")
    assert broker.partition("second").parked == 0
    other = await broker.connect()
    await other.produce("first", one_batch(b"1"))
    await parked(broker, "second")
    await other.produce("second", one_batch(b"2"))
    answers = [await client.receive_fetch(one) for one in sent]
    assert [[values_of(p) for _, p in flatten(a)] for a in answers] == [[[b"1"]], [[b"2"]]]


# Limits ------------------------------------------------------------------------------------------


async def fill(client: WireClient, topic: str, partitions: int = 1, batches: int = 10) -> None:
    await client.create_topic(topic, partitions)
    for partition in range(partitions):
        for _ in range(batches):
            await client.produce(topic, one_batch(b"0123456789"), partition=partition)


@pytest.mark.parametrize("whole", [1, 3, 10])
async def test_a_partition_gives_no_more_than_it_is_asked_for(
    client: WireClient, whole: int
) -> None:
    await fill(client, "t")
    fetched = await client.fetch("t", partition_max_bytes=whole * BATCH_SIZE)
    assert size_of(fetched) == whole * BATCH_SIZE
    assert base_offsets(fetched) == list(range(whole))


@pytest.mark.parametrize("limit", ["partition_max_bytes", "max_bytes"])
async def test_the_first_batch_comes_whole_however_small_the_limit(
    client: WireClient, limit: str
) -> None:
    await fill(client, "t")
    fetched = await client.fetch("t", 3, **{limit: 1})
    assert base_offsets(fetched) == [3]
    assert size_of(fetched) == BATCH_SIZE


async def test_only_the_first_partition_with_data_may_exceed_the_limit(
    client: WireClient,
) -> None:
    await fill(client, "t", partitions=3)
    answer = await client.fetch_all({"t": {0: 10, 1: 0, 2: 0}}, max_bytes=1)
    found = {p.partition: size_of(p) for _, p in flatten(answer)}
    assert found == {0: 0, 1: BATCH_SIZE, 2: 0}


async def test_the_whole_answer_stays_within_its_limit(client: WireClient) -> None:
    await fill(client, "t", partitions=3)
    limit = 15 * BATCH_SIZE
    answer = await client.fetch_all({"t": {0: 0, 1: 0, 2: 0}}, max_bytes=limit)
    found = {p.partition: size_of(p) for _, p in flatten(answer)}
    assert found == {0: 10 * BATCH_SIZE, 1: 5 * BATCH_SIZE, 2: 0}


@pytest.mark.parametrize("broker", [{"fetch.max.bytes": "1024"}], indirect=True)
async def test_the_brokers_own_limit_holds_for_every_fetch(
    broker: InProcessBroker, client: WireClient
) -> None:
    await fill(client, "t", partitions=2, batches=20)
    answer = await client.fetch_all({"t": {0: 0, 1: 0}})
    assert sum(size_of(p) for _, p in flatten(answer)) == 1024


async def test_reading_on_where_the_last_answer_ended_gives_every_record_once(
    client: WireClient,
) -> None:
    await client.create_topic("t", configs={"internal.segment.bytes": "1000"})
    for n in range(100):
        await client.produce("t", one_batch(*(b"%d.%d" % (n, m) for m in range(n % 4 + 1))))
    values: list[bytes | None] = []
    offset = 0
    while True:
        fetched = await client.fetch("t", offset, partition_max_bytes=700)
        if not size_of(fetched):
            break
        values += values_of(fetched)
        offset = len(values)
    assert values == [b"%d.%d" % (n, m) for n in range(100) for m in range(n % 4 + 1)]
    assert offset == fetched.high_watermark


async def test_an_offset_inside_a_batch_gives_that_batch(client: WireClient) -> None:
    await client.create_topic("t")
    await client.produce("t", one_batch(b"a", b"b", b"c"))
    await client.produce("t", one_batch(b"d"))
    assert base_offsets(await client.fetch("t", 2)) == [0, 3]


async def test_a_reader_a_segment_behind_does_not_wait_for_min_bytes(
    broker: InProcessBroker, client: WireClient
) -> None:
    """What is left of its segment is all that one answer can ever hold."""
    await client.create_topic("t", configs={"internal.segment.bytes": str(3 * BATCH_SIZE)})
    for _ in range(4):
        await client.produce("t", one_batch(b"0123456789"))
    assert len(broker.partition("t").log.segments) == 2
    fetched = await client.fetch("t", 1, max_wait_ms=LONG_MS, min_bytes=10 * BATCH_SIZE)
    assert base_offsets(fetched) == [1, 2]


# Offsets, ids, epochs ----------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [-1, 4, 2**62])
async def test_offsets_outside_the_log_are_out_of_range(client: WireClient, offset: int) -> None:
    await client.create_topic("t")
    await client.produce("t", one_batch(b"a", b"b", b"c"))
    fetched = await client.fetch("t", offset, max_wait_ms=LONG_MS)
    assert fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (fetched.high_watermark, size_of(fetched)) == (-1, 0)


async def test_deleted_records_are_out_of_range_and_the_start_is_told(client: WireClient) -> None:
    await client.create_topic("t")
    await client.produce("t", one_batch(b"a", b"b", b"c"))
    await client.call(
        ApiKey.DELETE_RECORDS,
        topics=[{"name": "t", "partitions": [{"partition_index": 0, "offset": 2}]}],
    )
    assert (await client.fetch("t", 1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (await client.fetch("t", 2)).log_start_offset == 2


async def test_unknown_topics_and_ids_are_told_as_such(client: WireClient) -> None:
    by_name = await client.fetch("nowhere", max_wait_ms=LONG_MS)
    assert by_name.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    by_id = await client.fetch(UNKNOWN_ID, max_wait_ms=LONG_MS)
    assert by_id.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def epoch_partition(current: int, last_fetched: int = -1, offset: int = 0) -> FetchPartition:
    return FetchPartition(0, current, offset, last_fetched, -1, 1 << 20)


async def test_leader_epochs_are_checked(broker: InProcessBroker, client: WireClient) -> None:
    await client.create_topic("t")
    await client.produce("t", one_batch(b"a"))
    await broker.restart()
    client = await broker.connect()
    epoch = broker.partition("t").leader_epoch
    assert epoch >= 1, "a restart elects leaders anew"
    expected = {
        epoch - 1: ErrorCode.FENCED_LEADER_EPOCH,
        epoch: ErrorCode.NONE,
        epoch + 1: ErrorCode.UNKNOWN_LEADER_EPOCH,
        -1: ErrorCode.NONE,
    }
    for asked, code in expected.items():
        fetched = await client.fetch("t", epoch_partition(asked), max_wait_ms=0)
        assert error_from(fetched.error_code) is code


async def test_a_log_that_differs_is_told_where(
    broker: InProcessBroker, client: WireClient
) -> None:
    await client.create_topic("t")
    await client.produce("t", one_batch(b"a", b"b"))
    await broker.restart()
    client = await broker.connect()
    await client.produce("t", one_batch(b"c"))
    diverged = await client.fetch("t", epoch_partition(-1, 0, offset=3), max_wait_ms=LONG_MS)
    assert (diverged.error_code, diverged.diverging_epoch) == (0, (0, 2))
    assert size_of(diverged) == 0
    agreed = await client.fetch("t", epoch_partition(-1, 0, offset=2))
    assert (agreed.diverging_epoch, values_of(agreed)) == (None, [b"c"])


# Isolation ---------------------------------------------------------------------------------------


async def test_read_committed_stops_at_an_open_transaction_and_lists_aborted_ones(
    broker: InProcessBroker, client: WireClient
) -> None:
    """Here they are written into the log itself."""
    await client.create_topic("t")
    await client.produce("t", one_batch(b"plain"))
    log = broker.partition("t").log

    def transactional(value: bytes, producer_id: int) -> None:
        batch = one_batch(
            value, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
        )
        verified(log, producer_id)
        broker.partition("t").append(memoryview(batch), 1, broker.parts.clock.now_ms())

    transactional(b"aborted", 8)
    marker = build_end_txn_marker(
        ControlType.ABORT, producer_id=8, producer_epoch=0, coordinator_epoch=0, timestamp=1
    )
    log.append_as_leader(memoryview(marker), 0, 1, origin=AppendOrigin.COORDINATOR)
    transactional(b"open", 9)
    await client.produce("t", one_batch(b"behind"))

    all_of_it = await client.fetch("t", isolation_level=0)
    assert base_offsets(all_of_it) == [0, 1, 2, 3, 4]
    assert (all_of_it.high_watermark, all_of_it.last_stable_offset) == (5, 3)
    assert all_of_it.aborted is None
    committed = await client.fetch("t", isolation_level=1)
    assert base_offsets(committed) == [0, 1, 2]
    assert committed.aborted == [(8, 1)]
    assert (await client.fetch("t", 3, isolation_level=1, max_wait_ms=10)).records == b""


# Sessions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [12, 17])
async def test_an_incremental_session_answers_only_news(client: WireClient, version: int) -> None:
    ids = {name: await client.create_topic(name) for name in ("a", "b", "c")}
    topic = ids if version >= 13 else {name: name for name in ids}

    started = await client.fetch_all(
        {topic[name]: {0: 0} for name in ids}, version=version, session_epoch=0
    )
    session = started.session_id
    assert session > 0
    assert len(list(flatten(started))) == 3, "the first answer is complete"

    quiet = await client.fetch_all({}, version=version, session_id=session, session_epoch=1)
    assert (quiet.error_code, quiet.session_id, quiet.topics) == (0, session, [])

    await client.produce("b", one_batch(b"news"))
    step = await client.fetch_all({}, version=version, session_id=session, session_epoch=2)
    assert [(name, values_of(p)) for name, p in flatten(step)] == [(topic["b"], [b"news"])]

    moved = await client.fetch_all(
        {topic["b"]: {0: 1}},
        version=version,
        session_id=session,
        session_epoch=3,
        forgotten={topic["a"]: [0]},
    )
    assert moved.topics == []
    for name in ("a", "b", "c"):
        await client.produce(name, one_batch(b"more"))
    step = await client.fetch_all({}, version=version, session_id=session, session_epoch=4)
    assert {name for name, _ in flatten(step)} == {topic["b"], topic["c"]}


async def test_a_step_of_a_session_waits_like_any_fetch(
    broker: InProcessBroker, client: WireClient
) -> None:
    await client.create_topic("t")
    session = (await client.fetch_all({"t": {0: 0}}, session_epoch=0)).session_id
    step = client.send_fetch({}, session_id=session, session_epoch=1, max_wait_ms=LONG_MS)
    await parked(broker)
    other = await broker.connect()
    await other.produce("t", one_batch(b"v"))
    assert [values_of(p) for _, p in flatten(await client.receive_fetch(step))] == [[b"v"]]


async def test_sessions_refuse_what_does_not_continue_them(client: WireClient) -> None:
    topic_id = await client.create_topic("t")
    session = (await client.fetch_all({"t": {0: 0}}, session_epoch=0)).session_id

    async def step(epoch: int, session_id: int = session, version: int = 12) -> ErrorCode:
        answer = await client.fetch_all(
            {},
            version=version,
            session_id=session_id,
            session_epoch=epoch,
            max_wait_ms=LONG_MS,
            min_bytes=0,
        )
        return error_from(answer.error_code)

    assert await step(5) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert await step(1, session_id=session ^ 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert await step(1, version=13) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert await step(1) is ErrorCode.NONE
    ended = await client.fetch_all({}, session_id=session, session_epoch=-1)
    assert (ended.error_code, ended.session_id) == (0, 0)
    assert await step(2) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert topic_id is not None


@pytest.mark.parametrize(
    "broker", [{"max.incremental.fetch.session.cache.slots": "1"}], indirect=True
)
async def test_without_room_for_a_session_fetches_are_still_served(
    broker: InProcessBroker, client: WireClient
) -> None:
    await client.create_topic("t")
    await client.produce("t", one_batch(b"v"))
    assert (await client.fetch_all({"t": {0: 0}}, session_epoch=0)).session_id > 0
    other = await broker.connect()
    answer = await other.fetch_all({"t": {0: 0}}, session_epoch=0)
    assert answer.session_id == 0
    assert [values_of(p) for _, p in flatten(answer)] == [[b"v"]]


async def test_a_session_tells_of_a_topic_that_was_deleted_under_it(client: WireClient) -> None:
    topic_id = await client.create_topic("t")
    session = (await client.fetch_all({topic_id: {0: 0}}, version=17, session_epoch=0)).session_id
    await client.call(ApiKey.DELETE_TOPICS, topics=[{"name": "t"}], timeout=60_000)
    step = await client.fetch_all(
        {}, version=17, session_id=session, session_epoch=1, max_wait_ms=LONG_MS
    )
    ((told, partition),) = flatten(step)
    assert (told, partition.error_code) == (topic_id, ErrorCode.UNKNOWN_TOPIC_ID)


async def test_busy_partitions_do_not_starve_the_others(client: WireClient) -> None:
    """With room for one batch per answer, each of three full partitions gets its turn."""
    await fill(client, "t", partitions=3)
    session = (await client.fetch_all({"t": {0: 10, 1: 10, 2: 10}}, session_epoch=0)).session_id
    offsets = dict.fromkeys(range(3), 0)
    changed: dict[int, int | FetchPartition] = dict(offsets)
    for epoch in range(1, 10):
        answer = await client.fetch_all(
            {"t": changed}, session_id=session, session_epoch=epoch, max_bytes=1
        )
        changed = {}
        for _, fetched in flatten(answer):
            if values_of(fetched):
                offsets[fetched.partition] += 1
                changed[fetched.partition] = offsets[fetched.partition]
    assert offsets == {0: 3, 1: 3, 2: 3}
