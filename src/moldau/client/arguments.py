"""Arguments of users, checked: to Python, a string is a list of strings, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from moldau.model import TopicPartition

T = TypeVar("T")


def names(argument: Any, what: str) -> list[str]:
    """Names of topics or groups; ``what`` is the method that takes them."""
    if isinstance(argument, str):
        raise TypeError(f"{what} takes a list of names; this is one string")
    checked = list(argument)
    for name in checked:
        if not isinstance(name, str):
            raise TypeError(f"{what} takes names; {name!r} is none")
    return checked


def partition(argument: Any) -> TopicPartition:
    """A partition, also as a plain pair."""
    if isinstance(argument, tuple) and len(argument) == 2:
        topic, number = argument
        if isinstance(topic, str) and isinstance(number, int):
            return TopicPartition(topic, number)
    raise TypeError(f"a TopicPartition is needed, not {argument!r}")


def partitions(argument: Any, what: str) -> list[TopicPartition]:
    if isinstance(argument, str | TopicPartition):
        raise TypeError(f"{what} takes a list of TopicPartitions, not {argument!r}")
    return [partition(item) for item in argument]


def by_partition(argument: Mapping[TopicPartition, T], what: str) -> dict[TopicPartition, T]:
    if not isinstance(argument, Mapping):
        raise TypeError(f"{what} takes a mapping from TopicPartitions, not {argument!r}")
    return {partition(key): value for key, value in argument.items()}
