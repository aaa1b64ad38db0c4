"""What callers give, checked: to Python, a string is a list of strings, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from moldau.model import TopicPartition

T = TypeVar("T")


def names(given: Any, what: str) -> list[str]:
    """Names of topics or groups; ``what`` is the method that takes them."""
    if isinstance(given, str):
        raise TypeError(f"{what} takes a list of names; this is one string")
    found = list(given)
    for name in found:
        if not isinstance(name, str):
            raise TypeError(f"{what} takes names; {name!r} is none")
    return found


def partition(given: Any) -> TopicPartition:
    """A partition, also as a plain pair."""
    if isinstance(given, tuple) and len(given) == 2:
        topic, number = given
        if isinstance(topic, str) and isinstance(number, int):
            return TopicPartition(topic, number)
    raise TypeError(f"a TopicPartition is needed, not {given!r}")


def partitions(given: Any, what: str) -> list[TopicPartition]:
    if isinstance(given, str | TopicPartition):
        raise TypeError(f"{what} takes a list of TopicPartitions, not {given!r}")
    return [partition(one) for one in given]


def by_partition(given: Mapping[TopicPartition, T], what: str) -> dict[TopicPartition, T]:
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} takes a mapping from TopicPartitions, not {given!r}")
    return {partition(one): value for one, value in given.items()}
