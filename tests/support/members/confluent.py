"""A group member with confluent-kafka: ``python -m … '{"bootstrap.servers": …}' topic``.

It commits after every poll, says what happens to it, and leaves on SIGTERM. From SIGUSR1 to SIGUSR2
it does not poll, as if a record took long to process; its heartbeats go on meanwhile.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from tests.support.members.events import partitions, say, say_committed, say_records

uncommitted: dict[tuple[str, int], int] = {}
"""Of what is owned: when a commit fails for now, nobody delivers those records again."""


def assigned(_: Consumer, found: Iterable[TopicPartition]) -> None:
    say("partitions_assigned", partitions=partitions(pairs(found)))


def revoked(_: Consumer, found: Iterable[TopicPartition]) -> None:
    for place in pairs(found):
        uncommitted.pop(place, None)
    say("partitions_revoked", partitions=partitions(pairs(found)))


def pairs(found: Iterable[TopicPartition]) -> list[tuple[str, int]]:
    return [(item.topic, item.partition) for item in found]


def main() -> None:
    running = True

    def stop(*_: object) -> None:
        nonlocal running
        running = False

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGUSR1, lambda *_: signal.sigwait([signal.SIGUSR2]))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    settings = json.loads(sys.argv[1])
    consumer = Consumer({"enable.auto.commit": False, "auto.offset.reset": "earliest", **settings})
    consumer.subscribe([sys.argv[2]], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    say("startup_complete")
    while running:
        found = consumer.consume(500, 0.05)
        records = [
            (str(m.topic()), int(m.partition() or 0), int(m.offset() or 0))
            for m in found
            if m.error() is None
        ]
        for failure in (m.error() for m in found if m.error() is not None):
            if failure.fatal() or failure.code() == KafkaError._FATAL:
                say("failed", error=failure.name())
                raise SystemExit(3)
            say("error", error=failure.name())
        say_records(records)
        uncommitted.update(((topic, partition), offset + 1) for topic, partition, offset in records)
        if uncommitted:
            commit(consumer)
    consumer.close()
    say("shutdown_complete")


def commit(consumer: Consumer) -> None:
    following = dict(uncommitted)
    offsets = [TopicPartition(t, p, offset) for (t, p), offset in following.items()]
    try:
        consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        say("commit_failed", error=error.args[0].name())
        return
    uncommitted.clear()
    say_committed((t, p, offset) for (t, p), offset in following.items())


if __name__ == "__main__":
    main()
