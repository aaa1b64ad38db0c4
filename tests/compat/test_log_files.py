"""Kafka's DumpLogSegments reads the directory that the broker left and finds nothing wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support import java
from tests.support.apache_kafka import ApacheKafka
from tests.support.clients.base import ALL_CODECS, Sample
from tests.support.clients.confluent import ConfluentKafka
from tests.support.drain import drain
from tests.support.samples import incompressible
from tests.support.segments import stored_batches
from tests.support.target import Target

from moldau.log.files.names import TOPIC_CONFIG
from moldau.log.files.topic_config import StoredTopicConfig, encode_topic_config

TOPIC = "dumped"
# The smallest that Kafka allows.
SEGMENT_BYTES = 1_048_576

# What the tool prints when it finds fault; it does not end with an error then.
COMPLAINTS = re.compile(
    r"mismatch|non-consecutive|out of order|isvalid: false|invalid bytes|corrupt|exception",
    re.IGNORECASE,
)


def load(target: Target, round_number: int) -> int:
    """Fills some segments in every codec and returns how many records that were."""
    client = ConfluentKafka(target.bootstrap)
    if round_number == 0:
        client.create_topic(TOPIC, 1, {"segment.bytes": str(SEGMENT_BYTES)})
    written = 0
    for codec in ALL_CODECS:
        samples = [Sample(b"key %d" % n, incompressible(3000 + n)) for n in range(150)]
        client.write(TOPIC, samples, codec)
        written += len(samples)
    return written


def dump(files: Iterable[Path], *options: str) -> str:
    names = ",".join(str(file) for file in sorted(files))
    assert names
    printed = java.run_tool(java.DUMP_LOG, "--files", names, *options).decode(errors="replace")
    complaint = COMPLAINTS.search(printed)
    assert complaint is None, printed[max(0, complaint.start() - 500) : complaint.end() + 500]
    return printed


def check_directory(directory: Path, records: int) -> None:
    logs = list(directory.glob("*.log"))
    assert len(logs) >= 3
    batches = list(stored_batches(directory))
    assert sum(batch.records for batch in batches) == records

    printed = dump(logs, "--deep-iteration")
    assert printed.count("isvalid: true") == len(batches)
    assert printed.count("| offset: ") == records
    offsets = [int(offset) for offset in re.findall(r"\| offset: (\d+)", printed)]
    assert offsets == list(range(records))

    indexes = [*directory.glob("*.index"), *directory.glob("*.timeindex")]
    assert len(indexes) == 2 * len(logs)
    checked = dump(indexes, "--index-sanity-check").splitlines()
    # The last segment may be too small for an index entry.
    assert sum(line.endswith(("passed sanity check.", "is empty.")) for line in checked) == len(
        indexes
    )
    dump(indexes, "--verify-index-only")
    entries = dump(directory.glob("*.index"))
    # An entry for about every batch: they are larger than index.interval.bytes.
    assert entries.count("offset: ") > len(batches) // 2

    snapshots = list(directory.glob("*.snapshot"))
    assert snapshots
    newest = max(snapshots)
    assert int(newest.stem) == records
    assert dump([newest]).count("producerId: ") == len({batch.producer_id for batch in batches})


@pytest.mark.compat("DumpLogSegments", "Kafka's tools")
def test_the_files_of_a_clean_stop(new_target: Callable[[dict[str, str]], Target]) -> None:
    target = new_target({})
    written = load(target, 0)
    target.stop()
    check_directory(target.data_dir / f"{TOPIC}-0", written)


@pytest.mark.compat("DumpLogSegments", "Kafka's tools")
def test_the_files_after_a_crash_and_a_restart(
    new_target: Callable[[dict[str, str]], Target],
) -> None:
    target = new_target({})
    written = load(target, 0)
    target.kill()
    target.start()
    assert len(drain(target.bootstrap, TOPIC)) == written
    written += load(target, 1)
    target.stop()
    check_directory(target.data_dir / f"{TOPIC}-0", written)


@pytest.mark.compat("topic.config", "Apache Kafka")
def test_apache_kafka_overlooks_what_moldau_keeps_beside_its_files(tmp_path: Path) -> None:
    with ApacheKafka(tmp_path) as kafka:
        client = ConfluentKafka(kafka.bootstrap)
        client.create_topic(TOPIC, 1)
        client.write(TOPIC, [Sample(b"key", b"value")], "none")
        kafka.stop()
        stored = StoredTopicConfig(uuid4(), 3, {"cleanup.policy": "compact"})
        added = [kafka.data_dir / f"{TOPIC}-0" / TOPIC_CONFIG]
        added += [
            kafka.data_dir / f"coordination.{name}"
            for name in ("journal", "snapshot", "journal.previous", "snapshot.previous")
        ]
        for path in added:
            path.write_bytes(encode_topic_config(stored))
        kafka.start()
        assert len(drain(kafka.bootstrap, TOPIC)) == 1
        client.write(TOPIC, [Sample(b"key", b"another")], "none")
        assert all(path.read_bytes() == encode_topic_config(stored) for path in added)
