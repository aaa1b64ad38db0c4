"""Requests that a broker must refuse, and the error that Apache Kafka answers to each."""

from __future__ import annotations

import datetime as dt
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.batches import CONTROL, GZIP, TRANSACTIONAL, Batch, old_message
from tests.support.requests import request
from tests.support.samples import incompressible

# Topics that exist before the requests are sent.
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "dotted.name": {},
    "compacted": {"cleanup.policy": "compact"},
    "small-batches": {"max.message.bytes": "500"},
    "recent-only": {
        "message.timestamp.before.max.ms": "3600000",
        "message.timestamp.after.max.ms": "3600000",
    },
}
RECORDS_IN_PLAIN = 3

SOON = dt.timedelta(seconds=120)
NO_ID = uuid.UUID("6f1b0c1a-7d3c-4c55-9d0c-0a4f5c1f2e3d")
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND = 0, 1, 2
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    make: Callable[[], Any]
    error: str


def create(error: str, name: str, topic: str = "new", **fields: Any) -> Case:
    """CreateTopics of one topic."""
    entry = {
        "name": topic,
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
        **fields,
    }
    return Case(
        f"create topic: {name}",
        lambda: request("create_topics", 7, topics=[entry], timeout=SOON, validate_only=True),
        error,
    )


def create_with(error: str, config: str, value: str | None) -> Case:
    return create(error, f"{config}={value}", configs=[{"name": config, "value": value}])


def assigned(error: str, name: str, *assignments: tuple[int, list[int]], **fields: Any) -> Case:
    entries = [{"partition_index": index, "broker_ids": ids} for index, ids in assignments]
    counts = {"num_partitions": -1, "replication_factor": -1, **fields}
    return create(error, name, assignments=entries, **counts)


def delete(error: str, name: str, *topics: dict[str, Any]) -> Case:
    entries = [{"name": None, "topic_id": None, **topic} for topic in topics]
    return Case(
        f"delete topics: {name}",
        lambda: request("delete_topics", 6, topics=entries, timeout=SOON),
        error,
    )


def more_partitions(
    error: str, name: str, count: int, topic: str = "plain", ids: list[list[int]] | None = None
) -> Case:
    assignments = None if ids is None else [{"broker_ids": each} for each in ids]
    entry = {"name": topic, "count": count, "assignments": assignments}
    return Case(
        f"create partitions: {name}",
        lambda: request("create_partitions", 3, topics=[entry], timeout=SOON, validate_only=True),
        error,
    )


def describe_config(error: str, name: str, kind: int, resource: str) -> Case:
    entry = {"resource_type": kind, "resource_name": resource, "configuration_keys": None}
    return Case(
        f"describe configs: {name}",
        lambda: request("describe_configs", 4, resources=[entry]),
        error,
    )


def alter_config(
    error: str,
    name: str,
    config: str,
    value: str | None,
    operation: int = SET,
    kind: int = TOPIC,
    resource: str = "plain",
) -> Case:
    change = {"name": config, "config_operation": operation, "value": value}
    entry = {"resource_type": kind, "resource_name": resource, "configs": [change]}
    return Case(
        f"alter configs: {name}",
        lambda: request("incremental_alter_configs", 1, resources=[entry], validate_only=True),
        error,
    )


def replace_config(error: str, name: str, config: str, value: str | None, **fields: Any) -> Case:
    entry = {
        "resource_type": TOPIC,
        "resource_name": "plain",
        "configs": [{"name": config, "value": value}],
        **fields,
    }
    return Case(
        f"replace configs: {name}",
        lambda: request("alter_configs", 2, resources=[entry], validate_only=True),
        error,
    )


def delete_records(
    error: str, name: str, offset: int, topic: str = "plain", partition: int = 0
) -> Case:
    entry = {"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}
    return Case(
        f"delete records: {name}",
        lambda: request("delete_records", 2, topics=[entry], timeout=SOON),
        error,
    )


def list_offsets(
    error: str, name: str, timestamp: int, topic: str = "plain", partition: int = 0, epoch: int = -1
) -> Case:
    place = {"partition_index": partition, "current_leader_epoch": epoch, "timestamp": timestamp}
    entry = {"name": topic, "partitions": [place]}
    return Case(
        f"list offsets: {name}",
        lambda: request(
            "list_offsets", 10, replica_id=-1, isolation_level=0, topics=[entry], timeout=SOON
        ),
        error,
    )


def fetch(
    error: str,
    name: str,
    offset: int = 0,
    topic: str = "plain",
    partition: int = 0,
    epoch: int = -1,
    session: tuple[int, int] = (0, -1),
) -> Case:
    place = {
        "partition": partition,
        "current_leader_epoch": epoch,
        "fetch_offset": offset,
        "partition_max_bytes": 1000,
    }
    return Case(
        f"fetch: {name}",
        lambda: request(
            "fetch",
            12,
            replica_id=-1,
            max_wait=dt.timedelta(milliseconds=10),
            min_bytes=1,
            session_id=session[0],
            session_epoch=session[1],
            topics=[{"topic": topic, "partitions": [place]}],
            forgotten_topics_data=[],
        ),
        error,
    )


def produce(
    error: str,
    name: str,
    batch: Callable[[], bytes] | Batch,
    topic: str = "plain",
    partition: int = 0,
    acks: int = -1,
    version: int = 12,
) -> Case:
    def make() -> Any:
        records = batch.encode() if isinstance(batch, Batch) else batch()
        place = {"index": partition, "records": records}
        return request(
            "produce",
            version,
            transactional_id=None,
            acks=acks,
            timeout=SOON,
            topic_data=[{"name": topic, "partition_data": [place]}],
        )

    return Case(f"produce: {name}", make, error)


def epoch_end(error: str, name: str, partition: int = 0, current: int = -1) -> Case:
    place = {"partition": partition, "current_leader_epoch": current, "leader_epoch": 0}
    return Case(
        f"offset for leader epoch: {name}",
        lambda: request(
            "offset_for_leader_epoch", 4, topics=[{"topic": "plain", "partitions": [place]}]
        ),
        error,
    )


def metadata(error: str, name: str, topic: str | None, topic_id: uuid.UUID | None = None) -> Case:
    return Case(
        f"metadata: {name}",
        lambda: request(
            "metadata",
            12,
            topics=[{"topic_id": topic_id, "name": topic}],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        ),
        error,
    )


ONE = ((b"key", b"value"),)
TWO = ((b"a", b"1"), (b"b", b"2"))

CASES = [
    create("NONE", "good"),
    create("INVALID_TOPIC_EXCEPTION", "no name", ""),
    create("INVALID_TOPIC_EXCEPTION", "dot", "."),
    create("INVALID_TOPIC_EXCEPTION", "two dots", ".."),
    create("INVALID_TOPIC_EXCEPTION", "slash", "a/b"),
    create("INVALID_TOPIC_EXCEPTION", "space", "a b"),
    create("INVALID_TOPIC_EXCEPTION", "accent", "é"),
    create("INVALID_TOPIC_EXCEPTION", "too long", "x" * 250),
    create("NONE", "longest", "x" * 249),
    create("INVALID_TOPIC_EXCEPTION", "collides with a dotted name", "dotted_name"),
    create("TOPIC_ALREADY_EXISTS", "exists", "plain"),
    create("INVALID_PARTITIONS", "no partitions", num_partitions=0),
    create("INVALID_PARTITIONS", "negative partitions", num_partitions=-2),
    create("NONE", "default partitions", num_partitions=-1),
    create("INVALID_REPLICATION_FACTOR", "no replicas", replication_factor=0),
    create("INVALID_REPLICATION_FACTOR", "negative replicas", replication_factor=-2),
    create("INVALID_REPLICATION_FACTOR", "more replicas than brokers", replication_factor=2),
    create_with("INVALID_CONFIG", "no.such.config", "1"),
    create_with("INVALID_CONFIG", "retention.ms", "soon"),
    create_with("INVALID_CONFIG", "retention.ms", "-2"),
    create_with("INVALID_CONFIG", "retention.ms", None),
    create_with("INVALID_CONFIG", "retention.ms", ""),
    create_with("NONE", "retention.ms", "-1"),
    create_with("INVALID_CONFIG", "cleanup.policy", "keep"),
    create_with("NONE", "cleanup.policy", ""),
    create_with("INVALID_CONFIG", "segment.bytes", "13"),
    create_with("INVALID_CONFIG", "segment.bytes", "99999999999"),
    create_with("INVALID_CONFIG", "min.insync.replicas", "0"),
    create_with("INVALID_CONFIG", "compression.type", "brotli"),
    create_with("INVALID_CONFIG", "compression.gzip.level", "0"),
    create_with("INVALID_CONFIG", "compression.zstd.level", "99"),
    create_with("INVALID_CONFIG", "message.timestamp.type", "Never"),
    create_with("INVALID_CONFIG", "preallocate", "perhaps"),
    create_with("INVALID_CONFIG", "min.cleanable.dirty.ratio", "1.5"),
    create_with("INVALID_CONFIG", "message.format.version", "2.0"),
    assigned("NONE", "assigned", (0, [1]), (1, [1])),
    assigned("INVALID_REQUEST", "assigned and counted", (0, [1]), num_partitions=1),
    assigned("INVALID_REPLICA_ASSIGNMENT", "unknown broker", (0, [99])),
    assigned("INVALID_REPLICA_ASSIGNMENT", "no broker", (0, [])),
    assigned("INVALID_REPLICA_ASSIGNMENT", "same broker twice", (0, [1, 1])),
    assigned("INVALID_REPLICA_ASSIGNMENT", "gap between partitions", (0, [1]), (2, [1])),
    assigned("INVALID_REPLICA_ASSIGNMENT", "partition twice", (0, [1]), (0, [1])),
    delete("UNKNOWN_TOPIC_OR_PARTITION", "unknown name", {"name": "absent"}),
    delete("UNKNOWN_TOPIC_ID", "unknown id", {"topic_id": NO_ID}),
    delete("INVALID_REQUEST", "neither name nor id", {}),
    delete("INVALID_REQUEST", "name and id", {"name": "plain", "topic_id": NO_ID}),
    delete("INVALID_REQUEST", "same name twice", {"name": "plain"}, {"name": "plain"}),
    more_partitions("NONE", "more", 2),
    more_partitions("UNKNOWN_TOPIC_OR_PARTITION", "unknown topic", 2, "absent"),
    more_partitions("INVALID_PARTITIONS", "fewer", 0),
    more_partitions("INVALID_PARTITIONS", "as many", 1),
    more_partitions("INVALID_PARTITIONS", "negative", -1),
    more_partitions("INVALID_REPLICA_ASSIGNMENT", "unknown broker", 2, ids=[[99]]),
    more_partitions("INVALID_REPLICA_ASSIGNMENT", "too few assignments", 3, ids=[[1]]),
    describe_config("NONE", "topic", TOPIC, "plain"),
    describe_config("UNKNOWN_TOPIC_OR_PARTITION", "unknown topic", TOPIC, "absent"),
    describe_config("INVALID_TOPIC_EXCEPTION", "bad topic name", TOPIC, "a b"),
    describe_config("INVALID_REQUEST", "unknown broker", BROKER, "99"),
    describe_config("INVALID_REQUEST", "broker that is no number", BROKER, "one"),
    describe_config("INVALID_REQUEST", "unknown kind of resource", 77, "plain"),
    alter_config("NONE", "good", "retention.ms", "1000"),
    alter_config("INVALID_CONFIG", "unknown config", "no.such.config", "1"),
    alter_config("INVALID_CONFIG", "bad value", "retention.ms", "soon"),
    alter_config("INVALID_CONFIG", "append to what is no list", "retention.ms", "1", APPEND),
    alter_config("NONE", "append to a list", "cleanup.policy", "compact", APPEND),
    alter_config("INVALID_REQUEST", "set to null", "retention.ms", None),
    alter_config("NONE", "delete what was not set", "retention.ms", None, DELETE),
    alter_config(
        "UNKNOWN_TOPIC_OR_PARTITION", "unknown topic", "retention.ms", "1", resource="absent"
    ),
    alter_config(
        "INVALID_REQUEST", "unknown broker", "log.retention.ms", "1", kind=BROKER, resource="99"
    ),
    alter_config(
        "INVALID_REQUEST", "read-only setting", "log.dirs", "/elsewhere", kind=BROKER, resource="1"
    ),
    alter_config("INVALID_REQUEST", "unknown kind of resource", "retention.ms", "1", kind=77),
    replace_config("NONE", "good", "retention.ms", "1000"),
    replace_config("INVALID_CONFIG", "bad value", "retention.ms", "soon"),
    replace_config("INVALID_REQUEST", "null", "retention.ms", None),
    replace_config(
        "UNKNOWN_TOPIC_OR_PARTITION", "unknown topic", "retention.ms", "1", resource_name="absent"
    ),
    delete_records("OFFSET_OUT_OF_RANGE", "beyond the end", 1000),
    delete_records("OFFSET_OUT_OF_RANGE", "negative", -2),
    delete_records("UNKNOWN_TOPIC_OR_PARTITION", "unknown partition", 0, partition=9),
    delete_records("UNKNOWN_TOPIC_OR_PARTITION", "unknown topic", 0, topic="absent"),
    delete_records("POLICY_VIOLATION", "compacted topic", 0, topic="compacted"),
    list_offsets("NONE", "latest", -1),
    list_offsets("UNKNOWN_TOPIC_OR_PARTITION", "unknown partition", -1, partition=9),
    list_offsets("UNKNOWN_TOPIC_OR_PARTITION", "unknown topic", -1, topic="absent"),
    list_offsets("UNKNOWN_LEADER_EPOCH", "epoch of the future", -1, epoch=99),
    list_offsets("UNSUPPORTED_VERSION", "unknown special timestamp", -17),
    fetch("NONE", "good"),
    fetch("OFFSET_OUT_OF_RANGE", "beyond the end", 1000),
    fetch("OFFSET_OUT_OF_RANGE", "negative", -5),
    fetch("UNKNOWN_TOPIC_OR_PARTITION", "unknown partition", partition=9),
    fetch("UNKNOWN_TOPIC_OR_PARTITION", "unknown topic", topic="absent"),
    fetch("UNKNOWN_LEADER_EPOCH", "epoch of the future", epoch=99),
    fetch("FETCH_SESSION_ID_NOT_FOUND", "unknown session", session=(12345, 1)),
    produce("NONE", "good", Batch(ONE)),
    produce("NONE", "nothing acknowledged but the leader", Batch(ONE), acks=1),
    produce("UNKNOWN_TOPIC_OR_PARTITION", "unknown topic", Batch(ONE), topic="absent"),
    produce("UNKNOWN_TOPIC_OR_PARTITION", "unknown partition", Batch(ONE), partition=9),
    produce("INVALID_REQUIRED_ACKS", "two acks", Batch(ONE), acks=2),
    produce("CORRUPT_MESSAGE", "wrong checksum", Batch(ONE, crc_change=1)),
    produce("INVALID_RECORD", "batch cut short", lambda: Batch(ONE).encode()[:-3]),
    produce("CORRUPT_MESSAGE", "length too small", Batch(ONE, length_change=-60)),
    produce("INVALID_RECORD", "two batches", lambda: Batch(ONE).encode() * 2),
    produce("INVALID_RECORD", "no batch", lambda: b""),
    produce("INVALID_RECORD", "message format 0", lambda: old_message(0)),
    produce("INVALID_RECORD", "message format 1", lambda: old_message(1)),
    produce("INVALID_RECORD", "count and last offset differ", Batch(TWO, last_offset_delta=7)),
    produce("INVALID_RECORD", "negative last offset", Batch(TWO, last_offset_delta=-1)),
    produce("INVALID_RECORD", "no records", Batch((), last_offset_delta=0, count=0)),
    produce("INVALID_RECORD", "control batch", Batch(ONE, attributes=CONTROL)),
    produce(
        "MESSAGE_TOO_LARGE", "too large", Batch(((None, incompressible(600)),)), "small-batches"
    ),
    produce("INVALID_RECORD", "no key in a compacted topic", Batch(((None, b"v"),)), "compacted"),
    produce(
        "INVALID_RECORD",
        "no key in a compressed batch of a compacted topic",
        Batch(((b"k", b"v"), (None, b"v")), attributes=GZIP),
        "compacted",
    ),
    produce(
        "INVALID_TIMESTAMP",
        "too old",
        lambda: Batch(ONE, timestamp_ms=int(time.time() * 1000) - 2 * HOUR_MS).encode(),
        "recent-only",
    ),
    produce(
        "INVALID_TIMESTAMP",
        "too far ahead",
        lambda: Batch(ONE, timestamp_ms=int(time.time() * 1000) + 2 * HOUR_MS).encode(),
        "recent-only",
    ),
    produce(
        "UNSUPPORTED_COMPRESSION_TYPE", "zstd before version 7", Batch(ONE, attributes=4), version=6
    ),
    produce(
        "NONE",
        "new producer that does not start at 0",
        Batch(ONE, producer_id=777_001, producer_epoch=1, base_sequence=5),
    ),
    produce(
        "INVALID_RECORD",
        "producer without sequence",
        Batch(ONE, producer_id=777_002, producer_epoch=0, base_sequence=-1),
    ),
    produce(
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "transactional batch without a transaction",
        Batch(
            ONE, attributes=TRANSACTIONAL, producer_id=777_003, producer_epoch=0, base_sequence=0
        ),
    ),
    epoch_end("NONE", "good"),
    epoch_end("UNKNOWN_TOPIC_OR_PARTITION", "unknown partition", partition=9),
    epoch_end("UNKNOWN_LEADER_EPOCH", "epoch of the future", current=99),
    metadata("NONE", "good", "plain"),
    metadata("UNKNOWN_TOPIC_OR_PARTITION", "unknown topic", "absent"),
    metadata("INVALID_TOPIC_EXCEPTION", "bad name", "a b"),
    metadata("UNKNOWN_TOPIC_ID", "unknown id", None, NO_ID),
    Case(
        "describe producers: unknown partition",
        lambda: request(
            "describe_producers", 0, topics=[{"name": "plain", "partition_indexes": [9]}]
        ),
        "UNKNOWN_TOPIC_OR_PARTITION",
    ),
    Case(
        "describe topic partitions: unknown topic",
        lambda: request(
            "describe_topic_partitions", 0, topics=[{"name": "absent"}], response_partition_limit=10
        ),
        "UNKNOWN_TOPIC_OR_PARTITION",
    ),
    Case(
        "fetch by id: unknown id",
        lambda: request(
            "fetch",
            17,
            max_wait=dt.timedelta(milliseconds=10),
            min_bytes=1,
            topics=[
                {
                    "topic_id": NO_ID,
                    "partitions": [
                        {
                            "partition": 0,
                            "fetch_offset": 0,
                            "partition_max_bytes": 1000,
                            "replica_directory_id": None,
                        }
                    ],
                }
            ],
            forgotten_topics_data=[],
        ),
        "UNKNOWN_TOPIC_ID",
    ),
    Case(
        "produce by id: unknown id",
        lambda: request(
            "produce",
            13,
            transactional_id=None,
            acks=-1,
            timeout=SOON,
            topic_data=[
                {
                    "topic_id": NO_ID,
                    "partition_data": [{"index": 0, "records": Batch(ONE).encode()}],
                }
            ],
        ),
        "UNKNOWN_TOPIC_ID",
    ),
]
