"""Requests that a broker must refuse, and a few that it must not."""

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
TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
PER_BROKER = "cordoned.log.dirs"
LISTENER_LIMIT = "listener.name.plaintext.max.connections"
SESSION = "consumer.session.timeout.ms"
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    make: Callable[[], Any]


def create(name: str, topic: str = "new", *, again: bool = False, **fields: Any) -> Case:
    """CreateTopics of one topic."""
    entry = {
        "name": topic,
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
        **fields,
    }
    topics = [entry, entry] if again else [entry]
    return Case(
        f"create topic: {name}",
        lambda: request("create_topics", 7, topics=topics, timeout=SOON, validate_only=True),
    )


def create_with(config: str, value: str | None) -> Case:
    return create(f"{config}={value}", configs=[{"name": config, "value": value}])


def assigned(name: str, *assignments: tuple[int, list[int]], **fields: Any) -> Case:
    entries = [{"partition_index": index, "broker_ids": ids} for index, ids in assignments]
    counts = {"num_partitions": -1, "replication_factor": -1, **fields}
    return create(name, assignments=entries, **counts)


def delete(name: str, *topics: dict[str, Any]) -> Case:
    entries = [{"name": None, "topic_id": None, **topic} for topic in topics]
    return Case(
        f"delete topics: {name}",
        lambda: request("delete_topics", 6, topics=entries, timeout=SOON),
    )


def more_partitions(
    name: str, count: int, topic: str = "plain", ids: list[list[int]] | None = None
) -> Case:
    assignments = None if ids is None else [{"broker_ids": each} for each in ids]
    entry = {"name": topic, "count": count, "assignments": assignments}
    return Case(
        f"create partitions: {name}",
        lambda: request("create_partitions", 3, topics=[entry], timeout=SOON, validate_only=True),
    )


def describe_config(name: str, kind: int, resource: str) -> Case:
    entry = {"resource_type": kind, "resource_name": resource, "configuration_keys": None}
    return Case(
        f"describe configs: {name}",
        lambda: request("describe_configs", 4, resources=[entry]),
    )


def alter_config(
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
    )


def alter_listeners(name: str, resource: str = "1", **settings: str) -> Case:
    """More listeners besides those that a node of Kafka has; ``settings`` with _ for dots."""
    names = ("PLAINTEXT", "CONTROLLER", "EXTRA")
    settings = {
        "listeners": ",".join(f"{listener}://127.0.0.1:0" for listener in names),
        "listener_security_protocol_map": ",".join(f"{listener}:PLAINTEXT" for listener in names),
        **settings,
    }
    changes = [
        {"name": setting.replace("_", "."), "config_operation": SET, "value": value}
        for setting, value in settings.items()
    ]
    entry = {"resource_type": BROKER, "resource_name": resource, "configs": changes}
    return Case(
        f"alter listeners: {name}",
        lambda: request("incremental_alter_configs", 1, resources=[entry], validate_only=True),
    )


def alter_twice(name: str, resources: int, changes: int) -> Case:
    change = {"name": "retention.ms", "config_operation": SET, "value": "1000"}
    entry = {"resource_type": TOPIC, "resource_name": "plain", "configs": [change] * changes}
    return Case(
        f"alter configs: {name}",
        lambda: request(
            "incremental_alter_configs", 1, resources=[entry] * resources, validate_only=True
        ),
    )


def describe_cluster(name: str, endpoint_type: int) -> Case:
    return Case(
        f"describe cluster: {name}",
        lambda: request(
            "describe_cluster",
            1,
            include_cluster_authorized_operations=False,
            endpoint_type=endpoint_type,
        ),
    )


def replace_config(name: str, config: str, value: str | None, **fields: Any) -> Case:
    entry = {
        "resource_type": TOPIC,
        "resource_name": "plain",
        "configs": [{"name": config, "value": value}],
        **fields,
    }
    return Case(
        f"replace configs: {name}",
        lambda: request("alter_configs", 2, resources=[entry], validate_only=True),
    )


def delete_records(name: str, offset: int, topic: str = "plain", partition: int = 0) -> Case:
    entry = {"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}
    return Case(
        f"delete records: {name}",
        lambda: request("delete_records", 2, topics=[entry], timeout=SOON),
    )


def list_offsets(
    name: str, timestamp: int, topic: str = "plain", partition: int = 0, epoch: int = -1
) -> Case:
    place = {"partition_index": partition, "current_leader_epoch": epoch, "timestamp": timestamp}
    entry = {"name": topic, "partitions": [place]}
    return Case(
        f"list offsets: {name}",
        lambda: request(
            "list_offsets", 10, replica_id=-1, isolation_level=0, topics=[entry], timeout=SOON
        ),
    )


def fetch(
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
    )


def produce(
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

    return Case(f"produce: {name}", make)


def epoch_end(name: str, partition: int = 0, current: int = -1) -> Case:
    place = {"partition": partition, "current_leader_epoch": current, "leader_epoch": 0}
    return Case(
        f"offset for leader epoch: {name}",
        lambda: request(
            "offset_for_leader_epoch", 4, topics=[{"topic": "plain", "partitions": [place]}]
        ),
    )


def metadata(name: str, topic: str | None, topic_id: uuid.UUID | None = None) -> Case:
    return Case(
        f"metadata: {name}",
        lambda: request(
            "metadata",
            12,
            topics=[{"topic_id": topic_id, "name": topic}],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        ),
    )


ONE = ((b"key", b"value"),)
TWO = ((b"a", b"1"), (b"b", b"2"))

CASES = [
    create("good"),
    create("no name", ""),
    create("dot", "."),
    create("two dots", ".."),
    create("slash", "a/b"),
    create("space", "a b"),
    create("accent", "é"),
    create("too long", "x" * 250),
    create("longest", "x" * 249),
    create("collides with a dotted name", "dotted_name"),
    create("exists", "plain"),
    create("no partitions", num_partitions=0),
    create("negative partitions", num_partitions=-2),
    create("far too many partitions", num_partitions=20_000),
    create("same name twice", again=True),
    create("the metadata topic", "__cluster_metadata"),
    create("default partitions", num_partitions=-1),
    create("no replicas", replication_factor=0),
    create("negative replicas", replication_factor=-2),
    create("more replicas than brokers", replication_factor=2),
    create_with("no.such.config", "1"),
    create_with("retention.ms", "-2"),
    create_with("retention.ms", None),
    create_with("retention.ms", "-1"),
    create_with("cleanup.policy", "keep"),
    create_with("cleanup.policy", ""),
    create_with("segment.bytes", "13"),
    create_with("segment.bytes", "99999999999"),
    create_with("min.insync.replicas", "0"),
    create_with("compression.type", "brotli"),
    create_with("compression.gzip.level", "0"),
    create_with("compression.zstd.level", "99"),
    create_with("message.timestamp.type", "Never"),
    create_with("min.cleanable.dirty.ratio", "1.5"),
    create_with("message.format.version", "2.0"),
    assigned("assigned", (0, [1]), (1, [1])),
    assigned("assigned and counted", (0, [1]), num_partitions=1),
    assigned("unknown broker", (0, [99])),
    assigned("no broker", (0, [])),
    assigned("same broker twice", (0, [1, 1])),
    assigned("gap between partitions", (0, [1]), (2, [1])),
    assigned("partition twice", (0, [1]), (0, [1])),
    delete("unknown name", {"name": "absent"}),
    delete("unknown id", {"topic_id": NO_ID}),
    delete("neither name nor id", {}),
    delete("name and id", {"name": "plain", "topic_id": NO_ID}),
    delete("same name twice", {"name": "plain"}, {"name": "plain"}),
    more_partitions("more", 2),
    more_partitions("unknown topic", 2, "absent"),
    more_partitions("fewer", 0),
    more_partitions("as many", 1),
    more_partitions("negative", -1),
    more_partitions("unknown broker", 2, ids=[[99]]),
    more_partitions("too few assignments", 3, ids=[[1]]),
    more_partitions("too many assignments", 2, ids=[[1], [1]]),
    more_partitions("same broker twice", 2, ids=[[1, 1]]),
    more_partitions("no broker", 2, ids=[[]]),
    more_partitions("far too many", 20_000),
    more_partitions("bad topic name", 2, "a b"),
    describe_config("topic", TOPIC, "plain"),
    describe_config("unknown topic", TOPIC, "absent"),
    describe_config("bad topic name", TOPIC, "a b"),
    describe_config("unknown broker", BROKER, "99"),
    describe_config("broker that is no number", BROKER, "one"),
    describe_config("unknown kind of resource", 77, "plain"),
    describe_config("no topic", TOPIC, ""),
    describe_config("no group", GROUP, ""),
    describe_config("all brokers", BROKER, ""),
    alter_config("good", "retention.ms", "1000"),
    alter_config("unknown config", "no.such.config", "1"),
    alter_config("bad value", "retention.ms", "soon"),
    alter_config("append to what is no list", "retention.ms", "1", APPEND),
    alter_config("append to a list", "cleanup.policy", "compact", APPEND),
    alter_config("set to null", "retention.ms", None),
    alter_config("delete what was not set", "retention.ms", None, DELETE),
    alter_config("unknown topic", "retention.ms", "1", resource="absent"),
    alter_config("unknown broker", "log.retention.ms", "1", kind=BROKER, resource="99"),
    alter_config("read-only setting", "log.dirs", "/elsewhere", kind=BROKER, resource="1"),
    alter_config("unknown kind of resource", "retention.ms", "1", kind=77),
    alter_config("unknown operation", "retention.ms", "1", 7),
    alter_config("no topic", "retention.ms", "1", resource=""),
    alter_config("bad topic name", "retention.ms", "1", resource="a b"),
    alter_config("no name", "", "1"),
    alter_config("lags that exclude each other", "min.compaction.lag.ms", "9223372036854775807"),
    alter_config("remote storage", "remote.storage.enable", "true"),
    alter_config("subtract from what is no list", "retention.ms", "1", SUBTRACT),
    alter_config("append null", "cleanup.policy", None, APPEND),
    alter_config("no group", "consumer.session.timeout.ms", "50000", kind=GROUP, resource=""),
    alter_config("unknown group config", "retention.ms", "1", kind=GROUP, resource="group"),
    alter_config("group set to null", SESSION, None, kind=GROUP, resource="group"),
    alter_config("group append", SESSION, "1", APPEND, kind=GROUP, resource="group"),
    alter_config("broker that is no number", "log.retention.ms", "1", kind=BROKER, resource="one"),
    alter_config("unknown broker config", "no.such.config", "1", kind=BROKER, resource="1"),
    alter_config("broker set to null", "log.retention.ms", None, kind=BROKER, resource="1"),
    alter_config("broker append", "log.retention.ms", "1", APPEND, kind=BROKER, resource="1"),
    alter_config("read-only default", "log.dirs", "/elsewhere", kind=BROKER, resource=""),
    alter_config("per-broker default", PER_BROKER, "/elsewhere", kind=BROKER, resource=""),
    alter_config("no connections", "max.connections", "0", kind=BROKER, resource="1"),
    alter_config("a listener's limit", LISTENER_LIMIT, "5", kind=BROKER, resource="1"),
    alter_config("a listener without connections", LISTENER_LIMIT, "0", kind=BROKER, resource="1"),
    alter_config("a listener's limit that is none", LISTENER_LIMIT, "x", kind=BROKER, resource=""),
    alter_listeners("one more"),
    alter_listeners("of all brokers", resource=""),
    alter_listeners("what is advertised", advertised_listeners="PLAINTEXT://127.0.0.1:1"),
    alter_listeners("without a protocol", listener_security_protocol_map="PLAINTEXT:PLAINTEXT"),
    alter_listeners(
        "another protocol",
        listener_security_protocol_map="PLAINTEXT:SSL,CONTROLLER:PLAINTEXT,EXTRA:PLAINTEXT",
    ),
    alter_listeners(
        "not the one between brokers", listeners="CONTROLLER://127.0.0.1:0,EXTRA://127.0.0.1:0"
    ),
    alter_listeners(
        "no name twice",
        listeners="PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0,PLAINTEXT://127.0.0.1:1",
    ),
    alter_listeners(
        "no port twice",
        listeners="PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:0,EXTRA://127.0.0.1:1",
    ),
    alter_listeners("another setting of one", listener_name_plaintext_sasl_jaas_config="x"),
    alter_config("unknown per-broker", "broker.id", "7", kind=BROKER, resource="1"),
    alter_twice("config twice", 1, 2),
    alter_twice("resource twice", 2, 1),
    replace_config("good", "retention.ms", "1000"),
    replace_config("unknown config", "no.such.config", "1"),
    replace_config("no topic", "retention.ms", "1", resource_name=""),
    replace_config("unknown kind of resource", "retention.ms", "1", resource_type=77),
    replace_config("unknown broker", "log.retention.ms", "1", resource_type=4, resource_name="99"),
    replace_config("read-only setting", "log.dirs", "/", resource_type=4, resource_name="1"),
    replace_config("bad value", "retention.ms", "soon"),
    replace_config("null", "retention.ms", None),
    replace_config("unknown topic", "retention.ms", "1", resource_name="absent"),
    delete_records("beyond the end", 1000),
    delete_records("negative", -2),
    delete_records("unknown partition", 0, partition=9),
    delete_records("unknown topic", 0, topic="absent"),
    delete_records("compacted topic", 0, topic="compacted"),
    list_offsets("latest", -1),
    list_offsets("unknown partition", -1, partition=9),
    list_offsets("unknown topic", -1, topic="absent"),
    list_offsets("epoch of the future", -1, epoch=99),
    list_offsets("unknown special timestamp", -17),
    fetch("good"),
    fetch("beyond the end", 1000),
    fetch("negative", -5),
    fetch("unknown partition", partition=9),
    fetch("unknown topic", topic="absent"),
    fetch("epoch of the future", epoch=99),
    fetch("unknown session", session=(12345, 1)),
    produce("good", Batch(ONE)),
    produce("nothing acknowledged but the leader", Batch(ONE), acks=1),
    produce("unknown topic", Batch(ONE), topic="absent"),
    produce("unknown partition", Batch(ONE), partition=9),
    produce("two acks", Batch(ONE), acks=2),
    produce("wrong checksum", Batch(ONE, crc_change=1)),
    produce("batch cut short", lambda: Batch(ONE).encode()[:-3]),
    produce("length too small", Batch(ONE, length_change=-60)),
    produce("two batches", lambda: Batch(ONE).encode() * 2),
    produce("no batch", lambda: b""),
    produce("message format 0", lambda: old_message(0)),
    produce("message format 1", lambda: old_message(1)),
    produce("count and last offset differ", Batch(TWO, last_offset_delta=7)),
    produce("negative last offset", Batch(TWO, last_offset_delta=-1)),
    produce("no records", Batch((), last_offset_delta=0, count=0)),
    produce("control batch", Batch(ONE, attributes=CONTROL)),
    produce("too large", Batch(((None, incompressible(600)),)), "small-batches"),
    produce("no key in a compacted topic", Batch(((None, b"v"),)), "compacted"),
    produce(
        "no key in a compressed batch of a compacted topic",
        Batch(((b"k", b"v"), (None, b"v")), attributes=GZIP),
        "compacted",
    ),
    produce(
        "too old",
        lambda: Batch(ONE, timestamp_ms=int(time.time() * 1000) - 2 * HOUR_MS).encode(),
        "recent-only",
    ),
    produce(
        "too far ahead",
        lambda: Batch(ONE, timestamp_ms=int(time.time() * 1000) + 2 * HOUR_MS).encode(),
        "recent-only",
    ),
    produce("zstd before version 7", Batch(ONE, attributes=4), version=6),
    produce(
        "new producer that does not start at 0",
        Batch(ONE, producer_id=777_001, producer_epoch=1, base_sequence=5),
    ),
    produce(
        "producer without sequence",
        Batch(ONE, producer_id=777_002, producer_epoch=0, base_sequence=-1),
    ),
    produce(
        "transactional batch without a transaction",
        Batch(
            ONE, attributes=TRANSACTIONAL, producer_id=777_003, producer_epoch=0, base_sequence=0
        ),
    ),
    epoch_end("good"),
    epoch_end("unknown partition", partition=9),
    epoch_end("epoch of the future", current=99),
    metadata("good", "plain"),
    metadata("unknown topic", "absent"),
    metadata("bad name", "a b"),
    metadata("unknown id", None, NO_ID),
    describe_cluster("controllers", 2),
    describe_cluster("unknown kind of endpoint", 3),
    Case(
        "describe producers: unknown topic",
        lambda: request(
            "describe_producers", 0, topics=[{"name": "absent", "partition_indexes": [0]}]
        ),
    ),
    Case(
        "alter replica log dirs: unknown directory and partition",
        lambda: request(
            "alter_replica_log_dirs",
            2,
            dirs=[
                {"path": "/nowhere", "topics": [{"name": "plain", "partitions": [0]}]},
                {"path": "/nowhere else", "topics": [{"name": "absent", "partitions": [0]}]},
            ],
        ),
    ),
    Case(
        "describe producers: unknown partition",
        lambda: request(
            "describe_producers", 0, topics=[{"name": "plain", "partition_indexes": [9]}]
        ),
    ),
    Case(
        "describe topic partitions: unknown topic",
        lambda: request(
            "describe_topic_partitions", 0, topics=[{"name": "absent"}], response_partition_limit=10
        ),
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
    ),
]
