"""Requests to groups that a coordinator must refuse; the first ones make the groups."""

from __future__ import annotations

import datetime as dt
from typing import Any

from tests.compat.bad_requests import NO_ID, Case
from tests.support.requests import request

LONG = dt.timedelta(minutes=10)
UNSAID = dt.timedelta(milliseconds=-1)
NO_TOPICS = bytes(6) + b"\xff" * 4
"""A subscription; Kafka never answers a member that brings something else."""
MODERN, CLASSIC = "modern", "classic"
MEMBER, STATIC, INSTANCE = "member", "static", "instance"


def heartbeat(name: str, epoch: int = 0, version: int = 1, **fields: Any) -> Case:
    """ConsumerGroupHeartbeat; one with epoch 0 joins unless something else is said."""
    joins: dict[str, Any] = {
        "rebalance_timeout": LONG,
        "subscribed_topic_names": ["plain"],
        "topic_partitions": [],
    }
    says: dict[str, Any] = joins if epoch == 0 else {"rebalance_timeout": UNSAID}
    says = {"group_id": MODERN, "member_id": MEMBER, "member_epoch": epoch, **says, **fields}
    for absent in ("instance_id", "rack_id", "subscribed_topic_names", "server_assignor"):
        says.setdefault(absent, None)
    says.setdefault("topic_partitions", None)
    if version:
        says.setdefault("subscribed_topic_regex", None)
    return Case(
        f"consumer group heartbeat: {name}",
        lambda: request("consumer_group_heartbeat", version, **says),
    )


def joins(name: str, group: str, protocol_type: str = "consumer", version: int = 3) -> Case:
    return Case(
        f"join group: {name}",
        lambda: request(
            "join_group",
            version,
            group_id=group,
            session_timeout=LONG,
            rebalance_timeout=LONG,
            member_id="",
            protocol_type=protocol_type,
            protocols=[{"name": "range", "metadata": NO_TOPICS}],
        ),
    )


def describes_modern(name: str, *groups: str) -> Case:
    return Case(
        f"consumer group describe: {name}",
        lambda: request(
            "consumer_group_describe",
            1,
            group_ids=list(groups),
            include_authorized_operations=False,
        ),
    )


def describes(name: str, *groups: str, version: int = 6) -> Case:
    return Case(
        f"describe groups: {name}",
        lambda: request(
            "describe_groups", version, groups=list(groups), include_authorized_operations=False
        ),
    )


def deletes(name: str, *groups: str) -> Case:
    return Case(
        f"delete groups: {name}", lambda: request("delete_groups", 2, groups_names=list(groups))
    )


def deletes_offset(name: str, group: str, topic: str = "plain") -> Case:
    wanted = {"name": topic, "partitions": [{"partition_index": 0}]}
    return Case(
        f"offset delete: {name}",
        lambda: request("offset_delete", 0, group_id=group, topics=[wanted]),
    )


def finds(name: str, key: str, key_type: int = 0, version: int = 6) -> Case:
    fields: dict[str, Any] = {"key": key} if version < 4 else {"coordinator_keys": [key]}
    return Case(
        f"find coordinator: {name}",
        lambda: request("find_coordinator", version, key_type=key_type, **fields),
    )


HELD = [{"topic_id": NO_ID, "partitions": [0]}]

CASES = [
    heartbeat("good"),
    heartbeat("static member", member_id=STATIC, instance_id=INSTANCE),
    joins("good", CLASSIC, "connect"),
    heartbeat("no group id", group_id=""),
    heartbeat("no member id", member_id=""),
    heartbeat("no member id later, version 0", 1, version=0, member_id=""),
    heartbeat("no instance id", instance_id=""),
    heartbeat("no rack id", rack_id=""),
    heartbeat("no rebalance timeout", rebalance_timeout=UNSAID),
    heartbeat("partitions not said", topic_partitions=None),
    heartbeat("joins with partitions", topic_partitions=HELD),
    heartbeat("no subscription", subscribed_topic_names=None),
    heartbeat("unknown assignor", server_assignor="mine"),
    heartbeat("pattern that is none", subscribed_topic_names=None, subscribed_topic_regex="a("),
    heartbeat("negative epoch", -3),
    heartbeat("leaves for a while without instance id", -2),
    heartbeat("unknown group", 5, group_id="absent"),
    heartbeat("leaves unknown group", -1, group_id="absent"),
    heartbeat("unknown member", 5, member_id="stranger"),
    heartbeat("unknown member leaves", -1, member_id="stranger"),
    heartbeat("epoch too high", 99),
    heartbeat("epoch too low", 1, topic_partitions=HELD),
    heartbeat("instance id in use", member_id="stranger", instance_id=INSTANCE),
    heartbeat("fenced instance", 5, member_id="stranger", instance_id=INSTANCE),
    heartbeat("unknown instance", 5, instance_id="nobody"),
    heartbeat("fenced instance leaves", -1, member_id="stranger", instance_id=INSTANCE),
    heartbeat("unknown instance leaves", -1, instance_id="nobody"),
    heartbeat("classic group that cannot be upgraded", group_id=CLASSIC),
    heartbeat("classic group, later", 5, group_id=CLASSIC),
    heartbeat("leaves classic group", -1, group_id=CLASSIC),
    joins("no group id", ""),
    joins("group of another protocol type", MODERN, "connect"),
    joins("no protocol type", "other", ""),
    joins("without member id", "other", version=4),
    describes_modern("good", MODERN),
    describes_modern("unknown", "absent"),
    describes_modern("no group id", ""),
    describes_modern("classic group", CLASSIC),
    describes("good", CLASSIC),
    describes("unknown", "absent"),
    describes("unknown, version 5", "absent", version=5),
    describes("no group id", ""),
    describes("modern group", MODERN),
    deletes("with members", MODERN),
    deletes("with classic members", CLASSIC),
    deletes("unknown", "absent"),
    deletes("no group id", ""),
    deletes_offset("subscribed", MODERN),
    deletes_offset("unknown group", "absent"),
    deletes_offset("unknown topic", MODERN, "absent"),
    finds("good", MODERN),
    finds("no group id", ""),
    finds("no group id, version 3", "", version=3),
    finds("unknown kind", MODERN, 7),
    finds("unknown kind, version 3", MODERN, 7, version=3),
]
