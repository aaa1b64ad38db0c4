"""How many dead letters there are in the topics that a pipeline's sources write them to."""

from __future__ import annotations

import asyncio
from typing import Final

from moldau.client.admin.async_admin import AsyncAdmin
from moldau.client.blocking import LoopThread
from moldau.client.errors import KafkaError
from moldau.client.offsets import OffsetSpec
from moldau.model import TopicPartition
from moldau.spark.pipeline.spec import Pipeline, TopicSource
from moldau.spark.pipeline.topics import connection_settings

OPTION: Final = "deadLetterTopic"


def letters_of(pipeline: Pipeline, timeout: float) -> dict[str, int]:
    """By topic, where the cluster answers in time; one that is not there has none."""
    found: dict[str, int] = {}
    for source in pipeline.sources:
        if isinstance(source, TopicSource) and OPTION in source.options:
            found.update(_ask(source, source.options[OPTION], timeout))
    return found


def _ask(source: TopicSource, topic: str, timeout: float) -> dict[str, int]:
    settings = connection_settings(source.options)
    settings["default.api.timeout.ms"] = settings["request.timeout.ms"] = int(timeout * 1000)

    async def ask() -> dict[str, int]:
        async with asyncio.timeout(timeout), AsyncAdmin(settings) as admin:
            [described] = await admin.describe_topics([topic])
            places = [TopicPartition(topic, number) for number in described.get().with_leader]
            ends = await admin.list_offsets(dict.fromkeys(places, OffsetSpec.LATEST))
            begins = await admin.list_offsets(dict.fromkeys(places, OffsetSpec.EARLIEST))
        return {topic: sum(ends[at].offset - begins[at].offset for at in places)}

    thread = LoopThread("dead letters")
    try:
        return thread.run(ask())
    except (KafkaError, TimeoutError):
        return {}
    finally:
        thread.stop()
