"""A broker that is missing is named, with what misses it."""

from __future__ import annotations

from uuid import UUID

from moldau.cli.cluster import _complaint, _disk_complaints
from moldau.cli.cluster_report import document
from moldau.client.admin import ClusterDescription, LogDir
from moldau.client.metadata import PartitionInfo, TopicInfo
from moldau.errors import ErrorCode, KafkaError
from moldau.model import Node, TopicPartition

CLUSTER = ClusterDescription("id", 1, (Node(1, "host", 9092), Node(2, "host", 9093)))


def topic(name: str, *partitions: PartitionInfo) -> TopicInfo:
    return TopicInfo(name, UUID(int=1), False, dict(enumerate(partitions)), ())


def partition(leader: int, isr: tuple[int, ...]) -> PartitionInfo:
    return PartitionInfo(0, leader, 1, (1, 2, 3), isr, ())


def test_brokers_that_are_down_or_silent_are_shown() -> None:
    sizes = {TopicPartition("orders", 0): 10, TopicPartition("orders", 1): 20}
    log_dirs: dict[int, list[LogDir] | None] = {1: [LogDir(1, "/d", None, sizes, 100, 50)], 2: None}
    topics = [topic("orders", partition(1, (1, 2)), partition(-1, ()))]
    shown = document(CLUSTER, topics, log_dirs)
    assert shown["partitions"] == {"total": 2, "under_replicated": 2, "offline": 1}
    states = [(one["id"], one["state"], one["size"]) for one in shown["brokers"]]
    assert states == [(1, "up", 30), (2, "silent", None), (3, "down", None)]
    up, silent, down = shown["brokers"]
    assert (down["host"], down["replica_of"], down["leader_of"]) == (None, 2, 0)
    assert (up["leader_of"], up["out_of_sync"]) == (1, ["orders-1"])
    assert _complaint(down) == "Broker 3 is down; missed by orders-0, orders-1."
    assert _complaint(silent) == "Broker 2 does not answer; missed by orders-1."


def test_disks_that_take_nothing_are_named() -> None:
    offline = LogDir(1, "/offline", KafkaError(ErrorCode.KAFKA_STORAGE_ERROR), {}, -1, -1)
    full = LogDir(1, "/full", None, {}, 1 << 30, 4096)
    unknown = LogDir(1, "/unknown", None, {}, -1, -1)
    broker, _ = document(CLUSTER, [], {1: [offline, full, unknown], 2: []})["brokers"]
    assert list(_disk_complaints(broker)) == [
        "/offline of broker 1 is offline: KAFKA_STORAGE_ERROR.",
        "/full of broker 1 is full: appends to what it holds are refused.",
    ]


def test_of_many_partitions_some_are_named() -> None:
    topics = [topic("orders", *[partition(1, (1, 2))] * 7)]
    *_, down = document(CLUSTER, topics, {1: [], 2: []})["brokers"]
    names = "orders-0, orders-1, orders-2, orders-3, orders-4 and 2 more"
    assert _complaint(down) == f"Broker 3 is down; missed by {names}."
