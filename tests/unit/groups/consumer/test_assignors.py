"""The server-side assignors: every partition has one owner, shares are fair, little moves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.groups.consumer.assignors import ASSIGNORS, GroupSpec, MemberSpec

TOPICS = [UUID(int=n) for n in range(1, 6)]
A, B, C = TOPICS[:3]


def member(
    *topics: UUID,
    assigned: Mapping[UUID, frozenset[int]] | None = None,
    instance_id: str | None = None,
) -> MemberSpec:
    return MemberSpec(frozenset(topics), assigned or {}, instance_id)


@st.composite
def groups(draw: st.DrawFn, same_subscriptions: bool | None = None) -> GroupSpec:
    counts = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), max_size=5))
    member_ids = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8))
    everything = frozenset(counts)
    subsets = st.frozensets(st.sampled_from(sorted(counts))) if counts else st.just(everything)
    # What a member has may be of topics that it left, or that are gone; but nobody else has it.
    held = draw(
        st.lists(
            st.tuples(st.sampled_from(TOPICS), st.integers(0, 11), st.sampled_from("abcdefgh")),
            unique_by=lambda entry: entry[:2],
            max_size=20,
        )
    )
    members = {}
    for member_id in member_ids:
        assigned: dict[UUID, frozenset[int]] = {}
        for topic, partition, owner in held:
            if owner == member_id:
                assigned[topic] = assigned.get(topic, frozenset()) | {partition}
        members[member_id] = MemberSpec(
            everything if same_subscriptions else draw(subsets), assigned
        )
    return GroupSpec(members, counts)


def size(share: Mapping[UUID, Collection[int]]) -> int:
    return sum(map(len, share.values()))


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@settings(deadline=None)
@given(group=groups())
def test_every_partition_goes_to_exactly_one_subscriber(name: str, group: GroupSpec) -> None:
    result = ASSIGNORS[name].assign(group)
    assert result.keys() == group.members.keys()
    owners: dict[tuple[UUID, int], str] = {}
    for member_id, share in result.items():
        for topic, partitions in share.items():
            assert partitions, "topics without partitions are left out"
            assert topic in group.members[member_id].subscribed
            for partition in partitions:
                assert (topic, partition) not in owners
                owners[topic, partition] = member_id
    wanted = frozenset().union(*(spec.subscribed for spec in group.members.values()))
    assert owners.keys() == {
        (topic, partition) for topic in wanted for partition in range(group.partitions[topic])
    }


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@settings(deadline=None)
@given(group=groups())
def test_an_assignment_is_its_own_successor(name: str, group: GroupSpec) -> None:
    first = ASSIGNORS[name].assign(group)
    again = GroupSpec(
        {
            member_id: MemberSpec(spec.subscribed, first[member_id])
            for member_id, spec in group.members.items()
        },
        group.partitions,
    )
    assert ASSIGNORS[name].assign(again) == first


@settings(deadline=None)
@given(group=groups(same_subscriptions=True))
def test_uniform_shares_differ_by_at_most_one_and_only_surplus_moves(group: GroupSpec) -> None:
    result = ASSIGNORS["uniform"].assign(group)
    if not result:
        return
    sizes = [size(share) for share in result.values()]
    assert max(sizes) - min(sizes) <= 1
    for member_id, spec in group.members.items():
        had = {
            (topic, partition)
            for topic, partitions in spec.assigned.items()
            for partition in partitions
            if partition < group.partitions.get(topic, 0)
        }
        has = {
            (topic, partition)
            for topic, partitions in result[member_id].items()
            for partition in partitions
        }
        if had - has:
            assert len(has) <= min(sizes) + 1
            assert has <= had, "a member that gives something up gets nothing new"


@settings(deadline=None)
@given(group=groups())
def test_uniform_leaves_no_move_that_would_make_shares_more_equal(group: GroupSpec) -> None:
    result = ASSIGNORS["uniform"].assign(group)
    sizes = {member_id: size(share) for member_id, share in result.items()}
    for member_id, share in result.items():
        for topic in share:
            takers = [m for m, spec in group.members.items() if topic in spec.subscribed]
            assert sizes[member_id] - min(sizes[taker] for taker in takers) <= 1


def test_range_gives_the_same_range_of_co_partitioned_topics() -> None:
    group = GroupSpec({"m1": member(A, B), "m2": member(A, B)}, {A: 5, B: 5})
    assert ASSIGNORS["range"].assign(group) == {
        "m1": {A: frozenset({0, 1, 2}), B: frozenset({0, 1, 2})},
        "m2": {A: frozenset({3, 4}), B: frozenset({3, 4})},
    }


def test_range_divides_each_topic_among_its_own_subscribers() -> None:
    group = GroupSpec({"m1": member(A, B), "m2": member(B), "m3": member(C)}, {A: 2, B: 3, C: 1})
    assert ASSIGNORS["range"].assign(group) == {
        "m1": {A: frozenset({0, 1}), B: frozenset({0, 1})},
        "m2": {B: frozenset({2})},
        "m3": {C: frozenset({0})},
    }


def test_range_orders_static_members_by_instance_so_that_a_restart_moves_nothing() -> None:
    def assign(first_id: str) -> list[frozenset[int]]:
        members = {
            first_id: member(A, instance_id="i1"),
            "m": member(A, instance_id="i2"),
            "a": member(A),
        }
        result = ASSIGNORS["range"].assign(GroupSpec(members, {A: 3}))
        return [result[first_id][A], result["m"][A], result["a"][A]]

    assert assign("z") == assign("b") == [frozenset({0}), frozenset({1}), frozenset({2})]


def test_uniform_gives_a_newcomer_its_share_and_moves_no_more() -> None:
    everything = {A: frozenset(range(6))}
    group = GroupSpec({"old": member(A, assigned=everything), "new": member(A)}, {A: 6})
    assert ASSIGNORS["uniform"].assign(group) == {
        "old": {A: frozenset({0, 1, 2})},
        "new": {A: frozenset({3, 4, 5})},
    }


def test_uniform_gives_extra_partitions_to_those_that_have_them() -> None:
    group = GroupSpec(
        {
            "a": member(A, assigned={A: frozenset({0})}),
            "b": member(A, assigned={A: frozenset({1, 2})}),
        },
        {A: 3},
    )
    assert ASSIGNORS["uniform"].assign(group)["b"] == {A: frozenset({1, 2})}
