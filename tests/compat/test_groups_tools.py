"""Kafka's own tools that join groups or look after them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support import java
from tests.support.members.kinds import (
    CONFLUENT_CONSUMER,
    CONFLUENT_EAGER,
    CONSUMER_PROTOCOL,
    EAGER,
    MemberKind,
)
from tests.support.members.team import Team, create_topic, write
from tests.support.target import Target

TOOLS = "Kafka's tools"
PARTITIONS = 3

RunTool = Callable[..., str]


@pytest.fixture
def tool(target: Target) -> RunTool:
    def run(main: str, *args: str) -> str:
        return java.run_tool(main, "--bootstrap-server", target.bootstrap, *args).decode()

    return run


@pytest.fixture
def topic(target: Target) -> str:
    name = f"tools-{uuid4().hex[:8]}"
    create_topic(target.bootstrap, name, PARTITIONS)
    return name


@pytest.fixture
def team(target: Target, tmp_path: Path) -> Iterator[Team]:
    group = Team(target.bootstrap, tmp_path)
    yield group
    group.close()


def table(printed: str) -> list[dict[str, str]]:
    """The rows of a table of ConsumerGroupCommand, by column."""
    lines = [line.split() for line in printed.splitlines() if line.strip()]
    (start,) = [n for n, line in enumerate(lines) if line[0] == "GROUP"]
    return [dict(zip(lines[start], line, strict=False)) for line in lines[start + 1 :]]


@pytest.mark.compat("ConsoleConsumer --group", TOOLS)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_console_consumer_resumes_where_its_group_left_off(
    tool: RunTool, target: Target, topic: str, protocol: str
) -> None:
    options = [
        *("--topic", topic, "--group", f"console-{topic}-{protocol}", "--from-beginning"),
        *("--command-property", f"group.protocol={protocol}", "--timeout-ms", "100000"),
    ]
    write(target.bootstrap, topic, 4, PARTITIONS)
    first = tool(java.CONSOLE_CONSUMER, *options, "--max-messages", "12")
    assert sorted(first.split()) == sorted(["0", "1", "2", "3"] * 3)
    write(target.bootstrap, topic, 2, PARTITIONS)
    assert sorted(tool(java.CONSOLE_CONSUMER, *options, "--max-messages", "6").split()) == sorted(
        ["0", "1"] * 3
    )


@pytest.mark.compat("ConsumerPerformance", TOOLS)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_consumer_performance_reads_everything(
    tool: RunTool, target: Target, topic: str, tmp_path: Path, protocol: str
) -> None:
    write(target.bootstrap, topic, 1000, PARTITIONS)
    config = tmp_path / "consumer.properties"
    config.write_text(f"group.protocol={protocol}\n")
    options = ("--topic", topic, "--group", f"perf-{topic}", "--command-config", str(config))
    printed = tool(
        java.CONSUMER_PERFORMANCE, *options, "--num-records", "3000", "--timeout", "100000"
    )
    header, row = [line.split(", ") for line in printed.splitlines() if ", " in line][-2:]
    assert dict(zip(header, row, strict=True))["data.consumed.in.nMsg"] == "3000"


@pytest.mark.compat("ConsumerGroupCommand", TOOLS)
@pytest.mark.parametrize("kind", [CONFLUENT_EAGER, CONFLUENT_CONSUMER], ids=str)
def test_consumer_group_command_lists_and_describes(
    tool: RunTool, team: Team, kind: MemberKind
) -> None:
    member = team.join(kind)
    team.wait_until_shared(member)
    team.write(3)
    team.wait_until_all_is_seen()
    team.wait_until_committed(member)
    kinds = {EAGER: "Classic", CONSUMER_PROTOCOL: "Consumer"}
    listed = tool(java.CONSUMER_GROUPS, "--list", "--state", "--type")
    (row,) = [line.split() for line in listed.splitlines() if line.startswith(team.group)]
    assert row == [team.group, kinds[kind.protocol], "Stable"]
    group = ("--describe", "--group", team.group)
    for row_of in table(tool(java.CONSUMER_GROUPS, *group)):
        assert row_of["CURRENT-OFFSET"] == row_of["LOG-END-OFFSET"] == "3"
        assert row_of["LAG"] == "0"
        assert row_of["CONSUMER-ID"] != "-"
    (member_row,) = table(tool(java.CONSUMER_GROUPS, *group, "--members"))
    assert member_row["#PARTITIONS"] == "4"
    (state,) = table(tool(java.CONSUMER_GROUPS, *group, "--state"))
    assert "Stable" in state.values()


@pytest.mark.compat("ConsumerGroupCommand", TOOLS)
def test_consumer_group_command_resets_and_deletes(tool: RunTool, team: Team) -> None:
    team.write(10)
    member = team.join(CONFLUENT_EAGER)
    team.wait_until_all_is_seen()
    team.wait_until_committed(member)
    member.leave()
    group = ("--group", team.group)
    reset = ("--reset-offsets", *group, "--topic", team.topic)
    tool(java.CONSUMER_GROUPS, *reset, "--shift-by", "-4", "--execute")
    described = table(tool(java.CONSUMER_GROUPS, "--describe", *group))
    assert {row["CURRENT-OFFSET"] for row in described} == {"6"}
    assert {row["LAG"] for row in described} == {"4"}
    back = team.join(CONFLUENT_EAGER)
    back.wait_until(lambda: len(back.records) == 4 * 4)
    assert {offset for _, offset in back.records} == {6, 7, 8, 9}
    team.wait_until_committed(back)
    back.leave()
    tool(java.CONSUMER_GROUPS, "--delete-offsets", *group, "--topic", f"{team.topic}:0")
    described = table(tool(java.CONSUMER_GROUPS, "--describe", *group))
    assert {row["PARTITION"] for row in described} == {"1", "2", "3"}
    tool(java.CONSUMER_GROUPS, "--delete", *group)
    assert team.group not in tool(java.CONSUMER_GROUPS, "--list").split()
