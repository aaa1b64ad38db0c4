"""A group member with kafka-python: ``python -m … '{"bootstrap_servers": …}' topic``."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterable

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError
from tests.support.members.events import partitions, say, say_committed, say_records


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        say("partitions_revoked", partitions=partitions((p.topic, p.partition) for p in revoked))

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        say("partitions_assigned", partitions=partitions((p.topic, p.partition) for p in assigned))


def main() -> None:
    running = True

    def stop(*_: object) -> None:
        nonlocal running
        running = False

    signal.signal(signal.SIGTERM, stop)
    settings = json.loads(sys.argv[1])
    consumer = KafkaConsumer(enable_auto_commit=False, auto_offset_reset="earliest", **settings)
    # kafka-python 3.0 sometimes hangs, with Apache Kafka too, when the topic's metadata arrives
    # while it joins for the first time; so it gets to know the topic before it joins.
    consumer.partitions_for_topic(sys.argv[2])
    consumer.subscribe([sys.argv[2]], listener=Listener())
    say("startup_complete")
    while running:
        found = consumer.poll(timeout_ms=50)
        say_records((r.topic, r.partition, r.offset) for rows in found.values() for r in rows)
        offsets = {
            partition: OffsetAndMetadata(rows[-1].offset + 1, "", -1)
            for partition, rows in found.items()
            if rows
        }
        if not offsets:
            continue
        try:
            consumer.commit(offsets)
        except KafkaError as error:
            say("commit_failed", error=type(error).__name__)
            continue
        say_committed((p.topic, p.partition, offset.offset) for p, offset in offsets.items())
    consumer.close(autocommit=False)
    say("shutdown_complete")


if __name__ == "__main__":
    main()
