"""Settings of groups: asked, changed and listed, by raw requests and by Kafka's own tool."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from tests.compat.group_configs import DELETE, SET, GroupConfigs
from tests.support import java
from tests.support.target import Target

PATIENCE_S = 120.0
BROKER = 4
APPEND = 2
DEFAULT_BROKER, DEFAULT, OWN = 3, 5, 8
INT, STRING, BOOLEAN = 3, 2, 1

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"
RESET = "share.auto.offset.reset"

SETTINGS = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "offsets.topic.replication.factor": "1",
}

ALL = {
    SESSION: ("45000", INT),
    HEARTBEAT: ("5000", INT),
    ASSIGNMENT: ("1000", INT),
    "share.session.timeout.ms": ("45000", INT),
    "share.heartbeat.interval.ms": ("5000", INT),
    "share.record.lock.duration.ms": ("30000", INT),
    "share.delivery.count.limit": ("5", INT),
    "share.partition.max.record.locks": ("2000", INT),
    "share.assignment.interval.ms": ("1000", INT),
    RESET: ("latest", STRING),
    "share.isolation.level": ("read_uncommitted", STRING),
    "share.renew.acknowledge.enable": ("true", BOOLEAN),
    "streams.session.timeout.ms": ("45000", INT),
    "streams.heartbeat.interval.ms": ("5000", INT),
    "streams.num.standby.replicas": ("0", INT),
    "streams.initial.rebalance.delay.ms": ("3000", INT),
    "streams.assignment.interval.ms": ("1000", INT),
}

REFUSED: list[tuple[tuple[str, int, str | None], str]] = [
    ((SESSION, SET, "500"), "INVALID_CONFIG"),
    ((SESSION, SET, "60001"), "INVALID_CONFIG"),
    ((SESSION, SET, "0"), "INVALID_CONFIG"),
    ((SESSION, SET, "soon"), "INVALID_CONFIG"),
    ((SESSION, SET, ""), "INVALID_CONFIG"),
    ((SESSION, SET, None), "INVALID_REQUEST"),
    ((SESSION, SET, "5000"), "INVALID_CONFIG"),  # not longer than the heartbeat interval
    ((SESSION, APPEND, "3000"), "INVALID_CONFIG"),
    ((HEARTBEAT, SET, "50"), "INVALID_CONFIG"),
    ((HEARTBEAT, SET, "15001"), "INVALID_CONFIG"),
    ((ASSIGNMENT, SET, "-1"), "INVALID_CONFIG"),
    ((ASSIGNMENT, SET, "15001"), "INVALID_CONFIG"),
    (("share.session.timeout.ms", SET, "44000"), "INVALID_CONFIG"),
    (("share.delivery.count.limit", SET, "11"), "INVALID_CONFIG"),
    (("share.isolation.level", SET, "none"), "INVALID_CONFIG"),
    (("share.renew.acknowledge.enable", SET, "maybe"), "INVALID_CONFIG"),
    (("streams.num.standby.replicas", SET, "3"), "INVALID_CONFIG"),
    ((RESET, SET, "somewhere"), "INVALID_CONFIG"),
    ((RESET, SET, "by_duration:"), "INVALID_CONFIG"),
    ((RESET, SET, "by_duration:PT"), "INVALID_CONFIG"),
    ((RESET, SET, "by_duration:-PT1H"), "INVALID_CONFIG"),
    (("retention.ms", SET, "1"), "INVALID_CONFIG"),
    (("group.consumer.session.timeout.ms", SET, "50000"), "INVALID_CONFIG"),
    (("consumer.assignor.offload.enable", SET, "true"), "INVALID_CONFIG"),
]

ACCEPTED: list[tuple[str, int, str | None]] = [
    (SESSION, SET, "5001"),
    (SESSION, SET, "60000"),
    (HEARTBEAT, SET, "100"),
    (ASSIGNMENT, SET, "0"),
    (RESET, SET, "by_duration:PT1H30M"),
    (RESET, SET, "by_duration:P2DT0.5S"),
    ("streams.num.standby.replicas", SET, "2"),
    ("no.such.setting", DELETE, None),
]


@pytest.fixture
def broker(new_target: Callable[[dict[str, str]], Target]) -> Target:
    return new_target(SETTINGS)


@pytest.fixture
def admin(broker: Target) -> Iterator[GroupConfigs]:
    client = GroupConfigs(broker.bootstrap)
    yield client
    client.close()


T = TypeVar("T")


def eventually(read: Callable[[], T], expected: T) -> None:
    """Kafka's broker learns of a change after its controller has answered."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := read()) != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found == expected


def synonyms(entry: Any) -> list[tuple[str, str, int]]:
    return [(one.name, one.value, one.source) for one in entry.synonyms]


def test_what_a_group_can_be_given(admin: GroupConfigs) -> None:
    entries = admin.describe("nobody")
    assert {name: (one.value, one.config_type) for name, one in entries.items()} == ALL
    assert {one.config_source for one in entries.values()} == {DEFAULT}
    assert not any(one.read_only or one.is_sensitive for one in entries.values())
    assert synonyms(entries[SESSION]) == [(f"group.{SESSION}", "45000", DEFAULT)]
    assert synonyms(entries[RESET]) == [(RESET, "latest", DEFAULT)]
    assert admin.describe("nobody", HEARTBEAT, "no.such").keys() == {HEARTBEAT}

    for change, code in REFUSED:
        assert (change, admin.change("g", change)) == (change, code)
    assert admin.listed() == set()
    for change in ACCEPTED:
        assert (change, admin.change("g", change, dry=True)) == (change, "NONE")
    assert admin.listed() == set()
    assert admin.change("g", (SESSION, SET, "50000"), (SESSION, DELETE, None)) == "INVALID_REQUEST"
    assert admin.change("", (SESSION, SET, "50000")) == "INVALID_REQUEST"


def test_a_groups_settings_come_and_go(admin: GroupConfigs) -> None:
    assert admin.change("orders", (SESSION, SET, "50000"), (RESET, SET, "earliest")) == "NONE"
    assert admin.change("a group/with .. odd name", (SESSION, SET, "51000")) == "NONE"
    assert admin.change("..", (SESSION, SET, "52000")) == "NONE"
    eventually(admin.listed, {"orders", "a group/with .. odd name", ".."})
    entries = admin.describe("orders")
    assert (entries[SESSION].value, entries[SESSION].config_source) == ("50000", OWN)
    own, behind = (SESSION, "50000", OWN), (f"group.{SESSION}", "45000", DEFAULT)
    assert synonyms(entries[SESSION]) == [own, behind]
    assert synonyms(entries[RESET]) == [(RESET, "earliest", OWN), (RESET, "latest", DEFAULT)]
    assert admin.describe("..")[SESSION].value == "52000"

    assert admin.replace("orders", **{HEARTBEAT: "200"}) == "NONE"
    eventually(
        lambda: [admin.describe("orders")[name].value for name in (SESSION, HEARTBEAT, RESET)],
        ["45000", "200", "latest"],
    )
    assert admin.replace("orders", **{"no.such": "1"}) == "INVALID_CONFIG"
    assert admin.replace("orders") == "NONE"
    assert admin.change("..", (SESSION, DELETE, None)) == "NONE"
    eventually(admin.listed, {"a group/with .. odd name"})


def test_a_setting_of_all_brokers_is_behind_those_of_groups(admin: GroupConfigs) -> None:
    broker_wide = f"group.{ASSIGNMENT}"
    assert admin.change("", (broker_wide, SET, "2000"), kind=BROKER) == "NONE"
    eventually(lambda: admin.describe("g")[ASSIGNMENT].value, "2000")
    entry = admin.describe("g")[ASSIGNMENT]
    assert entry.config_source == DEFAULT_BROKER
    expected = [(broker_wide, "2000", DEFAULT_BROKER), (broker_wide, "1000", DEFAULT)]
    assert synonyms(entry) == expected


def test_they_survive_a_restart(broker: Target, admin: GroupConfigs) -> None:
    assert admin.change("kept/here", (SESSION, SET, "50000")) == "NONE"
    assert admin.change("gone", (SESSION, SET, "50000")) == "NONE"
    assert admin.change("gone", (SESSION, DELETE, None)) == "NONE"
    broker.stop()
    broker.start()
    again = GroupConfigs(broker.bootstrap)
    eventually(again.listed, {"kept/here"})
    assert again.describe("kept/here")[SESSION].value == "50000"
    again.close()


@pytest.mark.compat("ConfigCommand", "Kafka's tools")
def test_kafkas_own_tool_changes_and_shows_them(broker: Target) -> None:
    def configs(*args: str) -> str:
        servers = ("--bootstrap-server", broker.bootstrap)
        return java.run_tool(java.CONFIGS, *servers, "--entity-type", "groups", *args).decode()

    named = ("--entity-name", "tooled")
    configs(*named, "--alter", "--add-config", f"{SESSION}=50000,{HEARTBEAT}=300")
    shown = configs(*named, "--describe")
    assert f"{SESSION}=50000" in shown
    assert f"GROUP_CONFIG:{SESSION}=50000, DEFAULT_CONFIG:group.{SESSION}=45000" in shown
    assert "tooled" in configs("--describe")  # all groups, found by listing
    configs(*named, "--alter", "--delete-config", f"{SESSION},{HEARTBEAT}")
    assert f"{SESSION}=" not in configs(*named, "--describe")
