"""Requests that are executed in pieces get the answers that they get in one go."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.costly_requests import modest_requests
from tests.support.memory_broker import MemoryBroker, replace_handler
from tests.support.wire import ConnectionClosedError, build

from moldau.broker import large_requests, turns
from moldau.broker.apis import APIS
from moldau.broker.large_requests import AT_ONCE, MOST_ELEMENTS, LargeRequests
from moldau.broker.pieces import distinct, has_more_elements, join, split, together
from moldau.broker.request import Request
from moldau.errors import ErrorCode
from moldau.wire.api import SERVED, ApiKey
from moldau.wire.messages import decode_response, encode_request, newest_class
from moldau.wire.primitives import MAX_TEXT_LENGTH, uvarint

ELEMENTS = 12
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "auto.create.topics.enable": "false",
}
OTHER_ANSWERS = {
    # They have ids that are drawn.
    ApiKey.JOIN_GROUP,
    ApiKey.CREATE_TOPICS,
    # A replica that is sent to several directories goes to one after the other, and each is told.
    ApiKey.ALTER_REPLICA_LOG_DIRS,
}

LIST_OFFSETS = newest_class(ApiKey.LIST_OFFSETS, "request")
PATH = ("topics", "partitions")

Topics = list[tuple[str, list[int]]]
topics = st.lists(
    st.tuples(st.sampled_from("abc"), st.lists(st.integers(0, 5), max_size=6)), max_size=6
)


async def answers(api: ApiKey, most_elements: int) -> list[tuple[str, bytes | None]]:
    """The answers of a fresh broker to some requests; None where it closes the connection."""
    async with MemoryBroker(SETTINGS) as broker:
        client = await broker.connect()
        broker.router._most_elements = most_elements
        topic_id = await client.create_topic("t", 3)
        await client.call(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
        found: list[tuple[str, bytes | None]] = []
        for request in modest_requests(api, SERVED[api].newest, topic_id, ELEMENTS):
            one = await broker.connect()
            one.write(request.frame)
            await broker.settle()
            try:
                found.append((str(request), await one.read_frame()))
            except ConnectionClosedError:
                found.append((str(request), None))
        return found


@pytest.mark.parametrize("api", sorted(APIS.keys() - OTHER_ANSWERS), ids=lambda api: api.name)
async def test_the_answer_is_the_same_in_pieces(
    api: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    large: list[int] = []
    keep = LargeRequests.keep

    def counting(requests: LargeRequests, frame: memoryview) -> memoryview:
        large.append(len(frame))
        return keep(requests, frame)

    monkeypatch.setattr(LargeRequests, "keep", counting)
    whole = await answers(api, MOST_ELEMENTS)
    assert not large
    monkeypatch.setattr(large_requests, "ITEMS_PER_TURN", 5)
    monkeypatch.setattr(turns, "ITEMS_PER_TURN", 5)
    in_pieces = await answers(api, ELEMENTS // 2)
    assert large or not in_pieces
    for (request, expected), (_, answer) in zip(whole, in_pieces, strict=True):
        if expected is None or answer is None:
            assert answer == expected, request
            continue
        assert said(api, answer) == said(api, expected), request
        if request.endswith("different"):  # in another order, perhaps
            assert len(answer) == len(expected), request


def said(api: ApiKey, frame: bytes) -> object:
    """An answer without what it says twice."""
    _, response = decode_response(api, SERVED[api].newest, frame)
    return _said(response)


def _said(value: Any) -> object:
    if isinstance(value, tuple):
        return frozenset(map(_said, value))
    if not is_dataclass(value):
        return value
    return tuple((field.name, _said(getattr(value, field.name))) for field in fields(value))


def request_for(wanted: Topics) -> Any:
    return build(
        LIST_OFFSETS,
        {
            "topics": [
                {"name": name, "partitions": [{"partition_index": index} for index in indexes]}
                for name, indexes in wanted
            ]
        },
    )


def items(message: Any) -> list[tuple[str, int]]:
    return [
        (topic.name, one.partition_index) for topic in message.topics for one in topic.partitions
    ]


LONG = "placeholder"


@pytest.mark.parametrize(
    ("api", "size", "fields"),
    [
        (
            api,
            size,
            {
                "resources": [
                    {
                        "resource_type": 2,
                        "resource_name": LONG if which == "resource" else "t",
                        "configs": [
                            {
                                "name": LONG if which == "name" else "retention.ms",
                                "value": LONG if which == "value" else "1",
                            }
                        ],
                    }
                ]
            },
        )
        for api in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)
        for which, size in (("resource", 10_000_000), ("name", 10_000_000), ("value", 14_000_000))
    ]
    + [
        (ApiKey.JOIN_GROUP, 10_000_000, {"group_id": LONG}),
        (ApiKey.JOIN_GROUP, 10_000_000, {"group_id": "g", "group_instance_id": LONG}),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 10_000_000, {"group_id": "g", "member_id": LONG}),
        (ApiKey.OFFSET_COMMIT, 10_000_000, {"group_id": LONG}),
        (ApiKey.CREATE_TOPICS, 10_000_000, {"topics": [{"name": LONG}]}),
        (ApiKey.ALTER_CLIENT_QUOTAS, 10_000_000, {"entries": [{"ops": [{"key": LONG}]}]}),
    ],
)
async def test_long_strings_are_refused(
    broker: MemoryBroker, api: ApiKey, size: int, fields: dict[str, Any]
) -> None:
    """Longer ones than Kafka's strings can be, which the compact encoding could carry."""
    version = SERVED[api].newest
    frame = encode_request(api, version, 1, "c", build(newest_class(api, "request"), fields))
    short = uvarint(len(LONG) + 1) + LONG.encode()
    assert frame.count(short) == 1
    for length, is_refused in ((MAX_TEXT_LENGTH, False), (MAX_TEXT_LENGTH + 1, True), (size, True)):
        long = frame[4:].replace(short, uvarint(length + 1) + b"a" * length)
        client = await broker.connect()
        client.write(len(long).to_bytes(4, "big") + long)
        if is_refused:
            with pytest.raises(ConnectionClosedError):
                await client.read_frame()
        else:
            assert await client.read_frame()


def test_what_is_in_items_counts_for_the_size_of_a_piece() -> None:
    inner = [{"broker_ids": [1]}] * 10
    message = build(
        newest_class(ApiKey.CREATE_PARTITIONS, "request"),
        {"topics": [{"name": f"t{number}", "assignments": inner} for number in range(9)]},
    )
    pieces = list(split(message, ("topics",), 50))
    assert [len(piece.topics) for piece in pieces] == [2, 2, 2, 2, 1], "21 elements each"
    assert tuple(topic for piece in pieces for topic in piece.topics) == message.topics


@given(topics, st.integers(1, 8))
def test_pieces_hold_every_item_in_its_order(wanted: Topics, most: int) -> None:
    message = request_for(wanted)
    pieces = list(split(message, PATH, most))
    assert [item for piece in pieces for item in items(piece)] == items(message)
    assert [topic.name for piece in pieces for topic in piece.topics if not topic.partitions] == [
        name for name, indexes in wanted if not indexes
    ]
    for piece in pieces:
        weight = len(piece.topics) + len(items(piece))
        assert weight <= most or len(items(piece)) <= 1 or len(piece.topics) == 1
    assert items(join(pieces, PATH)) == items(message)


@given(topics)
def test_of_what_is_there_twice_the_first_stays(wanted: Topics) -> None:
    message = request_for(wanted)
    kept = distinct(message, PATH)
    assert items(kept) == list(dict.fromkeys(items(message)))
    assert {topic.name for topic in kept.topics} == {name for name, _ in wanted}


@given(topics, st.integers(1, 8))
def test_what_is_named_twice_comes_into_one_piece(wanted: Topics, most: int) -> None:
    message = together(request_for(wanted), PATH)
    before, after = Counter(items(request_for(wanted))), Counter(items(message))
    assert after == {item: min(number, 2) for item, number in before.items()}
    assert {topic.name for topic in message.topics} == {name for name, _ in wanted}
    for item in before:
        assert sum(item in items(piece) for piece in split(message, PATH, most)) == 1


@given(topics, st.integers(0, 50))
def test_elements_are_counted_in_all_arrays(wanted: Topics, most: int) -> None:
    message = request_for(wanted)
    number = len(message.topics) + len(items(message))
    assert has_more_elements(message, most) == (number > most)


# What goes on beside them -------------------------------------------------------------------------

MANY = MOST_ELEMENTS + 500


@pytest.fixture
async def broker() -> AsyncIterator[MemoryBroker]:
    async with MemoryBroker(SETTINGS) as broker:
        yield broker


async def test_long_polls_keep_nobody_from_large_requests(broker: MemoryBroker) -> None:
    """Neither while they wait nor after their clients have gone."""
    client = await broker.connect()
    await client.create_topic("t", MANY)
    polls = [await broker.connect() for _ in range(AT_ONCE + 2)]
    for poll in polls:
        wanted = dict.fromkeys(range(MANY), 0)
        poll.send_fetch({"t": wanted}, max_wait_ms=1 << 30, min_bytes=1 << 30)
    await broker.settle()
    assert broker.partition("t").parked == len(polls)
    topics = [{"name": "t", "partitions": [{"partition_index": n} for n in range(MANY)]}]
    answer = await client.call(ApiKey.LIST_OFFSETS, topics=topics)
    assert len(answer.topics[0].partitions) == MANY
    for poll in polls[::2]:
        await poll.close()
    await broker.settle()
    assert broker.partition("t").parked == len(polls[1::2])
    assert gc.get_threshold()[2] < 1000


async def test_large_requests_take_memory_until_they_are_executed(broker: MemoryBroker) -> None:
    """Those whose clients have gone are not."""
    handled = 0

    def count(request: Request[Any]) -> Any:
        nonlocal handled
        handled += 1
        return list_offsets(request)

    list_offsets = replace_handler(broker.router, ApiKey.LIST_OFFSETS, count)
    memory, places = broker.parts.request_memory, broker.router._large._places
    clients = [await broker.connect() for _ in range(2)]
    for _ in range(AT_ONCE):
        await places.acquire()
    topics = [{"name": "t", "partitions": [{"partition_index": n} for n in range(MANY)]}]
    sent = [client.send(ApiKey.LIST_OFFSETS, topics=topics) for client in clients]
    await broker.settle()
    assert 2 * MANY < memory.used < 100 * MANY
    await clients[0].close()
    await broker.settle()
    for _ in range(AT_ONCE):
        places.release()
    answer = await clients[1].receive(ApiKey.LIST_OFFSETS, sent[1])
    assert len(answer.topics[0].partitions) == MANY
    assert handled == -(-MANY // turns.ITEMS_PER_TURN)
    await broker.settle()
    assert memory.used == 0
    assert places._value == AT_ONCE


async def test_what_waits_alone_may_be_larger_than_what_may_wait(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_requests, "MAX_WAITING_BYTES", 100)
    client, other = await broker.connect(), await broker.connect()
    places = broker.router._large._places
    for _ in range(AT_ONCE):
        await places.acquire()
    topics = [{"name": "t", "partitions": [{"partition_index": n} for n in range(MANY)]}]
    sent = client.send(ApiKey.LIST_OFFSETS, topics=topics)
    await broker.settle()
    with pytest.raises(ConnectionClosedError):
        await other.call(ApiKey.LIST_OFFSETS, topics=topics)
    for _ in range(AT_ONCE):
        places.release()
    assert await client.receive(ApiKey.LIST_OFFSETS, sent)


async def test_the_last_of_several_commits_of_a_partition_counts(broker: MemoryBroker) -> None:
    client = await broker.connect()
    await client.create_topic("t")
    await client.call(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
    offsets = {0: 1} | dict.fromkeys(range(1, MANY), 7)
    partitions = [
        {"partition_index": index, "committed_offset": offset}
        for index, offset in [*offsets.items(), (0, 2), (0, 3)]
    ]
    answer = await client.call(
        ApiKey.OFFSET_COMMIT,
        8,
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=[{"name": "t", "partitions": partitions}],
    )
    assert sum(len(topic.partitions) for topic in answer.topics) == MANY + 2
    wanted = {"group_id": "g", "topics": [{"name": "t", "partition_indexes": (0,)}]}
    found = await client.call(ApiKey.OFFSET_FETCH, 8, groups=[wanted])
    assert found.groups[0].topics[0].partitions[0].committed_offset == 3


async def test_large_fetches_count_against_quotas(broker: MemoryBroker) -> None:
    client = await broker.connect()
    await client.create_topic("t")
    entity = [{"entity_type": "client-id", "entity_name": "tests"}]
    rate = [{"key": "consumer_byte_rate", "value": 1e9}]
    await client.call(ApiKey.ALTER_CLIENT_QUOTAS, entries=[{"entity": entity, "ops": rate}])
    for _ in range(2):
        sent = client.send_fetch({"t": dict.fromkeys(range(MANY), 0)}, max_wait_ms=0)
        answer = await client.receive_fetch(sent)
        assert sum(len(partitions) for _, _, partitions in answer.topics) == MANY
    assert broker.parts.client_quotas.is_metering
    assert not broker.parts.client_quotas.has_failed


async def test_who_gives_up_is_told_of_every_item(broker: MemoryBroker) -> None:
    async def hang(_request: Request[Any]) -> None:
        await asyncio.Event().wait()

    client = await broker.connect()
    replace_handler(broker.router, ApiKey.CREATE_TOPICS, hang)
    names = [{"name": f"t{number}", "num_partitions": 1} for number in range(MANY)]
    sent = client.send(ApiKey.CREATE_TOPICS, topics=names, timeout=timedelta(seconds=5))
    await broker.settle()
    broker.clock.advance(6)
    await broker.settle()
    answer = await client.receive(ApiKey.CREATE_TOPICS, sent)
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.REQUEST_TIMED_OUT}
    assert len(answer.topics) == MANY


async def test_what_was_done_before_an_error_is_told_as_done(broker: MemoryBroker) -> None:
    client = await broker.connect()
    ops = [{"key": "consumer_byte_rate", "value": 1e9}]
    entries = [
        {"entity": [{"entity_type": "user", "entity_name": f"u{number}"}], "ops": ops}
        for number in range(MANY)
    ]
    parts = [{"entity_type": f"type {n}", "entity_name": "x"} for n in range(200)]
    answer = await client.call(
        ApiKey.ALTER_CLIENT_QUOTAS, entries=[*entries, {"entity": parts, "ops": ops}]
    )
    done = {one.entity[0].entity_name for one in answer.entries if not one.error_code}
    held = {quota.entity.as_dict()["user"] for quota in broker.parts.client_quotas.ordered()}
    assert done == held
    assert len(answer.entries) == MANY + 1
    assert len(done) >= MANY - turns.ITEMS_PER_TURN
    assert answer.entries[-1].error_code is ErrorCode.INVALID_REQUEST
