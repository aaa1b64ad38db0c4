"""What a group member says about itself: the events of Kafka's VerifiableConsumer, for all clients.

One JSON object per line on stdout, stamped with the machine's clock when it happened, so that the
events of several members can be put side by side.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from typing import Any


def say(name: str, **fields: Any) -> None:
    stamp = time.time_ns() // 1_000_000
    sys.stdout.write(json.dumps({"timestamp": stamp, "name": name, **fields}) + "\n")
    sys.stdout.flush()


def partitions(pairs: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": partition} for topic, partition in sorted(pairs)]


def say_poll_failed(error: Any) -> None:
    """aiokafka and kafka-python raise from a poll what passes by itself; the rest is raised on."""
    if not error.retriable:
        raise error
    say("poll_failed", error=str(error))


def say_records(records: Iterable[tuple[str, int, int]]) -> None:
    for topic, partition, offset in records:
        say("record_data", topic=topic, partition=partition, offset=offset)


def say_committed(offsets: Iterable[tuple[str, int, int]]) -> None:
    rows = [{"topic": t, "partition": p, "offset": o} for t, p, o in offsets]
    say("offsets_committed", offsets=rows, success=True)
