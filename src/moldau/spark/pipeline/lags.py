"""How far a pipeline is behind what its topics have now, in records and in time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from moldau.client.admin.async_admin import AsyncAdmin
from moldau.client.blocking import LoopThread
from moldau.client.errors import KafkaError
from moldau.model import TopicPartition
from moldau.spark.pipeline.spec import Pipeline, TopicSource
from moldau.spark.pipeline.topics import connection_settings, is_told_apart, reads_topic

Offsets = Mapping[TopicPartition, int]
"""The next ones to read."""


@dataclass(frozen=True)
class Lag:
    records: int
    seconds: float | None
    """How old the oldest one is that was not read; None if nobody knows."""


Lags = Mapping[TopicPartition, Lag]


def lags_of(pipeline: Pipeline, offsets: Offsets, timeout: float) -> dict[TopicPartition, Lag]:
    """By partition, where the cluster of the source that reads it answers in time.

    Of topics of two clusters that have one name nobody knows.
    """
    found: dict[TopicPartition, Lag] = {}
    for source in pipeline.sources:
        if not isinstance(source, TopicSource):
            continue
        mine = {
            partition: offset
            for partition, offset in offsets.items()
            if partition not in found
            and reads_topic(source, partition.topic)
            and is_told_apart(pipeline, partition.topic)
        }
        if mine:
            found.update(_ask(source, mine, timeout))
    return found


def total(lags: Lags, offsets: Iterable[TopicPartition]) -> Lag | None:
    """Of these together: all records, and the age of the oldest."""
    known = [lags[partition] for partition in offsets if partition in lags]
    if not known:
        return None
    ages = [one.seconds for one in known if one.seconds is not None]
    return Lag(sum(one.records for one in known), max(ages, default=None))


def _ask(source: TopicSource, offsets: Offsets, timeout: float) -> dict[TopicPartition, Lag]:
    settings = connection_settings(source.options)
    settings["default.api.timeout.ms"] = settings["request.timeout.ms"] = int(timeout * 1000)

    async def ask() -> dict[TopicPartition, Lag]:
        async with asyncio.timeout(timeout), AsyncAdmin(settings) as admin:
            lags = await admin.partition_lag(offsets)
        return {
            partition: Lag(
                max(0, one.records), None if one.behind_ms is None else one.behind_ms / 1000
            )
            for partition, one in lags.items()
            if one.records is not None
        }

    thread = LoopThread("lag")
    try:
        return thread.run(ask())
    except (KafkaError, TimeoutError):
        return {}
    finally:
        thread.stop()
