"""ConsumerGroupHeartbeat: joining, reconciling, leaving, and who is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.groups.consumer.harness import GROUP, NOTHING, Harness, partitions

from moldau.errors import ErrorCode
from moldau.groups.client_info import ClientInfo
from moldau.groups.consumer import journal, patterns
from moldau.groups.consumer.group import GroupState, ResolvedRegex
from moldau.groups.consumer.member import MemberState
from moldau.groups.consumer.timers import TOPICS_SETTLE_MS
from moldau.groups.settings import GroupSettings
from moldau.groups.timeouts import RETRY_MS
from moldau.outcome import Outcome
from moldau.wire.primitives import error_from

EVERYTHING = frozenset(range(6))


@pytest.fixture
def h() -> Iterator[Harness]:
    harness = Harness(orders=6)
    yield harness
    harness.check_log()


def test_the_first_member_gets_everything_with_its_first_answer(h: Harness) -> None:
    answer = h.join("a", "orders")
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "a", 2)
    assert answer.heartbeat_interval.total_seconds() == 5
    assert partitions(answer) == {h.id("orders"): EVERYTHING}
    assert h.group.state is GroupState.STABLE


def test_an_assignment_is_told_once_and_again_on_a_full_request(h: Harness) -> None:
    h.join("a", "orders")
    assert h.beat("a", 2).assignment is None
    assert not h.last_records, "a heartbeat without news writes nothing"
    owned = {h.id("orders"): EVERYTHING}
    full = h.beat("a", 2, owned=owned, topics=("orders",), rebalance_timeout_ms=60_000)
    assert partitions(full) == owned
    assert not h.last_records


def test_version_0_lets_the_coordinator_choose_a_member_id(h: Harness) -> None:
    assert h.join("", "orders", version=0).member_id == "made-0"
    assert error_from(h.join("", "orders", version=1).error_code) == ErrorCode.INVALID_REQUEST


def test_partitions_change_hands_only_when_they_were_given_up(h: Harness) -> None:
    orders = h.id("orders")
    h.join("a", "orders")
    joined = h.join("b", "orders")
    assert joined.member_epoch == 3
    assert partitions(joined) == {}
    assert h.group.members["b"].state is MemberState.UNRELEASED_PARTITIONS
    state = h.group.state
    assert state is GroupState.RECONCILING

    asked = h.beat("a", 2)
    assert asked.member_epoch == 2, "it keeps its epoch until it has given up its partitions"
    assert partitions(asked) == {orders: frozenset({0, 1, 2})}
    assert partitions(h.beat("b", 3)) is None

    still = h.beat("a", 2, owned={orders: EVERYTHING})
    assert (still.member_epoch, partitions(still)) == (2, None)
    done = h.beat("a", 2, owned={orders: frozenset({0, 1, 2})})
    assert done.member_epoch == 3
    assert partitions(h.beat("b", 3)) == {orders: frozenset({3, 4, 5})}
    assert h.group.state is GroupState.STABLE


def test_a_member_that_gave_up_before_it_was_asked_moves_on_at_once(h: Harness) -> None:
    orders = h.id("orders")
    h.join("a", "orders")
    h.join("b", "orders")
    answer = h.beat("a", 2, owned={orders: frozenset({0, 1, 2})})
    assert (answer.member_epoch, partitions(answer)) == (3, {orders: frozenset({0, 1, 2})})


def test_what_a_member_leaves_behind_goes_to_the_others(h: Harness) -> None:
    orders = h.id("orders")
    h.join("a", "orders")
    h.join("b", "orders")
    left = h.beat("a", -1)
    assert (left.error_code, left.member_epoch) == (0, -1)
    assert partitions(h.beat("b", 3)) == {orders: EVERYTHING}
    h.beat("b", -1)
    assert h.group.state is GroupState.EMPTY
    assert not h.group.target
    assert len(h.timeouts) == 0


def test_a_silent_member_is_fenced_after_its_session(h: Harness) -> None:
    h.join("a", "orders")
    h.pass_time(44_999)
    assert "a" in h.group.members
    h.pass_time(1)
    assert "a" not in h.group.members
    assert error_from(h.beat("a", 2).error_code) == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_whose_sessions_end_together_leave_one_consistent_group(h: Harness) -> None:
    h.topic("bills", 2)
    for name in ("a", "b", "c"):
        h.join(name, "orders" if name != "b" else "bills")
    h.pass_time(10_000)
    h.beat("c", h.group.members["c"].epoch)
    h.pass_time(35_000)
    assert h.group.members.keys() == {"c"}
    assert h.group.subscribed == {"orders"}


def test_a_member_that_does_not_give_up_is_fenced_after_its_rebalance_timeout(h: Harness) -> None:
    orders = h.id("orders")
    h.join("a", "orders", rebalance_timeout_ms=20_000)
    h.join("b", "orders")
    h.beat("a", 2)
    for _ in range(4):
        h.pass_time(5_000)
        h.beat("b", 3)
        if "a" in h.group.members:
            h.beat("a", 2, owned={orders: EVERYTHING})
    assert "a" not in h.group.members
    assert h.group.members["b"].assigned[orders].keys() == EVERYTHING


def test_the_rebalance_timeout_ends_when_partitions_are_given_up(h: Harness) -> None:
    h.join("a", "orders", rebalance_timeout_ms=20_000)
    h.join("b", "orders")
    h.beat("a", 2)
    h.beat("a", 2, owned={h.id("orders"): frozenset({0, 1, 2})})
    h.pass_time(30_000)
    assert "a" in h.group.members


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST, "MemberId can't be empty."),
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST, "GroupId can't be empty."),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST, "InstanceId can't be empty."),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST, "RackId can't be empty."),
        (
            {"rebalance_timeout_ms": -1},
            ErrorCode.INVALID_REQUEST,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (
            {"owned": None},
            ErrorCode.INVALID_REQUEST,
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            {"topics": None},
            ErrorCode.INVALID_REQUEST,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null",
        ),
        (
            {"epoch": -3},
            ErrorCode.INVALID_REQUEST,
            "MemberEpoch is -3, but must be greater than or equal to -2.",
        ),
        ({"epoch": -2}, ErrorCode.INVALID_REQUEST, "InstanceId can't be null."),
        ({"epoch": 7}, ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {GROUP} not found."),
        ({"epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {GROUP} not found."),
        (
            {"assignor": "sticky"},
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            "ServerAssignor sticky is not supported. Supported assignors: uniform, range.",
        ),
        (
            {"topics": None, "regex": "("},
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            "SubscribedTopicRegex `(` is not a valid regular expression: ",
        ),
    ],
)
def test_what_is_refused_and_in_the_words_of_kafka(
    h: Harness, fields: dict[str, Any], error: ErrorCode, message: str
) -> None:
    request: dict[str, Any] = {
        "member_id": "a",
        "epoch": 0,
        "rebalance_timeout_ms": 1000,
        "owned": NOTHING,
        "topics": ("orders",),
    }
    answer = h.beat(**(request | fields))
    assert error_from(answer.error_code) == error
    assert message in (answer.error_message or "")
    assert not h.log


def test_a_partition_cannot_be_owned_while_joining(h: Harness) -> None:
    owned = {h.id("orders"): frozenset({1})}
    answer = h.beat("a", 0, owned=owned, topics=("orders",), rebalance_timeout_ms=1000)
    assert error_from(answer.error_code) == ErrorCode.INVALID_REQUEST


def test_wrong_epochs_are_fenced_but_the_one_before_may_be_a_lost_answer(h: Harness) -> None:
    orders = h.id("orders")
    h.join("a", "orders")
    h.join("b", "orders")
    half = {orders: frozenset({0, 1, 2})}
    assert h.beat("a", 2, owned=half).member_epoch == 3
    assert error_from(h.beat("a", 4).error_code) == ErrorCode.FENCED_MEMBER_EPOCH
    assert error_from(h.beat("a", 2).error_code) == ErrorCode.FENCED_MEMBER_EPOCH, (
        "holds who knows what"
    )
    too_much = h.beat("a", 2, owned={orders: EVERYTHING})
    assert error_from(too_much.error_code) == ErrorCode.FENCED_MEMBER_EPOCH
    again = h.beat("a", 2, owned=half)
    assert (again.error_code, again.member_epoch) == (0, 3)


def test_a_fenced_member_joins_again_and_keeps_what_it_had(h: Harness) -> None:
    h.join("a", "orders")
    assert error_from(h.beat("a", 10).error_code) == ErrorCode.FENCED_MEMBER_EPOCH
    answer = h.join("a", "orders")
    assert (answer.member_epoch, partitions(answer)) == (2, {h.id("orders"): EVERYTHING})


def test_a_full_group_takes_no_more_members() -> None:
    h = Harness(
        GroupSettings(group_consumer_max_size=1, group_consumer_assignment_interval_ms=0), orders=6
    )
    h.join("a", "orders")
    assert error_from(h.join("b", "orders").error_code) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert error_from(h.beat("a", 2).error_code) == ErrorCode.NONE


def test_assignments_of_a_group_keep_their_distance() -> None:
    h = Harness(GroupSettings(group_consumer_assignment_interval_ms=1000), orders=6)
    h.join("a", "orders")
    joined = h.join("b", "orders")
    assert (joined.member_epoch, partitions(joined)) == (2, {})
    assert h.group.state is GroupState.ASSIGNING
    h.pass_time(1000)
    assert h.beat("b", 2).member_epoch == 3
    assert h.group.target["b"] == {h.id("orders"): frozenset({3, 4, 5})}


def test_a_clock_that_is_set_back_does_not_put_assignments_off() -> None:
    h = Harness(GroupSettings(group_consumer_assignment_interval_ms=1000), orders=6)
    h.join("a", "orders")
    h.now_ms -= 3_600_000
    assert h.join("b", "orders").member_epoch == 3, "assigned at once"
    assert h.group.state is not GroupState.ASSIGNING


def test_a_group_begins_with_epoch_1_and_rises_with_subscriptions_only(h: Harness) -> None:
    answer = h.join("a")
    assert (answer.member_epoch, partitions(answer)) == (1, {})
    assert (h.group.epoch, h.group.state) == (1, GroupState.STABLE)
    assert h.join("b").member_epoch == 1
    assert h.join("c", "orders").member_epoch == 2
    assert h.beat("a", 1).member_epoch == 2


def test_the_assignor_that_most_members_ask_for_is_used(h: Harness) -> None:
    h.join("a", "orders", assignor="range")
    h.join("b", "orders", assignor="range")
    h.join("c", "orders")
    (group,) = h.groups.describe([GROUP])
    assert group.assignor_name == "range"


# Static members


def test_a_static_member_comes_back_to_what_it_had(h: Harness) -> None:
    h.join("a", "orders", instance_id="one")
    h.join("b", "orders")
    before = dict(h.group.target)
    left = h.beat("a", -2, instance_id="one")
    assert (left.error_code, left.member_epoch) == (0, -2)
    epoch = h.group.epoch
    back = h.join("a2", "orders", instance_id="one")
    assert back.member_epoch == h.group.assignment_epoch
    assert h.group.epoch == epoch, "nobody else notices"
    assert h.group.target == {"a2": before["a"], "b": before["b"]}
    assert h.group.members.keys() == {"a2", "b"}
    assert h.group.static_members == {"one": "a2"}
    assert error_from(h.beat("a", 3, instance_id="one").error_code) == ErrorCode.FENCED_INSTANCE_ID
    assert error_from(h.beat("a", -1, instance_id="one").error_code) == ErrorCode.FENCED_INSTANCE_ID


def test_an_instance_id_in_use_is_not_given_away(h: Harness) -> None:
    h.join("a", "orders", instance_id="one")
    answer = h.join("b", "orders", instance_id="one")
    assert error_from(answer.error_code) == ErrorCode.UNRELEASED_INSTANCE_ID
    assert error_from(h.beat("b", 2, instance_id="two").error_code) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_lost_the_answer_to_its_join_joins_again(h: Harness) -> None:
    h.join("a", "orders", instance_id="one")
    again = h.join("a", "orders", instance_id="one")
    assert (again.error_code, again.member_epoch) == (0, 2)
    assert partitions(again) == {h.id("orders"): EVERYTHING}


def test_a_static_member_that_came_back_under_its_old_id_is_watched(h: Harness) -> None:
    h.join("a", "orders", instance_id="one")
    h.beat("a", -2, instance_id="one")
    h.join("a", "orders", instance_id="one")
    h.pass_time(45_000)
    assert not h.group.members


def test_a_static_member_that_stays_away_is_fenced_after_its_session(h: Harness) -> None:
    h.join("a", "orders", instance_id="one")
    h.beat("a", -2, instance_id="one")
    assert h.group.owners, "its partitions wait for it"
    h.pass_time(45_000)
    assert not h.group.members
    assert not h.group.owners


def test_a_static_member_comes_back_with_other_subscriptions(h: Harness) -> None:
    h.topic("bills", 2)
    h.join("a", "orders", instance_id="one")
    h.beat("a", -2, instance_id="one")
    answer = h.join("a", "bills", instance_id="one")
    assert partitions(answer) == {h.id("bills"): frozenset({0, 1})}
    assert h.group.state is GroupState.STABLE


# Topics and patterns


def test_new_partitions_and_new_topics_reach_the_members(h: Harness) -> None:
    h.join("a", "orders", "bills")
    h.topic("orders", 8)
    answer = h.beat("a", 2)
    assert (answer.member_epoch, partitions(answer)) == (3, {h.id("orders"): frozenset(range(8))})
    h.topic("bills", 1)
    assert partitions(h.beat("a", 3)) == {
        h.id("orders"): frozenset(range(8)),
        h.id("bills"): frozenset({0}),
    }


def test_a_deleted_topic_is_taken_away(h: Harness) -> None:
    orders = h.id("orders")
    h.join("a", "orders")
    h.topic("orders", None)
    answer = h.beat("a", 2)
    assert (answer.member_epoch, partitions(answer)) == (2, {})
    assert h.beat("a", 2, owned={orders: frozenset()}).member_epoch == 3


def test_other_topics_do_not_disturb_a_group(h: Harness) -> None:
    h.join("a", "orders")
    h.beat("a", 2)
    h.topic("bills", 3)
    assert not h.group.refresh_requested
    h.topic("orders", 6)
    assert h.beat("a", 2).member_epoch == 2, "looked at, and nothing was new"


def test_a_member_hears_of_the_topics_of_its_pattern_with_its_next_heartbeat() -> None:
    """Kafka, too, answers with epoch 1 and nothing first, and matches in the background."""
    h = Harness(GroupSettings(group_consumer_assignment_interval_ms=1000), orders=6)
    answer = h.join("a", regex="order.*")
    assert (answer.member_epoch, partitions(answer)) == (1, {})
    assert answer.heartbeat_interval.total_seconds() == 0.1
    h.pass_time(0)
    answer = h.beat("a", 1)
    assert answer.heartbeat_interval.total_seconds() == 5
    assert (answer.member_epoch, partitions(answer)) == (2, {h.id("orders"): EVERYTHING})
    h.check_log()


def test_a_pattern_follows_the_topics(h: Harness) -> None:
    h.join("a", regex="order.*")
    h.pass_time(0)
    h.beat("a", 1)
    assert h.groups.is_subscribed(GROUP, "orders")
    h.topic("ordered", 1)
    h.pass_time(TOPICS_SETTLE_MS)
    answer = h.beat("a", 2)
    assert partitions(answer) == {h.id("orders"): EVERYTHING, h.id("ordered"): frozenset({0})}
    h.topic("ordered", None)
    h.pass_time(TOPICS_SETTLE_MS)
    assert h.groups.is_subscribed(GROUP, "orders")
    assert not h.groups.is_subscribed(GROUP, "ordered")
    assert partitions(h.beat("a", 3)) == {h.id("orders"): EVERYTHING}


def test_a_pattern_that_others_use_needs_no_wait(h: Harness) -> None:
    h.join("a", regex="order.*")
    h.pass_time(0)
    h.beat("a", 1)
    assert h.join("b", regex="order.*").member_epoch == 3
    assert h.group.target["b"] == {h.id("orders"): frozenset({3, 4, 5})}


def test_a_member_that_changes_its_pattern_gives_up_what_it_does_not_want(h: Harness) -> None:
    h.topic("bills", 1)
    h.join("a", regex="order.*")
    h.pass_time(0)
    h.beat("a", 1)
    assert partitions(h.beat("a", 2, regex="bill.*")) == {}
    h.pass_time(0)
    assert partitions(h.beat("a", 2, owned=NOTHING)) == {h.id("bills"): frozenset({0})}


def test_a_pattern_must_match_the_whole_name(h: Harness) -> None:
    h.join("a", regex="rder")
    h.pass_time(0)
    assert h.group.regexes["rder"].topics == set()
    answer = h.beat("a", 1)
    assert (answer.member_epoch, partitions(answer)) == (1, None)


def test_a_pattern_that_nobody_uses_is_forgotten(h: Harness) -> None:
    h.join("a", regex="o.*")
    h.join("b", regex="o.*")
    h.join("c", regex="x.*")
    h.pass_time(0)
    assert h.group.regexes.keys() == {"o.*", "x.*"}
    h.beat("a", -1)
    h.beat("c", -1)
    assert h.group.regexes.keys() == {"o.*"}
    h.beat("b", h.group.members["b"].epoch, regex="")
    assert not h.group.regexes
    assert not h.groups.is_subscribed(GROUP, "orders")
    h.pass_time(0)
    assert not h.group.regexes


def test_a_pattern_whose_topics_cannot_be_written_is_matched_again(h: Harness) -> None:
    h.join("a", regex="o.*")
    h.fail_with = ErrorCode.COORDINATOR_NOT_AVAILABLE
    h.pass_time(0)
    h.fail_with = None
    assert not h.group.regexes
    h.pass_time(RETRY_MS)
    assert h.group.regexes["o.*"].topics == {"orders"}


def test_a_pattern_that_a_coordinator_left_behind_is_resolved_by_the_next_one(h: Harness) -> None:
    h.join("a", regex="o.*")
    h.reload()
    h.pass_time(0)
    assert partitions(h.beat("a", 1)) == {h.id("orders"): EVERYTHING}


def test_a_member_that_is_fenced_takes_its_pattern_along(h: Harness) -> None:
    """Both are due at once: one change of a group at a time."""
    h.join("a", "orders")
    h.join("b", regex="o.*")
    h.pass_time(h.settings.group_consumer_session_timeout_ms)
    assert not h.group.members
    assert not h.group.regexes


def test_a_stored_pattern_that_is_refused_by_now_stays_as_it_was(
    h: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another release, or Kafka, took it: nobody in the group is to suffer for that."""
    h.join("a", regex="o.*")
    h.pass_time(0)
    monkeypatch.setattr(patterns, "_MAX_WEIGHT", 2)
    h.reload()
    h.topic("other", 1)
    h.pass_time(TOPICS_SETTLE_MS)
    assert h.beat("a", 1).error_code == 0
    assert h.group.regexes["o.*"].topics == {"orders"}
    refused = error_from(h.join("c", regex="x.*").error_code)
    assert refused == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_patterns_are_matched_again_from_time_to_time(h: Harness) -> None:
    h.join("a", regex="o.*")
    h.pass_time(0)
    h.topics.set("others", 1)  # and nobody is told
    waited_ms = 0
    while h.group.regexes["o.*"].topics == {"orders"}:
        h.pass_time(30_000)
        h.beat("a", h.group.members["a"].epoch)
        waited_ms += 30_000
    assert waited_ms == h.settings.group_consumer_regex_refresh_interval_ms


def test_dropping_a_topic_takes_it_away_at_once() -> None:
    h = Harness(GroupSettings(group_consumer_assignment_interval_ms=1000), orders=2, bills=1)
    h.join("a", "orders", "bills")
    answer = h.beat("a", 2, topics=("orders",))
    assert partitions(answer) == {h.id("orders"): frozenset({0, 1})}
    assert h.group.assignment_epoch == 2, "ahead of the next assignment"


# Around the group


def test_a_change_of_client_is_noted_but_moves_nothing(h: Harness) -> None:
    h.join("a", "orders")
    assert h.beat("a", 2, client=ClientInfo("other", "/10.0.0.1")).member_epoch == 2
    assert len(h.last_records) == 1
    assert h.group.members["a"].client_host == "/10.0.0.1"


def test_a_failed_append_changes_nothing_and_is_answered(h: Harness) -> None:
    h.join("a", "orders")
    h.beat("a", 2)
    h.topic("orders", 7)
    before = repr(h.group)
    h.fail_with = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert error_from(h.join("b", "orders").error_code) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert error_from(h.beat("a", -1).error_code) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    h.pass_time(45_000)
    assert repr(h.group) == before
    h.fail_with = None
    h.pass_time(500)
    assert not h.group.members, "an expiry that could not be written is tried again"


def test_a_restarted_coordinator_goes_on_where_the_log_ends(h: Harness) -> None:
    orders = h.id("orders")
    h.join("a", "orders", rebalance_timeout_ms=20_000)
    h.join("b", "orders")
    h.beat("a", 2)
    h.reload()
    assert h.beat("a", 2, owned={orders: frozenset({0, 1, 2})}).member_epoch == 3
    assert partitions(h.beat("b", 3)) == {orders: frozenset({3, 4, 5})}
    h.reload()
    h.pass_time(45_000)
    assert not h.group.members


def live(h: Harness, seconds: int) -> None:
    """Members that own what they are told, and heartbeats every five seconds."""
    for _ in range(seconds // 5):
        h.pass_time(5_000)
        for member in list(h.group.members.values()):
            owned = {topic: frozenset(parts) for topic, parts in member.assigned.items()}
            h.beat(member.member_id, member.epoch, owned=owned)


@pytest.mark.parametrize("of_b", [{"topics": ("orders",)}, {"regex": "order.*"}])
def test_what_a_member_gives_up_for_a_pattern_that_matches_nothing_goes_to_others(
    of_b: dict[str, Any],
) -> None:
    h = Harness(orders=6)
    h.join("a", regex="order.*")
    h.beat("b", 0, owned=NOTHING, rebalance_timeout_ms=60_000, **of_b)
    live(h, 60)
    assert {len(m.assigned[h.id("orders")]) for m in h.group.members.values()} == {3}
    h.beat("a", h.group.members["a"].epoch, regex="bill.*")
    live(h, 60)
    assert set(h.group.members["b"].assigned[h.id("orders")]) == set(range(6))
    assert not h.group.members["a"].assigned
    h.check_log()


def test_a_pattern_whose_topics_cannot_be_written_does_no_harm_to_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    long = "a" * 200
    h = Harness(orders=6, bills=1)
    h.topics.set(long, 1)
    h.join("a", regex=".*")
    h.join("b", regex="bill.*")
    h.largest_batch = 200
    live(h, 120)
    assert h.group.members["b"].assigned.keys() == {h.id("bills")}
    assert not h.group.members["a"].assigned
    (said,) = caplog.messages  # and tried: again when there are other topics, or after a while
    assert "'.*'" in said
    h.topic(long, None)
    h.topic("more", 1)
    live(h, 10)
    assert h.group.regexes[".*"].topics == {"orders", "bills", "more"}


def test_a_stored_pattern_is_kept_up_to_date_from_its_first_subscriber_on() -> None:
    h = Harness(orders=6)
    h.join("b", "orders")
    stored = ResolvedRegex(frozenset({"orders", "gone"}), 0, 5)
    h.run(Outcome([journal.regular_expression(GROUP, "order.*", stored)]))
    h.reload()
    h.join("a", regex="order.*")
    h.topic("orderly", 1)
    live(h, 10)
    assert h.group.regexes["order.*"].topics == {"orders", "orderly"}
