"""Records in and out: what Produce and Fetch answer at once, later and never."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from tests.support.batches import relabelled
from tests.support.in_process import eventually
from tests.support.memory_broker import MemoryBroker
from tests.support.wire import (
    CLIENT_ID,
    ConnectionClosedError,
    WireClient,
    flatten,
    one_batch,
    values_of,
)
from tests.unit.broker.harness import ELSEWHERE, HERE, Link, led

from moldau.broker.fetch_sessions import LARGE_FETCH, MOST_WAITING, WITHOUT_PLACE_S
from moldau.errors import ErrorCode
from moldau.log import PartitionLog, StorageError
from moldau.records.compression import Compression
from moldau.replication import Partition
from moldau.wire.fetch import FetchPartition
from moldau.wire.produce import encode_produce_request


@pytest.fixture
async def topic(client: WireClient) -> str:
    await client.create_topic("t", 2)
    return "t"


async def replicated(broker: MemoryBroker) -> Partition:
    """A partition "r" that another broker follows."""
    await Link(broker).update(led("r", isr=(HERE, ELSEWHERE)))
    return broker.partition("r")


# Produce -----------------------------------------------------------------------------------------


async def test_each_partition_succeeds_or_fails_alone(client: WireClient, topic: str) -> None:
    sent = client.send_produce(
        {topic: {0: one_batch(b"v"), 7: one_batch(b"v"), 1: None}, "nope": {0: one_batch(b"v")}}
    )
    answer = await client.receive_produce(sent)
    found = {
        (name, result.index): result.error_code
        for name, _, results in answer.topics
        for result in results
    }
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found == {
        (topic, 0): 0,
        (topic, 7): unknown,
        (topic, 1): ErrorCode.INVALID_RECORD,
        ("nope", 0): unknown,
    }


async def test_a_batch_that_is_refused_says_why(client: WireClient, topic: str) -> None:
    damaged = one_batch(b"v")
    damaged[-1] ^= 1
    result = await client.produce(topic, damaged)
    assert result.error_code == ErrorCode.CORRUPT_MESSAGE
    assert result.error_message
    assert (await client.produce(topic, one_batch(b"v"), acks=5)).error_code == (
        ErrorCode.INVALID_REQUIRED_ACKS
    )
    transactional = one_batch(
        b"v", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
    )
    result = await client.produce(topic, transactional)
    assert result.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def test_nobody_but_coordinators_writes_to_internal_topics(
    broker: MemoryBroker, client: WireClient
) -> None:
    await broker.parts.groups.topic.create()
    result = await client.produce("__consumer_offsets", one_batch(b"v"))
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_without_acks_a_success_is_silent_and_a_failure_closes(
    broker: MemoryBroker, client: WireClient, topic: str
) -> None:
    client.send_produce({topic: {0: one_batch(b"v")}}, acks=0)
    assert (await client.produce(topic, one_batch(b"w"))).base_offset == 1
    client.send_produce({"nope": {0: one_batch(b"v")}}, acks=0)
    with pytest.raises(ConnectionClosedError):
        await client.read_frame()


async def test_acks_all_waits_for_the_followers_and_holds_nobody_up(
    broker: MemoryBroker, client: WireClient, topic: str
) -> None:
    partition = await replicated(broker)
    sent = client.send_produce({"r": {0: one_batch(b"v")}})
    other = await broker.connect()
    assert (await other.produce("r", one_batch(b"w"), acks=1)).base_offset == 1
    assert partition.high_watermark == 0
    partition.read(2, 1 << 20, follower_id=ELSEWHERE)
    answer = await client.receive_produce(sent)
    ((_, _, (result,)),) = answer.topics
    assert (result.error_code, result.base_offset) == (0, 0)


async def test_acks_all_gives_up_when_its_time_is_over(
    broker: MemoryBroker, client: WireClient
) -> None:
    await replicated(broker)
    sent = client.send_produce({"r": {0: one_batch(b"v")}}, timeout_ms=300)
    await broker.settle()
    broker.clock.advance(0.3)
    ((_, _, (result,)),) = (await client.receive_produce(sent)).topics
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_a_parked_answer_keeps_nothing_of_the_connections_buffer(
    broker: MemoryBroker, client: WireClient
) -> None:
    partition = await replicated(broker)
    sent = client.send_produce({"r": {0: one_batch(b"v")}})
    await broker.settle()
    (waiter,) = partition._append_waiters
    assert partition.parked == 1
    del waiter
    # The memory of the request is read into again while it waits.
    assert (await (await broker.connect()).produce("r", one_batch(b"x" * 50), acks=1)).index == 0
    partition.read(2, 1 << 20, follower_id=ELSEWHERE)
    ((name, _, (result,)),) = (await client.receive_produce(sent)).topics
    assert (name, result.index, result.error_code) == ("r", 0, 0)


async def test_a_client_that_leaves_takes_its_parked_requests_along(
    broker: MemoryBroker, client: WireClient
) -> None:
    partition = await replicated(broker)
    client.send_produce({"r": {0: one_batch(b"v")}})
    client.send_produce({"r": {0: one_batch(b"w")}})
    await broker.settle()
    assert partition.parked == 2
    await client.close()
    await broker.settle()
    assert partition.parked == 0


@pytest.mark.parametrize("broker", [{"log.flush.interval.messages": "1"}], indirect=True)
async def test_where_every_message_is_flushed_the_answer_waits_for_the_disk(
    broker: MemoryBroker, client: WireClient, topic: str
) -> None:
    result = await client.produce(topic, one_batch(b"v"))
    assert (result.error_code, result.base_offset) == (0, 0)
    assert broker.partition(topic).log.recovery_point == 1


@pytest.mark.parametrize("broker", [{"log.flush.interval.messages": "1"}], indirect=True)
async def test_a_flush_that_fails_for_lack_of_room_is_answered_without_waiting_for_more(
    broker: MemoryBroker, client: WireClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def flush(_log: PartitionLog) -> None:
        raise StorageError("no space left on device")

    monkeypatch.setattr(broker.parts.logs, "flush", flush)
    broker.partition(topic).log.observe(None)  # nobody else flushes either
    result = await asyncio.wait_for(client.produce(topic, one_batch(b"v"), acks=-1), 60)
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR


# Produce with so many partitions that it goes to a thread ----------------------------------------


@pytest.fixture
def large(broker: MemoryBroker) -> None:
    """Every append is a large one."""
    broker.router._most_elements = 1


@pytest.mark.usefixtures("large")
async def test_a_large_append_does_not_hold_up_the_next_one_either(
    broker: MemoryBroker, client: WireClient
) -> None:
    partition = await replicated(broker)
    sent = [client.send_produce({"r": {0: one_batch(value)}}) for value in (b"v", b"w")]
    await eventually(lambda: partition.parked == 2)
    partition.read(2, 1 << 20, follower_id=ELSEWHERE)
    for offset, one in enumerate(sent):
        ((_, _, (result,)),) = (await client.receive_produce(one)).topics
        assert (result.error_code, result.base_offset) == (0, offset)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("broker", [{"log.flush.interval.messages": "1"}], indirect=True)
@pytest.mark.parametrize("leaves", ["before the flush", "during the flush", "after it"])
async def test_a_client_that_leaves_takes_its_large_append_along(
    broker: MemoryBroker, client: WireClient, leaves: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, flushed = asyncio.Event(), asyncio.Event()

    async def flush(_log: PartitionLog) -> None:
        begun.set()
        await flushed.wait()

    monkeypatch.setattr(broker.parts.logs, "flush", flush)
    partition = await replicated(broker)
    client.send_produce({"r": {0: one_batch(b"v")}}, timeout_ms=1_000_000)
    if leaves == "during the flush":
        await begun.wait()
    elif leaves == "after it":
        flushed.set()
        await eventually(lambda: partition.parked == 1)
    await client.close()
    await broker.settle()
    flushed.set()
    await broker.settle()
    assert partition.parked == 0


# Fetch -------------------------------------------------------------------------------------------

# What decompresses to much is looked at in a thread ----------------------------------------------

LARGE = bytes(3 * 1024 * 1024)


def compressed(value: bytes, **fields: Any) -> bytearray:
    return one_batch(value, compression=Compression.ZSTD, **fields)


async def test_a_batch_that_takes_long_keeps_its_place(
    broker: MemoryBroker, client: WireClient, topic: str
) -> None:
    sent = [
        client.send_produce({topic: {0: batch}})
        for batch in (
            compressed(b"0", producer_id=5, producer_epoch=0, base_sequence=0),
            compressed(b"1" + LARGE, producer_id=5, producer_epoch=0, base_sequence=1),
            one_batch(b"2", producer_id=5, producer_epoch=0, base_sequence=2),
        )
    ]
    other = await broker.connect()
    assert (await other.produce(topic, one_batch(b"x"), partition=1)).error_code == 0
    offsets = []
    for one in sent:
        ((_, _, (result,)),) = (await client.receive_produce(one)).topics
        offsets.append((result.error_code, result.base_offset))
    assert offsets == [(0, 0), (0, 1), (0, 2)]
    values = values_of(await client.fetch(topic, max_bytes=1 << 25))
    assert [(value or b"")[:1] for value in values] == [b"0", b"1", b"2"]


@pytest.mark.parametrize(("size", "takes_turns"), [(100_000, False), (200_000, True)])
async def test_pipelined_requests_take_turns_with_others_by_what_they_decompress(
    broker: MemoryBroker, client: WireClient, topic: str, size: int, takes_turns: bool
) -> None:
    partition = broker.partition(topic)
    loop = asyncio.get_running_loop()
    ends = [0]

    def watch() -> None:
        """Look at the log in each turn of the event loop."""
        ends.append(partition.log.log_end_offset)
        if ends[-1] < 8:
            loop.call_soon(watch)

    watch()
    records = [(topic, None, [(0, compressed(bytes(size)))])]
    request = encode_produce_request(12, 1, CLIENT_ID, None, 1, 1000, records)
    client.write(8 * b"".join(map(bytes, request)))
    await eventually(lambda: ends[-1] == 8)
    most = max(after - before for before, after in pairwise(ends))
    assert (most == 1) is takes_turns


async def test_its_memory_is_its_own_while_it_waits(
    broker: MemoryBroker, client: WireClient, topic: str
) -> None:
    sent = client.send_produce({topic: {0: compressed(LARGE), 1: one_batch(b"at once")}})
    other = await broker.connect()
    for _ in range(3):
        await other.produce(topic, one_batch(b"x" * 500), partition=1)
    ((name, _, results),) = (await client.receive_produce(sent)).topics
    assert name == topic
    assert [(result.index, result.error_code) for result in results] == [(0, 0), (1, 0)]
    assert values_of(await client.fetch(topic, max_bytes=1 << 25)) == [LARGE]


@pytest.mark.parametrize("most_elements", [1000, 10], ids=["at once", "in pieces"])
async def test_none_is_refused_for_the_others_in_its_request(
    broker: MemoryBroker, client: WireClient, most_elements: int
) -> None:
    """Each may hold 32 MiB; together they hold more."""
    broker.router._most_elements = most_elements
    await client.create_topic("wide", 40)
    batch = compressed(bytes(1_000_000))
    sent = client.send_produce({"wide": {index: bytearray(batch) for index in range(40)}})
    ((_, _, results),) = (await client.receive_produce(sent)).topics
    assert [(result.index, result.error_code) for result in results] == [(i, 0) for i in range(40)]


async def test_without_acks_it_is_stored_and_not_answered(client: WireClient, topic: str) -> None:
    client.send_produce({topic: {0: compressed(LARGE)}}, acks=0)
    assert (await client.produce(topic, one_batch(b"loud"))).base_offset == 1


async def test_with_acks_of_all_it_waits_for_the_followers_then(
    broker: MemoryBroker, client: WireClient
) -> None:
    partition = await replicated(broker)
    sent = client.send_produce({"r": {0: compressed(LARGE)}})
    await eventually(lambda: partition.parked == 1)
    partition.read(1, 1 << 20, follower_id=ELSEWHERE)
    ((_, _, (result,)),) = (await client.receive_produce(sent)).topics
    assert (result.error_code, result.base_offset) == (0, 0)


async def test_the_next_append_does_not_wait_for_its_followers(
    broker: MemoryBroker, client: WireClient
) -> None:
    partition = await replicated(broker)
    sent = [
        client.send_produce({"r": {0: batch}}) for batch in (compressed(LARGE), one_batch(b"v"))
    ]
    await eventually(lambda: partition.parked == 2)
    partition.read(2, 1 << 20, follower_id=ELSEWHERE)
    for offset, one in enumerate(sent):
        ((_, _, (result,)),) = (await client.receive_produce(one)).topics
        assert (result.error_code, result.base_offset) == (0, offset)


async def test_its_append_time_is_that_of_its_append(
    broker: MemoryBroker, client: WireClient
) -> None:
    await client.create_topic("timed", 1, configs={"message.timestamp.type": "LogAppendTime"})
    running = len(broker.parts.tasks._running)
    places = broker.parts.long_checks._places
    async with places, places:
        sent = client.send_produce({"timed": {0: compressed(LARGE)}})
        await eventually(lambda: len(broker.parts.tasks._running) > running)
        await broker.settle()
        broker.clock.advance(5)
    ((_, _, (result,)),) = (await client.receive_produce(sent)).topics
    assert (result.error_code, result.log_append_time_ms) == (0, broker.clock.now_ms())


async def test_nothing_is_left_of_it_when_its_client_leaves_before_the_followers_came(
    broker: MemoryBroker, client: WireClient
) -> None:
    partition = await replicated(broker)
    running = len(broker.parts.tasks._running)
    client.send_produce({"r": {0: compressed(LARGE)}})
    await eventually(lambda: partition.parked == 1)
    await client.close()
    await eventually(lambda: partition.parked == 0)
    assert len(broker.parts.tasks._running) == running


async def test_nothing_is_left_of_it_when_its_client_leaves_before_it_was_looked_at(
    broker: MemoryBroker, client: WireClient
) -> None:
    partition = await replicated(broker)
    running = len(broker.parts.tasks._running)
    places = broker.parts.long_checks._places
    memory = broker.parts.request_memory
    async with places, places:
        client.send_produce({"r": {0: compressed(LARGE)}})
        await eventually(lambda: len(broker.parts.tasks._running) > running)
        assert memory.used == len(compressed(LARGE))
        await client.close()
        await eventually(lambda: not any(one.connections for one in broker.parts.listeners))
    await eventually(lambda: len(broker.parts.tasks._running) == running)
    assert partition.log.log_end_offset == 1
    assert partition.parked == 0
    assert memory.used == 0


async def test_what_is_wrong_with_it_is_told(client: WireClient, topic: str) -> None:
    bomb = compressed(bytes(40 * 1024 * 1024))
    result = await client.produce(topic, bomb)
    assert result.error_code == ErrorCode.MESSAGE_TOO_LARGE
    lying = relabelled(compressed(LARGE), 2)
    assert (await client.produce(topic, lying)).error_code == ErrorCode.INVALID_RECORD


async def test_what_is_there_is_answered_at_once(client: WireClient, topic: str) -> None:
    await client.produce(topic, one_batch(b"v", b"w"))
    fetched = await client.fetch(topic, max_wait_ms=60_000)
    assert values_of(fetched) == [b"v", b"w"]
    assert fetched.high_watermark == 2


async def test_a_fetch_waits_until_enough_is_there(
    broker: MemoryBroker, client: WireClient, topic: str
) -> None:
    sent = client.send_fetch({topic: {0: 0, 1: 0}}, max_wait_ms=60_000, min_bytes=150)
    await broker.settle()
    other = await broker.connect()
    await other.produce(topic, one_batch(b"v"))
    await broker.settle()
    assert broker.partition(topic).parked == 1
    await other.produce(topic, one_batch(b"w" * 50), partition=1)
    answer = await client.receive_fetch(sent)
    read = {partition.partition: values_of(partition) for _, partition in flatten(answer)}
    assert read == {0: [b"v"], 1: [b"w" * 50]}


async def test_a_fetch_that_waited_long_enough_is_answered_with_what_there_is(
    broker: MemoryBroker, client: WireClient, topic: str
) -> None:
    sent = client.send_fetch({topic: {0: 0}}, max_wait_ms=500)
    await broker.settle()
    broker.clock.advance(0.5)
    ((_, partition),) = flatten(await client.receive_fetch(sent))
    assert (partition.error_code, values_of(partition)) == (0, [])


async def test_an_error_ends_the_wait_and_an_unknown_topic_does_not(
    broker: MemoryBroker, client: WireClient, topic: str
) -> None:
    answer = await client.fetch_all({topic: {0: 99, 1: 0}}, max_wait_ms=60_000)
    codes = {p.partition: p.error_code for _, p in flatten(answer)}
    assert codes == {0: ErrorCode.OFFSET_OUT_OF_RANGE, 1: 0}
    sent = client.send_fetch({topic: {0: 0}, "nope": {0: 0}}, max_wait_ms=60_000)
    await broker.settle()
    assert broker.partition(topic).parked == 1
    await (await broker.connect()).produce(topic, one_batch(b"v"))
    answer = await client.receive_fetch(sent)
    assert [p.error_code for _, p in flatten(answer)] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_a_session_tells_only_what_is_new(client: WireClient, topic: str) -> None:
    first = await client.fetch_all({topic: {0: 0, 1: 0}}, session_epoch=0)
    assert first.session_id > 0
    step = {"session_id": first.session_id, "session_epoch": 1}
    assert list(flatten(await client.fetch_all({}, **step))) == []
    await client.produce(topic, one_batch(b"v"), partition=1)
    step["session_epoch"] = 2
    ((_, partition),) = flatten(await client.fetch_all({}, **step))
    assert (partition.partition, values_of(partition)) == (1, [b"v"])
    wrong = await client.fetch_all({}, **step)
    assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


async def test_a_reader_of_another_epoch_is_told_so(client: WireClient, topic: str) -> None:
    newer = FetchPartition(0, 9, 0, -1, -1, 1 << 20)
    assert (await client.fetch(topic, newer)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


# Very many partitions ----------------------------------------------------------------------------

MANY = 3 * LARGE_FETCH


def unknown(count: int = MANY) -> dict[int, int]:
    return dict.fromkeys(range(2, 2 + count), 0)


async def test_a_fetch_of_very_many_partitions_answers_each(client: WireClient, topic: str) -> None:
    await client.produce(topic, one_batch(b"v"), partition=1)
    answer = await client.fetch_all({"nope": unknown(), topic: {1: 0, 0: 0, **unknown()}})
    found = {(name, p.partition): p for name, p in flatten(answer)}
    assert list(found) == [("nope", i) for i in unknown()] + [
        (topic, i) for i in (1, 0, *unknown())
    ]
    assert values_of(found[topic, 1]) == [b"v"]
    assert found[topic, 0].error_code == 0
    for key in ((topic, MANY), ("nope", MANY)):
        assert found[key].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_steps_of_a_session_with_very_many_partitions(
    broker: MemoryBroker, client: WireClient, topic: str
) -> None:
    began = await client.fetch_all({topic: {0: 0, 1: 0, **unknown()}}, session_epoch=0)
    assert began.session_id
    assert broker.parts.fetch_sessions.partitions == MANY + 2
    await client.produce(topic, one_batch(b"v"))
    step = await client.fetch_all({}, session_id=began.session_id, session_epoch=1)
    found = {p.partition: p for _, p in flatten(step)}
    assert found.keys() == {0, *unknown()}, "news, and errors"
    assert values_of(found[0]) == [b"v"]
    last = await client.fetch_all({topic: {0: 1}}, session_id=began.session_id, session_epoch=2)
    assert 1 not in {p.partition for _, p in flatten(last)}


async def test_a_fetch_of_very_many_partitions_waits_until_enough_is_there(
    broker: MemoryBroker, client: WireClient, topic: str
) -> None:
    reader = await broker.connect()
    partition = broker.partition(topic)
    sessions = broker.parts.fetch_sessions
    wanted = {0: 0, 1: 0, **unknown()}
    sent = reader.send_fetch({topic: wanted}, max_wait_ms=60_000, min_bytes=150)
    await eventually(lambda: partition.parked == 1)
    assert sessions.waiting == MANY + 2
    await client.produce(topic, one_batch(b"a"))
    await broker.settle()
    assert partition.parked == 1, "not enough"
    await client.produce(topic, one_batch(b"b"), partition=1)
    await client.produce(topic, one_batch(b"c"))
    answer = await reader.receive_fetch(sent)
    found = {p.partition: p for _, p in flatten(answer)}
    assert values_of(found[0]) == [b"a", b"c"]
    assert values_of(found[1]) == [b"b"]
    assert len(found) == MANY + 2
    await eventually(lambda: (partition.parked, sessions.waiting) == (0, 0))


async def test_a_fetch_of_very_many_partitions_is_answered_when_its_time_is_over(
    broker: MemoryBroker, topic: str
) -> None:
    reader = await broker.connect()
    partition = broker.partition(topic)
    sent = reader.send_fetch({topic: {0: 0, **unknown()}}, max_wait_ms=500)
    await eventually(lambda: partition.parked == 1)
    broker.clock.advance(0.5)
    answer = await reader.receive_fetch(sent)
    assert len(list(flatten(answer))) == MANY + 1
    assert partition.parked == 0


async def test_a_client_that_leaves_takes_a_fetch_of_very_many_partitions_along(
    broker: MemoryBroker, topic: str
) -> None:
    reader = await broker.connect()
    partition, sessions = broker.partition(topic), broker.parts.fetch_sessions
    reader.send_fetch({topic: {0: 0, **unknown()}}, max_wait_ms=60_000)
    await eventually(lambda: partition.parked == 1)
    await reader.close()
    await eventually(lambda: (partition.parked, sessions.waiting) == (0, 0))


async def test_a_client_that_leaves_gets_no_session_of_very_many_partitions(
    broker: MemoryBroker, topic: str
) -> None:
    reader = await broker.connect()
    partition, sessions = broker.partition(topic), broker.parts.fetch_sessions
    reader.send_fetch({topic: {0: 0, **unknown()}}, max_wait_ms=60_000, session_epoch=0)
    await eventually(lambda: partition.parked == 1)
    await reader.close()
    await eventually(lambda: (partition.parked, sessions.waiting) == (0, 0))
    await broker.settle()
    assert (len(sessions), sessions.partitions) == (0, 0)


async def test_the_partitions_of_a_session_that_ends_are_freed_some_at_a_time(
    broker: MemoryBroker, client: WireClient, topic: str
) -> None:
    began = await client.fetch_all({topic: {0: 0, **unknown()}}, session_epoch=0)
    sessions = broker.parts.fetch_sessions
    partitions = sessions._sessions[began.session_id].partitions
    await client.fetch_all({topic: {0: 0}}, session_id=began.session_id, session_epoch=-1)
    assert sessions.partitions == 0
    await eventually(lambda: not partitions)
    assert not sessions.discarded


def more_timers(broker: MemoryBroker, before: int) -> bool:
    return broker.clock.pending > before


async def test_a_fetch_waits_only_if_there_is_room(
    broker: MemoryBroker, client: WireClient, topic: str
) -> None:
    sessions = broker.parts.fetch_sessions
    reader = await broker.connect()
    sent = reader.send_fetch({topic: {0: 0}}, max_wait_ms=60_000)
    await eventually(lambda: sessions.waiting == 1)
    others = [sessions.wait(LARGE_FETCH) for _ in range(MOST_WAITING // LARGE_FETCH - 1)]
    rest = sessions.wait(LARGE_FETCH - 1)
    assert rest is not None
    for wanted in ({0: 0}, {0: 0, **unknown()}):
        timers = broker.clock.pending
        late = client.send_fetch({topic: wanted}, max_wait_ms=60_000)
        await eventually(partial(more_timers, broker, timers))
        broker.clock.advance(WITHOUT_PLACE_S)
        answer = await client.receive_fetch(late)
        assert len(list(flatten(answer))) == len(wanted), "it did not wait for long"
    await client.produce(topic, one_batch(b"v"))
    ((_, fetched),) = flatten(await reader.receive_fetch(sent))
    assert values_of(fetched) == [b"v"]
    for other in (*others, rest):
        assert other is not None
        other.end()
    assert sessions.waiting == 0


async def test_nobody_waits_for_a_topic_that_cannot_exist(client: WireClient, topic: str) -> None:
    answer = await client.fetch_all({topic: {0: 0}, "x" * 250: {0: 0}}, max_wait_ms=60_000)
    assert [name for name, _ in flatten(answer)] == [topic, "x" * 250]
