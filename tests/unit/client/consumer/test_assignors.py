"""Assignors: who gets what. What the Java client answers is in tests/client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.consumer.assignors import (
    Assignor,
    CeilAssignor,
    CooperativeStickyAssignor,
    Layout,
    MemberSubscription,
    Plan,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    StickyAssignor,
    make_assignors,
    shared_protocol,
)
from moldau.model import TopicPartition

ALL_ASSIGNORS = [
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    CooperativeStickyAssignor,
    CeilAssignor,
]
TOPICS = ("a", "b", "c")


def layout_of(**partitions: int) -> dict[str, list[frozenset[str]]]:
    return {topic: [frozenset()] * count for topic, count in partitions.items()}


def members_of(*names: str, topics: Sequence[str] = ("t",)) -> dict[str, MemberSubscription]:
    return {name: MemberSubscription(tuple(topics)) for name in names}


def numbers(plan: Plan, topic: str = "t") -> dict[str, list[int]]:
    return {
        name: sorted(one.partition for one in mine if one.topic == topic)
        for name, mine in plan.items()
    }


layouts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), min_size=1).map(
    lambda topics: layout_of(**topics)
)
groups = st.dictionaries(
    st.sampled_from(["m1", "m2", "m3", "m4", "m5"]),
    st.sets(st.sampled_from(TOPICS), min_size=1).map(
        lambda topics: MemberSubscription(tuple(sorted(topics)))
    ),
    min_size=1,
)


def check_complete(layout: Layout, members: Mapping[str, MemberSubscription], plan: Plan) -> None:
    """Every partition somebody wants has one owner, who wants it."""
    assert plan.keys() == members.keys()
    given_out = [partition for mine in plan.values() for partition in mine]
    assert len(given_out) == len(set(given_out))
    for name, mine in plan.items():
        assert {partition.topic for partition in mine} <= set(members[name].topics)
    wanted = {topic for member in members.values() for topic in member.topics}
    assert set(given_out) == {
        TopicPartition(topic, number)
        for topic in wanted & layout.keys()
        for number in range(len(layout[topic]))
    }


def check_balanced(members: Mapping[str, MemberSubscription], plan: Plan) -> None:
    """Nobody could take a partition from somebody who has two more."""
    for name, mine in plan.items():
        for partition in mine:
            for other, theirs in plan.items():
                if partition.topic in members[other].topics:
                    assert len(theirs) + 2 > len(mine), (name, other, partition)


@pytest.mark.parametrize("kind", ALL_ASSIGNORS)
@given(layout=layouts, members=groups)
def test_every_partition_has_one_owner(
    kind: type[Assignor], layout: Layout, members: dict[str, MemberSubscription]
) -> None:
    check_complete(layout, members, kind().assign(layout, members))


def test_range_gives_runs_and_the_first_ones_one_more() -> None:
    plan = RangeAssignor().assign(layout_of(t=7), members_of("c", "a", "b"))
    assert numbers(plan) == {"a": [0, 1, 2], "b": [3, 4], "c": [5, 6]}


def test_static_members_come_first_in_the_order_of_their_names() -> None:
    members = {
        "z": MemberSubscription(("t",), instance_id="1"),
        "y": MemberSubscription(("t",), instance_id="2"),
        "a": MemberSubscription(("t",)),
    }
    plan = RangeAssignor().assign(layout_of(t=3), members)
    assert numbers(plan) == {"z": [0], "y": [1], "a": [2]}


def test_range_prefers_the_rack_of_a_replica_but_stays_balanced() -> None:
    racks = [frozenset("x"), frozenset("y"), frozenset("x"), frozenset("y")]
    members = {
        "a": MemberSubscription(("t",), rack="y"),
        "b": MemberSubscription(("t",), rack="x"),
    }
    assert numbers(RangeAssignor().assign({"t": racks}, members)) == {"a": [1, 3], "b": [0, 2]}
    lopsided = [frozenset("x")] * 3 + [frozenset("z")]
    assert numbers(RangeAssignor().assign({"t": lopsided}, members)) == {"a": [2, 3], "b": [0, 1]}


def test_range_keeps_co_partitioned_topics_together_with_racks() -> None:
    racks = [frozenset("x"), frozenset("y")]
    layout = {"s": racks, "t": racks}
    members = {
        "a": MemberSubscription(("s", "t"), rack="y"),
        "b": MemberSubscription(("s", "t"), rack="x"),
    }
    plan = RangeAssignor().assign(layout, members)
    assert numbers(plan, "s") == numbers(plan, "t") == {"a": [1], "b": [0]}


def test_round_robin_deals_out_all_topics_as_one_deck() -> None:
    plan = RoundRobinAssignor().assign(layout_of(s=3, t=2), members_of("a", "b", topics=["s", "t"]))
    assert numbers(plan, "s") == {"a": [0, 2], "b": [1]}
    assert numbers(plan, "t") == {"a": [1], "b": [0]}


def test_ceil_leaves_the_last_ones_short() -> None:
    plan = CeilAssignor().assign(layout_of(t=6), members_of("a", "b", "c", "d"))
    assert numbers(plan) == {"a": [0, 1], "b": [2, 3], "c": [4, 5], "d": []}


def rejoin(assignor: Assignor, plan: Plan, members: dict[str, MemberSubscription], generation: int):  # type: ignore[no-untyped-def]
    """The members as they would join after this plan, each telling what it owns."""
    joined = {}
    for name, member in members.items():
        mine = tuple(sorted(plan.get(name, [])))
        own = type(assignor)()
        own.on_assignment(mine, generation)
        joined[name] = MemberSubscription(
            member.topics,
            owned=mine if isinstance(assignor, CooperativeStickyAssignor) else (),
            generation=generation,
            user_data=own.user_data(mine),
        )
    return joined


@given(layouts, groups)
def test_sticky_is_balanced_and_stays_where_it_is(
    layout: Layout, members: dict[str, MemberSubscription]
) -> None:
    sticky = StickyAssignor()
    plan = sticky.assign(layout, members)
    check_balanced(members, plan)
    again = sticky.assign(layout, rejoin(sticky, plan, members, 1))
    assert {name: set(mine) for name, mine in again.items()} == {
        name: set(mine) for name, mine in plan.items()
    }


@given(layouts, groups, st.data())
def test_sticky_moves_only_what_it_must_when_a_member_leaves(
    layout: Layout, members: dict[str, MemberSubscription], data: st.DataObject
) -> None:
    same = {name: MemberSubscription(TOPICS) for name in members}
    sticky = StickyAssignor()
    plan = sticky.assign(layout, same)
    gone = data.draw(st.sampled_from(sorted(same)))
    left = {name: member for name, member in same.items() if name != gone}
    if not left:
        return
    after = sticky.assign(layout, rejoin(sticky, plan, left, 1))
    check_complete(layout, left, after)
    check_balanced(left, after)
    for name in left:
        assert set(plan[name]) <= set(after[name])


@given(layouts, groups, groups)
def test_cooperative_takes_from_owners_first_and_gives_in_the_next_round(
    layout: Layout, members: dict[str, MemberSubscription], others: dict[str, MemberSubscription]
) -> None:
    cooperative = CooperativeStickyAssignor()
    plan = cooperative.assign(layout, members)
    for generation in range(1, 4):
        joined = rejoin(cooperative, plan, others, generation)
        owners = {one: name for name, member in joined.items() for one in member.owned}
        plan = cooperative.assign(layout, joined)
        for name, mine in plan.items():
            for partition in mine:
                assert owners.get(partition, name) == name
    check_complete(layout, others, plan)
    check_balanced(others, plan)


def test_the_newest_generation_keeps_a_partition_that_two_claim() -> None:
    zero = (TopicPartition("t", 0),)
    members = {
        "old": MemberSubscription(("t",), owned=zero, generation=3),
        "new": MemberSubscription(("t",), owned=zero, generation=4),
    }
    for order in (["old", "new"], ["new", "old"]):
        in_order = {name: members[name] for name in order}
        plan = CooperativeStickyAssignor().assign(layout_of(t=1), in_order)
        assert numbers(plan) == {"old": [], "new": [0]}
    sticky_members = {}
    for name, member in members.items():
        own = StickyAssignor()
        own.on_assignment(member.owned, member.generation)
        sticky_members[name] = MemberSubscription(("t",), user_data=own.user_data(()))
    assert numbers(StickyAssignor().assign(layout_of(t=1), sticky_members)) == {
        "old": [],
        "new": [0],
    }


def test_user_data_that_nobody_can_read_is_no_claim() -> None:
    members = {"a": MemberSubscription(("t",), user_data=b"\xff\xff\xff")}
    assert numbers(StickyAssignor().assign(layout_of(t=2), members)) == {"a": [0, 1]}


class Backwards(Assignor):
    name = "backwards"

    def assign(self, layout: Layout, members: Mapping[str, MemberSubscription]) -> Plan:
        raise NotImplementedError


def test_strategies_by_name_by_javas_name_and_by_class() -> None:
    java = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    made = make_assignors(["range", java, Backwards])
    assert [assignor.name for assignor in made] == ["range", "cooperative-sticky", "backwards"]


@pytest.mark.parametrize(
    ("strategies", "message"),
    [(["fair"], "none of range"), ([], "no assignor"), (["range", RangeAssignor], "twice")],
)
def test_strategies_that_make_no_sense(strategies: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_assignors(strategies)


def test_members_are_cooperative_only_if_all_their_assignors_are() -> None:
    assert shared_protocol(make_assignors(["cooperative-sticky"])) is RebalanceProtocol.COOPERATIVE
    both = make_assignors(["range", "cooperative-sticky"])
    assert shared_protocol(both) is RebalanceProtocol.EAGER
