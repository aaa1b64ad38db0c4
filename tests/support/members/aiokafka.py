"""A group member with aiokafka: ``python -m … '{"bootstrap_servers": …}' topic``."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError
from tests.support.members.events import partitions, say, say_committed, say_records


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
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
        found = await consumer.getmany(timeout_ms=50)
        say_records((r.topic, r.partition, r.offset) for rows in found.values() for r in rows)
        offsets = {partition: rows[-1].offset + 1 for partition, rows in found.items() if rows}
        if not offsets:
            continue
        try:
            await consumer.commit(offsets)
        except KafkaError as error:
            say("commit_failed", error=type(error).__name__)
            continue
        say_committed((p.topic, p.partition, offset) for p, offset in offsets.items())
    await consumer.stop()
    say("shutdown_complete")


if __name__ == "__main__":
    asyncio.run(main())
