"""Offsets of a pipeline's topics where group tools look for them, for sources with ``group_id``.

The data source commits a batch when the next one begins; this tells of each when it is done, the
last one included. What counts is the sink that is the furthest behind.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from moldau.client.admin import Admin
from moldau.client.errors import KafkaError
from moldau.model import OffsetAndMetadata, TopicPartition
from moldau.spark.pipeline.progress import Progress
from moldau.spark.pipeline.spec import Pipeline, TopicSource
from moldau.spark.pipeline.topics import connection_settings, is_told_apart, reads_topic

logger: Final = logging.getLogger("moldau.spark")

_GROUP: Final = "kafka.group.id"
_PATIENCE: Final = {"request.timeout.ms": 5000, "default.api.timeout.ms": 5000}
"""A pipeline that is stopped must not wait for brokers that are away."""


def commit_offsets(pipeline: Pipeline, last: Mapping[str, Progress]) -> None:
    """``last``: the last report of each sink; the checkpoint remains the truth.

    What has one name in two clusters is left to the data source, which knows its own.
    """
    slowest = _slowest(last)
    for source in pipeline.sources:
        if not isinstance(source, TopicSource) or _GROUP not in source.options:
            continue
        mine = {
            partition: OffsetAndMetadata(offset)
            for partition, offset in slowest.items()
            if reads_topic(source, partition.topic) and is_told_apart(pipeline, partition.topic)
        }
        if mine:
            _commit(source, mine)


def _slowest(last: Mapping[str, Progress]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for progress in last.values():
        for topic, offsets in progress.offsets.items():
            for number, offset in offsets.items():
                partition = TopicPartition(topic, int(number))
                found[partition] = min(offset, found.get(partition, offset))
    return found


def _commit(source: TopicSource, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
    group = source.options[_GROUP]
    try:
        with Admin({**connection_settings(source.options), **_PATIENCE}) as admin:
            for outcome in admin.alter_group_offsets(group, offsets):
                outcome.get()
    except KafkaError as error:
        logger.warning("offsets were not committed to group %s: %s", group, error)
