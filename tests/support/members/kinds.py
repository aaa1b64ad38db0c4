"""The kinds of group members: a client, the way it joins, and how it is started."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from tests.support import java

NODE_MEMBER = java.ROOT / "tests/node/member.js"
SESSION_MS = 60_000
"""Longer than any pause of a busy machine; tests of members that die or freeze ask for less."""
HEARTBEAT_MS = 200

GROUP_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "200",
    "offsets.topic.replication.factor": "1",
}
"""Broker settings that let rebalances happen in tenths of seconds instead of seconds."""


@dataclass(frozen=True)
class Place:
    """Which group a member joins, and under which name."""

    bootstrap: str
    group: str
    topic: str
    directory: Path
    session_ms: int = SESSION_MS
    instance: str | None = None
    max_poll_ms: int = 300_000


@dataclass(frozen=True)
class MemberKind:
    client: str
    """Column of the compatibility table."""
    protocol: str
    """Row of the compatibility table."""
    command: Callable[[Place], list[str]]
    static: bool = False

    def __str__(self) -> str:
        return f"{self.client}, {self.protocol}".replace(" ", "-")


def _script(module: str, settings: Mapping[str, object], place: Place) -> list[str]:
    command = [sys.executable, "-m", f"tests.support.members.{module}"]
    return [*command, json.dumps(settings), place.topic]


def _confluent(**extra: object) -> Callable[[Place], list[str]]:
    def command(place: Place) -> list[str]:
        settings: dict[str, object] = {
            "bootstrap.servers": place.bootstrap,
            "group.id": place.group,
            "max.poll.interval.ms": place.max_poll_ms,
            "fetch.wait.max.ms": 50,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 300,
            "topic.metadata.refresh.interval.ms": 1000,
            **{name.replace("_", "."): value for name, value in extra.items()},
        }
        if settings.get("group.protocol") != "consumer":
            settings["session.timeout.ms"] = place.session_ms
            settings["heartbeat.interval.ms"] = HEARTBEAT_MS
        if place.instance is not None:
            settings["group.instance.id"] = place.instance
        return _script("confluent", settings, place)

    return command


def _by_pattern(command: Callable[[Place], list[str]]) -> Callable[[Place], list[str]]:
    """Subscribes by a pattern, which librdkafka leaves to the coordinator."""
    return lambda place: command(replace(place, topic=f"^{re.escape(place.topic)}$"))


def _moldau(**extra: object) -> Callable[[Place], list[str]]:
    def command(place: Place) -> list[str]:
        settings: dict[str, object] = {
            "bootstrap_servers": place.bootstrap,
            "group_id": place.group,
            "max_poll_interval_ms": place.max_poll_ms,
            "fetch_max_wait_ms": 50,
            "metadata_max_age_ms": 1000,
            "reconnect_backoff_max_ms": 300,
            **extra,
        }
        if settings.get("group_protocol") != "consumer":
            settings["session_timeout_ms"] = place.session_ms
            settings["heartbeat_interval_ms"] = HEARTBEAT_MS
        if place.instance is not None:
            settings["group_instance_id"] = place.instance
        return _script("moldau", settings, place)

    return command


def _kafka_python(place: Place) -> list[str]:
    settings = {
        "bootstrap_servers": place.bootstrap,
        "group_id": place.group,
        "session_timeout_ms": place.session_ms,
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "fetch_max_wait_ms": 50,
        "metadata_max_age_ms": 1000,
    }
    return _script("kafka_python", settings, place)


def _aiokafka(place: Place) -> list[str]:
    settings = {
        "bootstrap_servers": place.bootstrap,
        "group_id": place.group,
        "session_timeout_ms": place.session_ms,
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "fetch_max_wait_ms": 50,
        "retry_backoff_ms": 100,
        "metadata_max_age_ms": 1000,
    }
    return _script("aiokafka", settings, place)


def _java(protocol: str, assignor: str | None = None) -> Callable[[Place], list[str]]:
    def command(place: Place) -> list[str]:
        lines = {"fetch.max.wait.ms": "50", "reconnect.backoff.max.ms": "300"}
        args = ["--bootstrap-server", place.bootstrap, "--topic", place.topic, "--verbose"]
        args += ["--group-id", place.group, "--group-protocol", protocol]
        args += ["--reset-policy", "earliest"]
        if protocol == "classic":
            lines["heartbeat.interval.ms"] = str(HEARTBEAT_MS)
            args += ["--session-timeout", str(place.session_ms)]
        if assignor is not None:
            args += ["--assignment-strategy", f"org.apache.kafka.clients.consumer.{assignor}"]
        if place.instance is not None:
            args += ["--group-instance-id", place.instance]
        # Of this member alone: another JVM may be reading its own.
        file = place.directory / f"{uuid4().hex}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        args += ["--command-config", str(file)]
        return [*java.java_command(java.VERIFIABLE_CONSUMER), *args]

    return command


def _kafkajs(place: Place) -> list[str]:
    settings = {
        "brokers": place.bootstrap.split(","),
        "group": {
            "groupId": place.group,
            "sessionTimeout": place.session_ms,
            "heartbeatInterval": HEARTBEAT_MS,
            "rebalanceTimeout": SESSION_MS,
            "maxWaitTimeInMs": 50,
            "metadataMaxAge": 1000,
            "retry": {"initialRetryTime": 100, "maxRetryTime": 1000, "retries": 60},
        },
    }
    return ["node", str(NODE_MEMBER), json.dumps(settings), place.topic]


EAGER = "eager"
COOPERATIVE = "cooperative"
CONSUMER_PROTOCOL = "consumer protocol (KIP-848)"

CONFLUENT_EAGER = MemberKind(
    "confluent-kafka", EAGER, _confluent(partition_assignment_strategy="range")
)
CONFLUENT_COOPERATIVE = MemberKind(
    "confluent-kafka", COOPERATIVE, _confluent(partition_assignment_strategy="cooperative-sticky")
)
CONFLUENT_CONSUMER = MemberKind(
    "confluent-kafka", CONSUMER_PROTOCOL, _confluent(group_protocol="consumer")
)
CONFLUENT_PATTERN = MemberKind(
    "confluent-kafka", CONSUMER_PROTOCOL, _by_pattern(_confluent(group_protocol="consumer"))
)
JAVA_EAGER = MemberKind("Java client", EAGER, _java("classic", "RangeAssignor"))
JAVA_COOPERATIVE = MemberKind(
    "Java client", COOPERATIVE, _java("classic", "CooperativeStickyAssignor")
)
JAVA_CONSUMER = MemberKind("Java client", CONSUMER_PROTOCOL, _java("consumer"))
JAVA_ROUND_ROBIN = MemberKind("Java client", EAGER, _java("classic", "RoundRobinAssignor"))
JAVA_STICKY = MemberKind("Java client", EAGER, _java("classic", "StickyAssignor"))
CONFLUENT_ROUND_ROBIN = MemberKind(
    "confluent-kafka", EAGER, _confluent(partition_assignment_strategy="roundrobin")
)
MOLDAU_EAGER = MemberKind("moldau", EAGER, _moldau(partition_assignment_strategy=["range"]))
MOLDAU_ROUND_ROBIN = MemberKind(
    "moldau", EAGER, _moldau(partition_assignment_strategy=["roundrobin"])
)
MOLDAU_STICKY = MemberKind("moldau", EAGER, _moldau(partition_assignment_strategy=["sticky"]))
MOLDAU_COOPERATIVE = MemberKind(
    "moldau", COOPERATIVE, _moldau(partition_assignment_strategy=["cooperative-sticky"])
)
MOLDAU_CONSUMER = MemberKind("moldau", CONSUMER_PROTOCOL, _moldau(group_protocol="consumer"))
KAFKA_PYTHON = MemberKind("kafka-python", EAGER, _kafka_python)
AIOKAFKA = MemberKind("aiokafka", EAGER, _aiokafka)
KAFKAJS = MemberKind("kafkajs", EAGER, _kafkajs)

MEMBER_KINDS = (
    CONFLUENT_EAGER,
    CONFLUENT_COOPERATIVE,
    CONFLUENT_CONSUMER,
    KAFKA_PYTHON,
    AIOKAFKA,
    JAVA_EAGER,
    JAVA_COOPERATIVE,
    JAVA_CONSUMER,
    KAFKAJS,
)
STATIC_KINDS = (
    CONFLUENT_EAGER,
    CONFLUENT_COOPERATIVE,
    CONFLUENT_CONSUMER,
    JAVA_EAGER,
    JAVA_CONSUMER,
)
