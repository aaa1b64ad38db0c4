"""``moldau group …`` on groups of real members, against Moldau and against Apache Kafka."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.test_groups_tools import table
from tests.support import java
from tests.support.cli import CommandLine
from tests.support.members.kinds import CONFLUENT_CONSUMER, CONFLUENT_EAGER, MemberKind
from tests.support.members.team import Team
from tests.support.target import Target
from tests.support.waiting import eventually

KINDS = pytest.mark.parametrize("kind", [CONFLUENT_EAGER, CONFLUENT_CONSUMER], ids=str)


@pytest.fixture
def team(target: Target, tmp_path: Path) -> Iterator[Team]:
    group = Team(target.bootstrap, tmp_path)
    yield group
    group.close()


@pytest.fixture
def moldau(
    target: Target, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    monkeypatch.setenv("MOLDAU_BOOTSTRAP", target.bootstrap)
    return CommandLine(target.bootstrap, capfd)


def consumed(team: Team, kind: MemberKind = CONFLUENT_EAGER, each: int = 10) -> None:
    """Leaves a group without members that has committed all of its topic."""
    team.write(each)
    member = team.join(kind)
    team.wait_until_all_is_seen()
    team.wait_until_committed(member)
    member.leave()


@KINDS
def test_describe_agrees_with_kafkas_tool(
    moldau: CommandLine, team: Team, kind: MemberKind
) -> None:
    first, second = team.join(kind), team.join(kind)
    team.wait_until_shared(first, second)
    team.write(3)
    team.wait_until_all_is_seen()
    team.wait_until_committed(first, second)
    server = ("--bootstrap-server", team.bootstrap, "--describe", "--group", team.group)
    theirs = {
        (row["TOPIC"], int(row["PARTITION"])): (
            int(row["CURRENT-OFFSET"]),
            int(row["LOG-END-OFFSET"]),
            int(row["LAG"]),
            row["CONSUMER-ID"],
            row["HOST"],
            row["CLIENT-ID"],
        )
        for row in table(java.run_tool(java.CONSUMER_GROUPS, *server).decode())
    }
    (document,) = moldau("group", "describe", team.group, "--json").json
    ours = {
        (row["topic"], row["partition"]): (
            row["committed_offset"],
            row["end_offset"],
            row["lag"],
            row["member_id"],
            row["host"],
            row["client_id"],
        )
        for row in document["partitions"]
    }
    assert ours == theirs
    assert len(ours) == 4
    (state,) = table(java.run_tool(java.CONSUMER_GROUPS, *server, "--state").decode())
    assert document["state"] in state.values()
    assert document["assignor"] in state.values()
    assert document["members"] == 2


@KINDS
def test_list_and_members(moldau: CommandLine, team: Team, kind: MemberKind) -> None:
    member = team.join(kind, instance="desk-7")
    team.wait_until_shared(member)
    kind_of_group = "consumer" if kind is CONFLUENT_CONSUMER else "classic"
    row = [team.group, kind_of_group, "Stable", "consumer"]
    eventually(lambda: row in moldau("group", "list").rows)
    stable = moldau("group", "list", "--state", "Stable", "--type", kind_of_group, "--json").json
    assert team.group in {group["group"] for group in stable}
    empty = moldau("group", "list", "--state", "Empty", "--json").json
    assert team.group not in {group["group"] for group in empty}
    (row,) = moldau("group", "members", team.group, "--json").json
    assert row["instance_id"] == "desk-7"
    assert row["topics"] == [team.topic]
    assert row["assignment"] == [f"{team.topic}-{n}" for n in range(4)]
    assert moldau("group", "reset-offsets", team.group, "--to-latest", code=1).err.startswith(
        f"moldau: Group '{team.group}' has 1 members"
    )


def test_lag_is_shown_in_records_and_in_time(moldau: CommandLine, team: Team) -> None:
    consumed(team)
    before_ms = time.time_ns() // 1_000_000
    team.write(5)
    rows = moldau("group", "offsets", team.group, "--json").json
    passed_ms = time.time_ns() // 1_000_000 - before_ms
    assert [(row["committed_offset"], row["end_offset"], row["lag"]) for row in rows] == [
        (10, 15, 5)
    ] * 4
    assert all(0 <= row["lag_ms"] <= passed_ms + 1 for row in rows)
    only = moldau("group", "offsets", team.group, "--topic", f"{team.topic}:1,3").rows
    assert [row[:5] for row in only] == [[team.topic, n, "10", "15", "5"] for n in ("1", "3")]


def test_offsets_are_reset_in_every_way(moldau: CommandLine, team: Team, tmp_path: Path) -> None:
    consumed(team)

    def reset(*how: str) -> list[int]:
        rows = moldau("group", "reset-offsets", team.group, *how, "--execute", "--json").json
        assert [row["partition"] for row in rows] == [0, 1, 2, 3]
        committed = moldau("group", "offsets", team.group, "--json").json
        assert [row["committed_offset"] for row in committed] == [r["new_offset"] for r in rows]
        return [row["new_offset"] for row in rows]

    plan = moldau("group", "reset-offsets", team.group, "--to-earliest")
    assert [row[2:] for row in plan.rows] == [["0", "10"]] * 4
    untouched = moldau("group", "offsets", team.group, "--json").json
    assert {row["committed_offset"] for row in untouched} == {10}

    assert reset("--to-earliest") == [0] * 4
    assert reset("--shift-by", "3") == [3] * 4
    assert reset("--shift-by", "-5") == [0] * 4
    assert reset("--to-latest") == [10] * 4
    assert reset("--to-offset", "7") == [7] * 4
    assert reset("--to-current") == [7] * 4
    assert reset("--to-offset", "99") == [10] * 4
    assert reset("--by-duration", "1h") == [0] * 4
    assert reset("--to-timestamp", "2099-01-01") == [10] * 4
    saved = tmp_path / "offsets.tsv"
    saved.write_text(plan.out)
    assert reset("--from-file", str(saved)) == [0] * 4
    part = ("--topic", f"{team.topic}:2", "--to-latest", "--execute", "--json")
    (row,) = moldau("group", "reset-offsets", team.group, *part).json
    assert (row["partition"], row["new_offset"]) == (2, 10)
    back = team.join(CONFLUENT_EAGER)
    back.wait_until(lambda: len(back.records) == 3 * 10)
    assert {partition for partition, _ in back.records} == {0, 1, 3}


def test_groups_and_offsets_are_deleted(moldau: CommandLine, team: Team) -> None:
    consumed(team)
    where = ("--topic", f"{team.topic}:0,1")
    assert moldau("group", "delete-offsets", team.group, *where).rows == [
        [team.topic, "0"],
        [team.topic, "1"],
    ]
    left = moldau("group", "offsets", team.group, "--json").json
    assert [row["partition"] for row in left] == [2, 3]
    assert moldau("group", "delete", team.group, "--json").json == [{"group": team.group}]
    assert team.group not in {row[0] for row in moldau("group", "list").rows}
    missing = moldau("group", "describe", team.group, code=4)
    assert missing.err.startswith(f"moldau: There is no group '{team.group}'.")
    moldau("group", "delete", team.group, code=4)


def test_a_group_with_members_is_not_deleted(moldau: CommandLine, team: Team) -> None:
    member = team.join(CONFLUENT_EAGER)
    team.wait_until_shared(member)
    assert "NON_EMPTY_GROUP" in moldau("group", "delete", team.group, code=1).err


def test_watch_follows_the_lag(moldau: CommandLine, team: Team) -> None:
    consumed(team)
    command = ("group", "describe", team.group, "--watch", "--every", "100ms", "--json")
    with moldau.start(*command) as child:
        assert child.stdout is not None
        (first,) = json.loads(child.stdout.readline())
        assert first["lag"] == 0
        team.write(2)
        while (seen := json.loads(child.stdout.readline())[0])["lag"] != 8:
            assert seen["lag"] <= 8
        child.send_signal(signal.SIGINT)
        assert child.wait(150) == 130
