"""Handlers for listeners in other processes, and the program of a listener that gets killed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from moldau.client.listener import Listener
from moldau.records.consumer_record import ConsumerRecord

FOLDER = "MOLDAU_TEST_FOLDER"


def note_process(record: ConsumerRecord) -> None:
    """Leaves a file that says which process handled which value."""
    name = f"{record.partition}-{record.offset}"
    Path(os.environ[FOLDER], name).write_text(f"{os.getpid()} {record.value['number']}")


def die_once(record: ConsumerRecord) -> None:
    """Ends its process at the first record it sees, once."""
    marker = Path(os.environ[FOLDER], "died")
    if not marker.exists():
        marker.write_text(str(record.offset))
        os._exit(7)
    note_process(record)


def main(bootstrap: str, group: str, topic: str, log: str, session_ms: str) -> None:
    """Appends a line for each record, as one write."""
    with Path(log).open("ab", buffering=0) as out:

        def handle(record: ConsumerRecord) -> None:
            out.write(b"%d %d %s\n" % (record.partition, record.offset, record.value))

        Listener(
            topic,
            handle,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=int(session_ms),
            heartbeat_interval_ms=200,
            concurrency=4,
            ordering="key",
            ack_mode="record",
            queue_size=20,
        ).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
