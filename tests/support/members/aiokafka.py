"""A group member with aiokafka: ``python -m … '{"bootstrap_servers": …}' topic``."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError
from tests.support.members.events import (
    partitions,
    say,
    say_committed,
    say_poll_failed,
    say_records,
)

uncommitted: dict[TopicPartition, int] = {}
"""Of what is owned: when a commit fails for now, nobody delivers those records again."""


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        for partition in revoked:
            uncommitted.pop(partition, None)
        say("partitions_revoked", partitions=partitions((p.topic, p.partition) for p in revoked))

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        say("partitions_assigned", partitions=partitions((p.topic, p.partition) for p in assigned))


async def main() -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    settings = json.loads(sys.argv[1])
    consumer = AIOKafkaConsumer(enable_auto_commit=False, auto_offset_reset="earliest", **settings)
    consumer.subscribe([sys.argv[2]], listener=Listener())
    await consumer.start()
    say("startup_complete")
    while not stopping.is_set():
        await consume(consumer)
    # It does not tell the listener of what it gives up by leaving.
    left = partitions((p.topic, p.partition) for p in consumer.assignment())
    say("partitions_revoked", partitions=left)
    await consumer.stop()
    say("shutdown_complete")


async def consume(consumer: AIOKafkaConsumer) -> None:
    try:
        found = await consumer.getmany(timeout_ms=50)
    except KafkaError as error:
        say_poll_failed(error)
        return
    say_records((r.topic, r.partition, r.offset) for rows in found.values() for r in rows)
    uncommitted.update((place, rows[-1].offset + 1) for place, rows in found.items() if rows)
    if not uncommitted:
        return
    offsets = dict(uncommitted)
    try:
        await consumer.commit(offsets)
    except KafkaError as error:
        say("commit_failed", error=type(error).__name__)
        return
    for place, offset in offsets.items():
        if uncommitted.get(place) == offset:
            del uncommitted[place]
    say_committed((p.topic, p.partition, offset) for p, offset in offsets.items())


if __name__ == "__main__":
    asyncio.run(main())
