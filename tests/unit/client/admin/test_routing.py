"""Requests about many items: grouped by broker, repeated only for those that may still succeed."""

from __future__ import annotations

from collections.abc import Collection
from random import Random

from moldau.client.backoff import Backoff
from moldau.client.errors import ConnectionLostError
from moldau.client.routing import ask_each, by_topic
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition


class Brokers:
    """Two brokers; each item belongs to one, and may move."""

    def __init__(self) -> None:
        self.home = {"a": 1, "b": 2, "c": 1}
        self.asked: list[tuple[int, list[str]]] = []

    async def locate(self, items: Collection[str]) -> dict[str, int | KafkaError]:
        return {item: self.home[item] for item in items}


async def test_each_broker_is_asked_once_for_all_of_its_items() -> None:
    brokers = Brokers()

    async def ask(node: int, wanted: dict[str, int]) -> dict[str, object]:
        brokers.asked.append((node, sorted(wanted)))
        return {item: value * 10 for item, value in wanted.items()}

    found = await ask_each({"c": 3, "a": 1, "b": 2}, brokers.locate, ask, Backoff(Random(1), 60))
    assert found == {"c": 30, "a": 10, "b": 20}
    assert list(found) == ["c", "a", "b"]
    assert sorted(brokers.asked) == [(1, ["a", "c"]), (2, ["b"])]


async def test_what_has_moved_is_asked_again_at_its_new_place() -> None:
    brokers = Brokers()

    async def ask(node: int, wanted: dict[str, None]) -> dict[str, object]:
        brokers.asked.append((node, sorted(wanted)))
        if node == 2:
            brokers.home["b"] = 1
            return {"b": KafkaError(ErrorCode.NOT_COORDINATOR)}
        return dict.fromkeys(wanted, node)

    found = await ask_each(dict.fromkeys("abc"), brokers.locate, ask, Backoff(Random(1), 60))
    assert found == {"a": 1, "b": 1, "c": 1}
    assert brokers.asked[2:] == [(1, ["b"])]


async def test_an_error_that_stays_is_the_answer() -> None:
    brokers = Brokers()

    async def ask(node: int, wanted: dict[str, None]) -> dict[str, object]:
        brokers.asked.append((node, sorted(wanted)))
        return dict.fromkeys(wanted, KafkaError(ErrorCode.GROUP_ID_NOT_FOUND))

    found = await ask_each({"b": None}, brokers.locate, ask, Backoff(Random(1), 60))
    assert found["b"].code == ErrorCode.GROUP_ID_NOT_FOUND
    assert len(brokers.asked) == 1


async def test_a_lost_connection_costs_another_attempt_of_all_items() -> None:
    brokers = Brokers()

    async def locate(items: Collection[str]) -> dict[str, int | KafkaError]:
        if not brokers.asked:
            brokers.asked.append((0, []))
            raise ConnectionLostError("gone")
        return await brokers.locate(items)

    async def ask(node: int, wanted: dict[str, None]) -> dict[str, object]:
        return dict.fromkeys(wanted, node)

    assert await ask_each({"a": None, "b": None}, locate, ask, Backoff(Random(1), 60)) == {
        "a": 1,
        "b": 2,
    }


async def test_time_ends_the_attempts_with_the_last_error() -> None:
    async def locate(items: Collection[str]) -> dict[str, int | KafkaError]:
        return dict.fromkeys(items, KafkaError(ErrorCode.LEADER_NOT_AVAILABLE))

    async def ask(node: int, wanted: dict[str, None]) -> dict[str, object]:
        raise AssertionError("nobody to ask")

    found = await ask_each({"a": None}, locate, ask, Backoff(Random(1), 0.2))
    assert found["a"].code == ErrorCode.LEADER_NOT_AVAILABLE


def test_partitions_by_topic() -> None:
    wanted = {TopicPartition("a", 1): "x", TopicPartition("b", 0): "y", TopicPartition("a", 0): "z"}
    assert by_topic(wanted) == {"a": {1: "x", 0: "z"}, "b": {0: "y"}}
