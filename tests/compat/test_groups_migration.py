"""Real clients of both protocols in one group, which changes its kind under them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest
from tests.compat.test_groups_answers import SocketCaller, await_coordinator
from tests.support.kept_time import in_kept_time
from tests.support.members.kinds import (
    CONFLUENT_CONSUMER,
    CONFLUENT_COOPERATIVE,
    CONFLUENT_EAGER,
    GROUP_SETTINGS,
    JAVA_CONSUMER,
    JAVA_COOPERATIVE,
    MemberKind,
)
from tests.support.members.process import Member
from tests.support.members.team import Team, create_topic
from tests.support.soak import SOAK
from tests.support.target import Target
from tests.support.wire import build
from tests.unit.groups.classic.scenario import Answer
from tests.unit.groups.migration import scenario

from moldau.client.admin import Admin
from moldau.wire.api import ApiKey
from moldau.wire.messages import newest_class

# The script waits for timeouts in real time; unit tests run it for every policy in no time.
KILL_SESSION_MS = 3000
POLICIES = scenario.POLICIES if SOAK else scenario.POLICIES[:1]


@pytest.fixture
def team(target: Target, tmp_path: Path) -> Iterator[Team]:
    """A group of the test's own."""
    group = Team(target.bootstrap, tmp_path)
    yield group
    group.close()


def kind_of(team: Team) -> str:
    with Admin(bootstrap_servers=team.bootstrap) as admin:
        (kind,) = {each.type for each in admin.list_groups() if each.group == team.group}
    return kind


def consume(team: Team, *members: Member) -> None:
    """Exactly these members share the work; what is written now is read and committed."""
    team.wait_until_shared(*members)
    team.write(5)
    team.wait_until_all_is_seen()
    team.wait_until_committed(*members)


@pytest.mark.compat("Online upgrade and downgrade, {classic.protocol}", "{classic.client}")
@pytest.mark.parametrize(
    ("classic", "modern"),
    [
        (CONFLUENT_EAGER, CONFLUENT_CONSUMER),
        (CONFLUENT_COOPERATIVE, CONFLUENT_CONSUMER),
        (CONFLUENT_EAGER, JAVA_CONSUMER),
        (JAVA_COOPERATIVE, CONFLUENT_CONSUMER),
    ],
    ids=str,
)
def test_a_rolling_upgrade_and_back_again(
    team: Team, classic: MemberKind, modern: MemberKind
) -> None:
    first = team.join(classic)
    consume(team, first)
    # librdkafka's cooperative assignor sends data of its own from the second generation on, and
    # Kafka does not upgrade a group if that were lost. So there is one generation only.
    one_generation = classic is CONFLUENT_COOPERATIVE
    if not one_generation:
        second = team.join(classic)
        consume(team, first, second)
    assert kind_of(team) == "classic"

    third = team.join(modern)
    if one_generation:
        consume(team, first, third)
        second = team.join(classic)
    consume(team, first, second, third)
    assert kind_of(team) == "consumer"
    first.leave()
    consume(team, second, third)
    fourth = team.join(modern)
    consume(team, second, third, fourth)
    second.leave()
    consume(team, third, fourth)
    assert kind_of(team) == "consumer"

    third.leave()
    fifth = team.join(classic)
    consume(team, fourth, fifth)
    assert kind_of(team) == "consumer"
    fourth.leave()
    consume(team, fifth)
    assert kind_of(team) == "classic"
    sixth = team.join(classic)
    consume(team, fifth, sixth)

    team.check_all_seen_once()
    team.check_ownership()


@pytest.mark.parametrize("classic", [CONFLUENT_EAGER, CONFLUENT_COOPERATIVE], ids=str)
def test_the_last_modern_member_dies(team: Team, classic: MemberKind) -> None:
    first, second = team.join(classic), team.join(CONFLUENT_CONSUMER)
    consume(team, first, second)
    team.shorten_sessions(KILL_SESSION_MS)
    consume(team, first, second)
    second.kill()
    team.write(5)
    consume(team, first)
    assert kind_of(team) == "classic"
    team.check_ownership()


def test_static_members_change_their_protocol_one_by_one(team: Team) -> None:
    members = [team.join(CONFLUENT_EAGER, instance=name) for name in ("one", "two")]
    consume(team, *members)
    for kind in (CONFLUENT_CONSUMER, CONFLUENT_EAGER):
        for number, name in enumerate(("one", "two")):
            members[number].leave()
            members[number] = team.join(kind, instance=name)
            consume(team, *members)
    assert kind_of(team) == "classic"
    team.check_all_seen_once()
    team.check_ownership()


def test_a_restart_of_the_broker_in_the_middle_of_an_upgrade(
    new_target: Callable[[dict[str, str]], Target], tmp_path: Path
) -> None:
    broker = new_target(GROUP_SETTINGS)
    team = Team(broker.bootstrap, tmp_path)
    try:
        members = [team.join(CONFLUENT_COOPERATIVE), team.join(CONFLUENT_CONSUMER)]
        consume(team, *members)
        broker.stop()
        broker.start()
        consume(team, *members)
        assert kind_of(team) == "consumer"
        members[1].leave()
        consume(team, members[0])
        assert team.seen.keys() == team.written
    finally:
        team.close()


def topic_ids(caller: SocketCaller) -> dict[str, UUID]:
    request = build(
        newest_class(ApiKey.METADATA, "request"),
        {
            "topics": [{"name": name} for name in scenario.TOPICS],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": False,
        },
    )
    answer = caller.send(ApiKey.METADATA, 12, request).get()
    return {topic.name: topic.topic_id for topic in answer.topics}


@pytest.mark.parametrize("policy", POLICIES)
def test_the_answers_are_those_of_apache_kafka(
    new_target: Callable[[dict[str, str]], Target], pytestconfig: pytest.Config, policy: str
) -> None:
    is_kafka = pytestconfig.getoption("--target") == "kafka"
    expected = scenario.kafka_answers(policy) if is_kafka else scenario.moldau_answers(policy)

    def run() -> list[Answer]:
        broker = new_target(scenario.settings(policy))
        for name, partitions in scenario.TOPICS.items():
            create_topic(broker.bootstrap, name, partitions)
        caller = SocketCaller(broker.bootstrap)
        await_coordinator(caller)
        return scenario.run(scenario.Script(caller, topic_ids(caller)))

    assert in_kept_time(run, expected) == expected
