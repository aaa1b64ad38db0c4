"""Requests that are executed in pieces get the answers that they get in one go."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.costly_requests import modest_requests
from tests.support.memory_broker import MemoryBroker
from tests.support.wire import ConnectionClosedError, build

from moldau.broker import large_requests, turns
from moldau.broker.apis import APIS
from moldau.broker.large_requests import MOST_ELEMENTS, LargeRequests
from moldau.broker.pieces import distinct, has_more_elements, join, split, together
from moldau.wire.api import SERVED, ApiKey
from moldau.wire.messages import decode_response, newest_class

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
    assert len(large) >= len(in_pieces)
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
