"""Members of consumer groups, each a real client in a process of its own: arrive, leave, die."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.members.kinds import (
    CONFLUENT_CONSUMER,
    CONFLUENT_COOPERATIVE,
    CONFLUENT_EAGER,
    CONFLUENT_PATTERN,
    CONSUMER_PROTOCOL,
    GROUP_SETTINGS,
    MEMBER_KINDS,
    STATIC_KINDS,
    MemberKind,
)
from tests.support.members.team import Team
from tests.support.target import Target

KILL_SESSION_MS = 3000


@pytest.fixture
def team(target: Target, tmp_path: Path) -> Iterator[Team]:
    """A group of the test's own."""
    group = Team(target.bootstrap, tmp_path)
    yield group
    group.close()


@pytest.mark.compat("Consumer group, {kind.protocol}", "{kind.client}")
@pytest.mark.parametrize("kind", MEMBER_KINDS, ids=str)
def test_members_share_the_partitions_and_consume_everything_once(
    team: Team, kind: MemberKind
) -> None:
    team.write(10)
    first = team.join(kind)
    team.wait_until_shared(first)
    team.wait_until_all_is_seen()
    team.wait_until_committed(first)

    second = team.join(kind)
    team.wait_until_shared(first, second)
    team.write(10)
    team.wait_until_all_is_seen()
    team.wait_until_committed(first, second)
    assert len(second.records) == 2 * 10

    second.leave()
    team.wait_until_shared(first)
    team.write(10)
    team.wait_until_all_is_seen()
    team.wait_until_committed(first)

    first.leave()
    fresh = team.write(5)
    third = team.join(kind)
    team.wait_until_all_is_seen()
    assert set(third.records) == fresh
    third.leave()
    team.check_all_seen_once()
    team.check_ownership()


def test_a_coordinator_follows_the_patterns_of_its_members(team: Team) -> None:
    team.write(10)
    first = team.join(CONFLUENT_PATTERN)
    team.wait_until_shared(first)
    second = team.join(CONFLUENT_CONSUMER)
    team.wait_until_shared(first, second)
    team.write(10)
    team.wait_until_all_is_seen()
    second.leave()
    team.wait_until_shared(first)
    first.leave()
    team.check_ownership()


@pytest.mark.compat("Member killed", "{kind.client}")
@pytest.mark.parametrize("kind", MEMBER_KINDS, ids=str)
def test_a_killed_members_partitions_come_back_and_nothing_is_skipped(
    team: Team, kind: MemberKind
) -> None:
    first = team.join(kind)
    second = team.join(kind, session_ms=KILL_SESSION_MS)
    team.wait_until_shared(first, second)
    if kind.protocol == CONSUMER_PROTOCOL:
        team.shorten_sessions(KILL_SESSION_MS)
    team.write(10)
    team.wait_until_all_is_seen()
    killed_ms = time.time_ns() // 1_000_000
    second.kill()
    team.write(10)
    team.wait_until_shared(first)
    team.wait_until_all_is_seen()
    team.check_ownership(since_ms=killed_ms)


@pytest.mark.compat("Broker restart under a group", "{kind.client}")
@pytest.mark.parametrize("kind", MEMBER_KINDS, ids=str)
def test_members_and_offsets_survive_a_restart_of_the_broker(
    new_target: Callable[[dict[str, str]], Target], tmp_path: Path, kind: MemberKind
) -> None:
    broker = new_target(GROUP_SETTINGS)
    team = Team(broker.bootstrap, tmp_path)
    try:
        first, second = team.join(kind), team.join(kind)
        team.wait_until_shared(first, second)
        team.write(10)
        team.wait_until_all_is_seen()
        team.wait_until_committed(first, second)
        broker.stop()
        broker.start()
        team.write(10)
        team.wait_until_all_is_seen()
        team.wait_until_shared(first, second)
        team.wait_until_committed(first, second)
        first.leave()
        second.leave()
        fresh = team.write(1)
        third = team.join(kind)
        team.wait_until_all_is_seen()
        assert set(third.records) == fresh
    finally:
        team.close()


@pytest.mark.compat("Static members", "{kind.client}")
@pytest.mark.parametrize("kind", STATIC_KINDS, ids=str)
def test_a_static_member_comes_back_without_a_rebalance(team: Team, kind: MemberKind) -> None:
    first = team.join(kind, instance="one")
    second = team.join(kind, instance="two")
    team.wait_until_shared(first, second)
    team.write(5)
    team.wait_until_all_is_seen()
    team.wait_until_committed(first, second)
    kept, handed_over = set(first.owned), set(second.owned)
    events = [event for event in first.events if "partitions" in event["name"]]
    second.leave()
    fresh = team.write(5)
    back = team.join(kind, instance="two")
    team.wait_for(lambda: back.owned == handed_over, "the same partitions for the same instance")
    team.wait_until_all_is_seen()
    assert set(back.records) == {record for record in fresh if record[0] in handed_over}
    assert first.owned == kept
    assert [event for event in first.events if "partitions" in event["name"]] == events
    team.check_all_seen_once()


@pytest.mark.compat("Static members", "{kind.client}")
@pytest.mark.parametrize("kind", [CONFLUENT_EAGER], ids=str)
def test_a_static_member_fences_its_predecessor(team: Team, kind: MemberKind) -> None:
    first = team.join(kind, instance="one")
    team.wait_until_shared(first)
    second = team.join(kind, instance="one")
    team.wait_until_shared(second)
    team.wait_for(lambda: not first.running, "the older one gives up")
    told = {"_FATAL", "FENCED_INSTANCE_ID"}
    team.wait_for(lambda: bool(told & set(first.errors)), "the older one says why")


@pytest.mark.compat("Member frozen beyond its session", "{kind.client}")
@pytest.mark.parametrize("kind", [CONFLUENT_EAGER, CONFLUENT_COOPERATIVE], ids=str)
def test_a_frozen_member_loses_its_partitions_and_comes_back(team: Team, kind: MemberKind) -> None:
    first = team.join(kind)
    second = team.join(kind, session_ms=2000)
    team.wait_until_shared(first, second)
    team.check_giving_way(first, second, second.freeze, second.thaw)


@pytest.mark.compat("Member busy beyond max.poll.interval.ms", "{kind.client}")
@pytest.mark.parametrize(
    "kind", [CONFLUENT_EAGER, CONFLUENT_COOPERATIVE, CONFLUENT_CONSUMER], ids=str
)
def test_a_member_that_does_not_poll_gives_way_and_comes_back(team: Team, kind: MemberKind) -> None:
    first = team.join(kind)
    second = team.join(kind, session_ms=2000, max_poll_ms=2000)
    team.wait_until_shared(first, second)
    if kind.protocol == CONSUMER_PROTOCOL:  # it does not leave, but falls silent
        team.shorten_sessions(KILL_SESSION_MS)
    team.check_giving_way(first, second, second.get_busy, second.get_ready)
