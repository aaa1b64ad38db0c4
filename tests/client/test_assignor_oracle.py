"""Our assignors beside those of Kafka's Java client, on the same groups."""

from __future__ import annotations

import base64
import json
import random
import subprocess
from typing import Any

import pytest
from tests.support import java

from moldau.client.consumer.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    MemberSubscription,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
)
from moldau.client.consumer.assignors.embedded import encode_subscription
from moldau.model import TopicPartition

ORACLE = java.ROOT / "tests/java/AssignorOracle.java"
GROUPS = 200

Layout = dict[str, list[frozenset[str]]]
Members = dict[str, MemberSubscription]
Plan = dict[str, set[TopicPartition]]
Group = tuple[Layout, Members]


def random_group(seed: int, *, racks: bool, equal: bool = False) -> Group:
    choose = random.Random(seed)
    names = ["x", "y", "z"] if racks else []
    topics = [f"t{number}" for number in range(choose.randint(1, 4))]
    layout: Layout = {
        topic: [
            frozenset(choose.sample(names, choose.randint(1, 2)) if racks else [])
            for _ in range(choose.choice([1, 3, 3, 4, 7]))
        ]
        for topic in topics
    }
    members: Members = {}
    for number in range(choose.randint(1, 5)):
        wanted = topics if equal else choose.sample(topics, choose.randint(1, len(topics)))
        members[f"member-{choose.randint(0, 9)}-{number}"] = MemberSubscription(
            tuple(sorted(wanted)),
            rack=choose.choice([*names, None]) if racks else None,
            instance_id=choose.choice([None, None, f"static-{choose.randint(0, 99)}-{number}"]),
        )
    return layout, members


def ask_java(groups: list[tuple[str, Group]]) -> list[Plan]:
    """What Kafka's assignors of these names answer for each group."""
    question: list[dict[str, Any]] = [
        {
            "assignor": assignor,
            "layout": {
                topic: [sorted(racks) for racks in parts] for topic, parts in layout.items()
            },
            "members": {
                name: {
                    "subscription": base64.b64encode(encode_subscription(member)).decode(),
                    "instance": member.instance_id,
                }
                for name, member in members.items()
            },
        }
        for assignor, (layout, members) in groups
    ]
    done = subprocess.run(
        java.java_command(str(ORACLE), log_level="off"),
        input=json.dumps(question).encode(),
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return [
        {name: {TopicPartition(*one) for one in mine} for name, mine in plan.items()}
        for plan in json.loads(done.stdout)
    ]


def ours(assignor: Assignor, layout: Layout, members: Members) -> Plan:
    return {name: set(mine) for name, mine in assignor.assign(layout, members).items()}


def unevenness(plan: Plan) -> int:
    """The lower, the better balanced."""
    return sum(len(mine) ** 2 for mine in plan.values())


def rejoined(kind: type[Assignor], members: Members, plan: Plan) -> Members:
    """The members as they join the next time, telling what they own."""
    cooperative = kind is CooperativeStickyAssignor
    again = {}
    for name, member in members.items():
        own = kind()
        mine = tuple(sorted(plan[name]))
        own.on_assignment(mine, 1)
        again[name] = MemberSubscription(
            member.topics,
            owned=mine if cooperative else (),
            generation=1,
            user_data=own.user_data(mine),
        )
    return again


RACKS = [random_group(seed, racks=seed % 2 == 1) for seed in range(GROUPS)]
NO_RACKS = [random_group(seed, racks=False, equal=seed % 2 == 1) for seed in range(GROUPS)]


@pytest.fixture(scope="module")
def from_java() -> dict[str, list[Plan]]:
    """All answers that are needed, by assignor; for sticky ones also the second, by " again".

    One JVM gives them all: that it starts takes the longest.
    """
    questions: dict[str, list[Group]] = {"RangeAssignor": RACKS, "RoundRobinAssignor": RACKS}
    for kind in (StickyAssignor, CooperativeStickyAssignor):
        questions[kind.__name__] = NO_RACKS
        questions[f"{kind.__name__} again"] = [
            (layout, rejoined(kind, members, ours(kind(), layout, members)))
            for layout, members in NO_RACKS
        ]
    answers = iter(
        ask_java([(name.split()[0], one) for name, groups in questions.items() for one in groups])
    )
    return {name: [next(answers) for _ in groups] for name, groups in questions.items()}


@pytest.mark.parametrize("kind", [RangeAssignor, RoundRobinAssignor])
def test_the_same_partitions_for_the_same_members(
    kind: type[Assignor], from_java: dict[str, list[Plan]]
) -> None:
    for (layout, members), expected in zip(RACKS, from_java[kind.__name__], strict=True):
        assert ours(kind(), layout, members) == expected, (layout, members)


@pytest.mark.parametrize("kind", [StickyAssignor, CooperativeStickyAssignor])
def test_a_leader_of_the_other_client_moves_nothing(
    kind: type[Assignor], from_java: dict[str, list[Plan]]
) -> None:
    """What one of the two balances, the other leaves alone: it reads the same claims."""
    first, again = from_java[kind.__name__], from_java[f"{kind.__name__} again"]
    for (layout, members), by_java, after in zip(NO_RACKS, first, again, strict=True):
        by_us = ours(kind(), layout, members)
        assert unevenness(by_us) <= unevenness(by_java)
        if unevenness(by_us) == unevenness(by_java):
            assert ours(kind(), layout, rejoined(kind, members, by_java)) == by_java
        assert after == by_us
