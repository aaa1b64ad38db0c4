"""Requests about the cluster to which a broker that is alone, without an authorizer, answers as
Apache Kafka does to the letter.
"""

from __future__ import annotations

from typing import Any

from tests.compat.bad_requests import APPEND, DELETE, SET, SOON, SUBTRACT, Case
from tests.support.requests import request

BROKER_LOGGER, CLIENT_METRICS = 8, 16
PREFERRED, UNCLEAN = 0, 1

ACL_FILTER = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
ACL = {
    "resource_type": 2,
    "resource_name": "plain",
    "resource_pattern_type": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


def ask(name: str, api: str, version: int, **fields: Any) -> Case:
    return Case(f"{api} {version}: {name}", lambda: request(api, version, **fields))


def elect(
    name: str, *partitions: tuple[str, list[int]], kind: int = PREFERRED, version: int = 2
) -> Case:
    wanted = [{"topic": topic, "partitions": numbers} for topic, numbers in partitions]
    fields = {"election_type": kind} if version else {}
    return ask(name, "elect_leaders", version, topic_partitions=wanted, timeout=SOON, **fields)


def reassign(name: str, replicas: list[int], topic: str = "plain", partition: int = 0) -> Case:
    partitions = [{"partition_index": partition, "replicas": replicas}]
    topics = [{"name": topic, "partitions": partitions}]
    return ask(name, "alter_partition_reassignments", 1, topics=topics, timeout=SOON)


def update_feature(name: str, feature: str, level: int, upgrade: int = 1) -> Case:
    update = {"feature": feature, "max_version_level": level, "upgrade_type": upgrade}
    return ask(name, "update_features", 2, feature_updates=[update], timeout=SOON)


def describe(name: str, kind: int, resource: str) -> Case:
    wanted = {"resource_type": kind, "resource_name": resource, "configuration_keys": None}
    return ask(name, "describe_configs", 4, resources=[wanted], include_synonyms=True)


def alter(
    name: str, kind: int, resource: str, config: str, value: str | None, operation: int = SET
) -> Case:
    change = {"name": config, "config_operation": operation, "value": value}
    wanted = {"resource_type": kind, "resource_name": resource, "configs": [change]}
    return ask(name, "incremental_alter_configs", 1, resources=[wanted], validate_only=True)


def subscribe(name: str, config: str, value: str, **how: Any) -> Case:
    return alter(f"client metrics, {name}", CLIENT_METRICS, "s", config, value, **how)


def set_level(name: str, logger: str, level: str | None, broker: str = "1", **how: Any) -> Case:
    return alter(f"loggers, {name}", BROKER_LOGGER, broker, logger, level, **how)


QUESTIONS = [
    *(ask("all", "describe_acls", version, **ACL_FILTER) for version in (1, 3)),
    ask("two", "create_acls", 3, creations=[ACL, ACL]),
    ask("two", "delete_acls", 3, filters=[ACL_FILTER, ACL_FILTER]),
    ask("all", "describe_delegation_token", 3, owners=None),
    *(elect("led already", ("plain", [0]), version=version) for version in (0, 1, 2)),
    elect("led already, unclean", ("plain", [0]), kind=UNCLEAN),
    elect("unknown", ("absent", [0]), ("plain", [9])),
    elect("named twice", ("plain", [0, 0]), ("plain", [0])),
    elect("of no known type", ("plain", [0]), kind=7),
    elect("nothing"),
    reassign("as it is", [1]),
    reassign("unknown broker", [2]),
    reassign("one more broker, unknown", [1, 2]),
    reassign("no broker", []),
    reassign("a broker twice", [1, 1]),
    reassign("unknown topic", [1], topic="absent"),
    reassign("unknown partition", [1], partition=9),
    ask("all", "list_partition_reassignments", 0, topics=None, timeout=SOON),
    ask(
        "unknown",
        "list_partition_reassignments",
        0,
        topics=[{"name": "absent", "partition_indexes": [0]}],
        timeout=SOON,
    ),
    ask("all", "describe_user_scram_credentials", 0, users=None),
    ask(
        "unknown and named twice",
        "describe_user_scram_credentials",
        0,
        users=[{"name": "bob"}, {"name": "alice"}, {"name": "bob"}],
    ),
    update_feature("unknown", "no.such", 1),
    update_feature("removed", "no.such", 0, upgrade=2),
    update_feature("negative", "no.such", -1),
    update_feature("upgrade of no known type", "no.such", 1, upgrade=9),
    ask("unknown", "unregister_broker", 0, broker_id=7),
    describe("client metrics, nobody's", CLIENT_METRICS, "nobody"),
    describe("client metrics, no name", CLIENT_METRICS, ""),
    describe("loggers, no broker", BROKER_LOGGER, ""),
    describe("loggers, no number", BROKER_LOGGER, "one"),
    describe("loggers, another broker", BROKER_LOGGER, "2"),
    subscribe("good", "match", "client_id=a.*,client_source_port=9092"),
    subscribe("unknown setting", "retention.ms", "1"),
    subscribe("too often", "interval.ms", "99"),
    subscribe("too rarely", "interval.ms", "3600001"),
    subscribe("unknown selector", "match", "who=me"),
    subscribe("no pattern", "match", "client_id"),
    subscribe("two equals signs", "match", "client_id=a=b"),
    subscribe("bad pattern", "match", "client_id=("),
    subscribe("append", "metrics", "a", operation=APPEND),
    subscribe("append to what is no list", "interval.ms", "1", operation=APPEND),
    alter("client metrics, no name", CLIENT_METRICS, "", "metrics", "*"),
    alter("unknown kind", 3, "x", "metrics", "*"),
    set_level("good", "root", "INFO"),
    set_level("unknown logger", "no.such", "INFO"),
    set_level("unknown logger deleted", "no.such", None, operation=DELETE),
    set_level("unknown level", "root", "LOUD"),
    set_level("level in small letters", "root", "info"),
    set_level("root deleted", "root", None, operation=DELETE),
    set_level("append", "root", "INFO", operation=APPEND),
    set_level("subtract", "root", "INFO", operation=SUBTRACT),
    set_level("another broker", "root", "INFO", broker="2"),
    set_level("no broker", "root", "INFO", broker=""),
]
