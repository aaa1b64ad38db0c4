"""A group member with our own consumer: ``python -m … '{"bootstrap_servers": …}' topic``.

From SIGUSR1 to SIGUSR2 it does not poll, as if a record took long to process.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Collection

from tests.support.members.events import partitions, say, say_committed, say_records

from moldau.client.consumer import Consumer, RebalanceListener
from moldau.errors import KafkaError
from moldau.model import OffsetAndMetadata, TopicPartition

uncommitted: dict[TopicPartition, OffsetAndMetadata] = {}
"""Of what is owned: when a commit fails for now, nobody delivers those records again."""


class Listener(RebalanceListener):
    def on_revoked(self, revoked: Collection[TopicPartition]) -> None:
        for partition in revoked:
            uncommitted.pop(partition, None)
        say("partitions_revoked", partitions=partitions(revoked))

    def on_assigned(self, assigned: Collection[TopicPartition]) -> None:
        say("partitions_assigned", partitions=partitions(assigned))


def main() -> None:
    running = True

    def stop(*_: object) -> None:
        nonlocal running
        running = False

    logging.basicConfig(level=logging.INFO)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGUSR1, lambda *_: signal.sigwait([signal.SIGUSR2]))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    settings = json.loads(sys.argv[1])
    with Consumer(settings, enable_auto_commit=False, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([sys.argv[2]], listener=Listener())
        say("startup_complete")
        while running:
            try:
                found = consumer.poll(0.05)
            except KafkaError as error:
                say("failed", error=error.code.name)
                raise
            say_records((r.topic, r.partition, r.offset) for r in found.records())
            uncommitted.update(
                (key, OffsetAndMetadata(rows[-1].offset + 1)) for key, rows in found.items()
            )
            if uncommitted:
                commit(consumer)
    say("shutdown_complete")


def commit(consumer: Consumer) -> None:
    offsets = dict(uncommitted)
    try:
        consumer.commit(offsets)
    except KafkaError as error:
        say("commit_failed", error=error.code.name)
        return
    uncommitted.clear()
    say_committed((t, p, offset.offset) for (t, p), offset in offsets.items())


if __name__ == "__main__":
    main()
