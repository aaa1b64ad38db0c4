"""Which topics a source reads, and how their cluster is reached."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from moldau.spark.options import KAFKA_PREFIX
from moldau.spark.pipeline.spec import Pipeline, TopicSource

_CONNECTION: Final = frozenset(("bootstrap", "security", "sasl", "ssl", "client"))


def connection_settings(options: Mapping[str, str]) -> dict[str, object]:
    """How to reach the cluster that a source or a sink with these options uses."""
    return {
        name.removeprefix(KAFKA_PREFIX): value
        for name, value in options.items()
        if name.startswith(KAFKA_PREFIX) and name.split(".")[1] in _CONNECTION
    }


def reads_topic(source: TopicSource, topic: str) -> bool:
    pattern = source.options.get("subscribePattern")
    if pattern is not None:
        return re.fullmatch(pattern, topic) is not None
    return topic in map(str.strip, source.options.get("subscribe", "").split(","))


def is_told_apart(pipeline: Pipeline, topic: str) -> bool:
    """Whether one cluster only has offsets of this name: Spark does not say whose they are."""
    readers = [
        source.options.get(f"{KAFKA_PREFIX}bootstrap.servers")
        for source in pipeline.sources
        if isinstance(source, TopicSource) and reads_topic(source, topic)
    ]
    return len(set(readers)) < 2
