"""Members of groups in processes of their own, ours and those of other clients: they share the
partitions, nobody reads what another one owns, and nothing is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support.members import kinds
from tests.support.members.kinds import MemberKind
from tests.support.members.process import Member
from tests.support.members.team import Team
from tests.support.target import Target

from moldau.client.admin import Admin, ConfigChange, ConfigResource, ResourceType
from moldau.testing.broker import MoldauProcess

KILL_SESSION_MS = 5000
"""Long enough that a busy machine does not end a session before the test does."""

OURS = [kinds.MOLDAU_EAGER, kinds.MOLDAU_COOPERATIVE, kinds.MOLDAU_CONSUMER]

MIXED = {
    "range, confluent-kafka": (kinds.MOLDAU_EAGER, kinds.CONFLUENT_EAGER),
    "range, Java": (kinds.MOLDAU_EAGER, kinds.JAVA_EAGER),
    "round robin, confluent-kafka": (kinds.MOLDAU_ROUND_ROBIN, kinds.CONFLUENT_ROUND_ROBIN),
    "round robin, Java": (kinds.MOLDAU_ROUND_ROBIN, kinds.JAVA_ROUND_ROBIN),
    "sticky, Java": (kinds.MOLDAU_STICKY, kinds.JAVA_STICKY),
    "cooperative, confluent-kafka": (kinds.MOLDAU_COOPERATIVE, kinds.CONFLUENT_COOPERATIVE),
    "cooperative, Java": (kinds.MOLDAU_COOPERATIVE, kinds.JAVA_COOPERATIVE),
    "KIP-848, confluent-kafka": (kinds.MOLDAU_CONSUMER, kinds.CONFLUENT_CONSUMER),
    "KIP-848, Java": (kinds.MOLDAU_CONSUMER, kinds.JAVA_CONSUMER),
}


@pytest.fixture
def team(cluster: Target, tmp_path: Path) -> Iterator[Team]:
    """A group of the test's own."""
    group = Team(cluster.bootstrap, tmp_path)
    yield group
    group.close()


@pytest.mark.parametrize("mix", MIXED)
def test_a_group_with_members_of_other_clients(team: Team, mix: str) -> None:
    ours, theirs = MIXED[mix]
    first = team.join(ours)
    team.wait_until_shared(first)
    team.write(5)
    second = team.join(theirs)  # assigned to by us
    team.wait_until_shared(first, second)
    team.write(5)
    team.wait_until_all_is_seen()
    team.wait_until_committed(first, second)
    first.leave()
    third = team.join(ours)  # assigned to by them
    team.wait_until_shared(second, third)
    team.write(5)
    team.wait_until_all_is_seen()
    team.check_ownership()
    assert all(member.records for member in (first, second, third))


def shorten_sessions(bootstrap: str, group: str) -> None:
    """Of a group under the consumer protocol, whose sessions are not the members' business."""
    session = ConfigChange("consumer.session.timeout.ms", str(KILL_SESSION_MS))
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_configs({ConfigResource(ResourceType.GROUP, group): [session]})[0].get()


def test_a_killed_members_partitions_come_back_and_nothing_is_skipped(
    cluster: Target, tmp_path: Path
) -> None:
    """A group of each kind, all at once: a session is waited out once."""
    with ExitStack() as stack:
        pairs: list[tuple[Team, Member, Member]] = []
        for number, kind in enumerate(OURS):
            directory = tmp_path / str(number)
            directory.mkdir()
            team = Team(cluster.bootstrap, directory)
            stack.callback(team.close)
            shorten_sessions(cluster.bootstrap, team.group)
            pairs.append((team, team.join(kind), team.join(kind, session_ms=KILL_SESSION_MS)))
        for team, first, second in pairs:
            team.wait_until_shared(first, second)
            team.write(10)
            team.wait_until_all_is_seen()
        for team, _, second in pairs:
            second.kill()
            team.write(10)
        for team, first, _ in pairs:
            team.wait_until_shared(first)
            team.wait_until_all_is_seen()
            team.check_ownership()


@pytest.mark.parametrize("kind", OURS, ids=str)
def test_a_member_that_does_not_poll_gives_way_and_comes_back(team: Team, kind: MemberKind) -> None:
    first = team.join(kind)
    second = team.join(kind, max_poll_ms=1000)
    team.wait_until_shared(first, second)
    team.check_giving_way(first, second, second.get_busy, second.get_ready)


@pytest.mark.parametrize("kind", OURS, ids=str)
def test_members_and_offsets_survive_a_restart_of_the_broker(
    own_moldau: MoldauProcess, tmp_path: Path, kind: MemberKind
) -> None:
    team = Team(own_moldau.bootstrap_servers, tmp_path)
    try:
        first, second = team.join(kind), team.join(kind)
        team.wait_until_shared(first, second)
        team.write(10)
        team.wait_until_all_is_seen()
        own_moldau.kill()
        own_moldau.start()
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
