"""A group member with kafka-python: ``python -m … '{"bootstrap_servers": …}' topic``."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterable

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError
from tests.support.members.events import (
    partitions,
    say,
    say_committed,
    say_poll_failed,
    say_records,
)

POLL_MS = 600_000
RETRY_MS = 5_000

uncommitted: dict[TopicPartition, OffsetAndMetadata] = {}
"""Of what is owned: when a commit fails for now, nobody delivers those records again."""


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        for partition in revoked:
            uncommitted.pop(partition, None)
        say("partitions_revoked", partitions=partitions((p.topic, p.partition) for p in revoked))

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        say("partitions_assigned", partitions=partitions((p.topic, p.partition) for p in assigned))


class Stop(BaseException):
    """SIGTERM came; it also ends a poll that waits."""


def stop(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stop


def main() -> None:
    settings = json.loads(sys.argv[1])
    consumer = KafkaConsumer(enable_auto_commit=False, auto_offset_reset="earliest", **settings)
    consumer.subscribe([sys.argv[2]], listener=Listener())
    signal.signal(signal.SIGTERM, stop)
    say("startup_complete")
    try:
        while True:
            consume(consumer)
    except Stop:
        # It does not tell the listener of what it gives up by leaving.
        left = partitions((p.topic, p.partition) for p in consumer.assignment())
        say("partitions_revoked", partitions=left)
        consumer.close(autocommit=False)
    say("shutdown_complete")


def consume(consumer: KafkaConsumer) -> None:
    # A poll that ends in the middle of a rebalance makes kafka-python 3.0 forget the assignment
    # that follows, with any broker; so it waits long enough for any rebalance to finish.
    # And a poll raises what happened to the search for a coordinator while the broker was away.
    try:
        found = consumer.poll(timeout_ms=RETRY_MS if uncommitted else POLL_MS)
    except KafkaError as error:
        say_poll_failed(error)
        return
    say_records((r.topic, r.partition, r.offset) for rows in found.values() for r in rows)
    uncommitted.update(
        (partition, OffsetAndMetadata(rows[-1].offset + 1, "", -1))
        for partition, rows in found.items()
        if rows
    )
    if not uncommitted:
        return
    offsets = dict(uncommitted)
    try:
        consumer.commit(offsets)
    except KafkaError as error:
        say("commit_failed", error=type(error).__name__)
        return
    uncommitted.clear()
    say_committed((p.topic, p.partition, offset.offset) for p, offset in offsets.items())


if __name__ == "__main__":
    main()
