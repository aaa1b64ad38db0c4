"""Requests about many things that different brokers answer for: partitions, groups.

What is asked goes to each responsible broker in one request. Items whose broker has moved, or that
fail with another retriable error, are asked again after a pause, at the broker that is responsible
by then; the others are not. An item's answer is a value or the error that did not go away in time.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from typing import Any, TypeVar

from moldau.client.backoff import Backoff
from moldau.client.cluster import Cluster
from moldau.errors import KafkaError
from moldau.model import TopicPartition

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Locate = Callable[[Collection[K]], Awaitable[Mapping[K, int | KafkaError]]]
"""Items → the node that answers for each, or why nobody does now."""
Ask = Callable[[int, dict[K, V]], Awaitable[Mapping[K, Any]]]
"""Node id and what is asked by item → a value or a KafkaError by item."""


async def ask_each(
    wanted: Mapping[K, V], locate: Locate[K], ask: Ask[K, V], backoff: Backoff
) -> dict[K, Any]:
    """Every item's answer, in the order asked."""
    answers: dict[K, Any] = {}
    left = dict(wanted)
    while left:
        answers.update(await _ask_once(left, locate, ask))
        left = {item: left[item] for item in left if _worth_another_try(answers[item])}
        if left:
            try:
                await backoff.pause(next(answers[item] for item in left))
            except KafkaError:
                break
    return {item: answers[item] for item in wanted}


async def ask_leaders(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, V],
    ask: Ask[TopicPartition, V],
    *,
    within: float | None = None,
) -> dict[TopicPartition, Any]:
    """Ask the leaders of partitions."""
    asked_before: set[str] = set()

    async def locate(
        partitions: Collection[TopicPartition],
    ) -> dict[TopicPartition, int | KafkaError]:
        topics = dict.fromkeys(partition.topic for partition in partitions)
        # Whatever is asked about once more was answered from metadata that is old by now.
        for topic in topics:
            if topic in asked_before:
                cluster.forget(topic)
        asked_before.update(topics)
        return {partition: await _leader(cluster, partition) for partition in partitions}

    limit = cluster.request_timeout if within is None else within
    return await ask_each(wanted, locate, ask, cluster.backoff(limit))


def by_topic(wanted: Mapping[TopicPartition, V]) -> dict[str, dict[int, V]]:
    """The same values as requests nest them."""
    topics: dict[str, dict[int, V]] = defaultdict(dict)
    for (topic, partition), value in wanted.items():
        topics[topic][partition] = value
    return topics


def _worth_another_try(answer: object) -> bool:
    return isinstance(answer, KafkaError) and answer.retriable


async def _leader(cluster: Cluster, partition: TopicPartition) -> int | KafkaError:
    try:
        return (await cluster.leader(partition))[0]
    except KafkaError as error:
        return error


async def _ask_once(wanted: Mapping[K, V], locate: Locate[K], ask: Ask[K, V]) -> dict[K, Any]:
    answers: dict[K, Any] = {}
    by_node: dict[int, dict[K, V]] = defaultdict(dict)
    try:
        located = await locate(wanted)
    except KafkaError as error:
        return dict.fromkeys(wanted, error)
    for item, node in located.items():
        if isinstance(node, KafkaError):
            answers[item] = node
        else:
            by_node[node][item] = wanted[item]

    async def ask_one(node_id: int, items: dict[K, V]) -> Mapping[K, Any]:
        try:
            return await ask(node_id, items)
        except KafkaError as error:
            return dict.fromkeys(items, error)

    for of_node in await asyncio.gather(*(ask_one(*item) for item in by_node.items())):
        answers.update(of_node)
    return answers
