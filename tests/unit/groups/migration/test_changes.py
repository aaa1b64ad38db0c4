"""Groups that change their kind: what goes into the log, and what happens if it cannot."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.embedded_protocol import write_assignment
from tests.unit.groups.migration.runner import ShardRunner, VirtualCaller
from tests.unit.groups.migration.scenario import EVERYTHING, RANGE, Script, metadata

from moldau.errors import ErrorCode
from moldau.groups.classic import ClassicGroupState
from moldau.groups.consumer.member import MemberState
from moldau.groups.records import from_record, tombstone
from moldau.groups.settings import GroupSettings
from moldau.outcome import Record
from moldau.wire.api import ApiKey
from moldau.wire.stored.group_records import ConsumerGroupMemberMetadataKey, GroupMetadataKey

G = "g"
FAILURE = ErrorCode.COORDINATOR_NOT_AVAILABLE
STICKY = "cooperative-sticky"


class Rig:
    def __init__(self, initial_delay_ms: int = 0, **settings: Any) -> None:
        self.runner = ShardRunner(
            GroupSettings(
                group_initial_rebalance_delay_ms=initial_delay_ms,
                group_consumer_assignment_interval_ms=0,
                group_consumer_assignors=(RANGE,),
                **settings,
            ),
            {"t": 4},
        )
        topic_id = self.runner.topics.topic_id("t")
        assert topic_id is not None
        self.topic_id = topic_id
        self.script = Script(VirtualCaller(self.runner), {"t": topic_id})

    def records_since(self, position: int) -> list[str]:
        """The kinds of the records written since, a tombstone with a minus."""
        return [_kind(record) for record in self.runner.log[position:]]

    def kind(self) -> str:
        (listed,) = self.runner.shard.list_groups()
        return str(listed.group_type)


def _kind(record: Record) -> str:
    decoded = from_record(*record)
    assert decoded is not None
    key, value = decoded
    return ("" if value is not None else "-") + type(key).__name__.removesuffix("Key")


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_an_upgrade_is_one_batch(rig: Rig) -> None:
    rig.script.eager(G)
    before = len(rig.runner.log)
    rig.script.consumer_join(G, "c").get()
    assert rig.records_since(before) == [
        "-GroupMetadata",
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupMetadata",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupTargetAssignmentMetadata",
        "ConsumerGroupCurrentMemberAssignment",
        # and then what the heartbeat itself changes
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupMetadata",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupTargetAssignmentMetadata",
        "ConsumerGroupCurrentMemberAssignment",
    ]


def test_a_group_is_upgraded_in_its_first_rebalance_too() -> None:
    """It has no protocol yet, over which Kafka fails with UNKNOWN_SERVER_ERROR."""
    rig = Rig(initial_delay_ms=3000)
    protocols = [(RANGE, metadata("t"))]
    a = rig.script.join(G, protocols=protocols).get().member_id
    waiting = rig.script.join(G, a, protocols=protocols)
    assert rig.script.consumer_join(G, "~c").get().error_code is ErrorCode.NONE
    assert waiting.get().error_code is ErrorCode.REBALANCE_IN_PROGRESS
    answer = rig.script.join(G, a, protocols=protocols).get()
    assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 2)
    assert rig.script.sync(G, a, 2).get().assignment == write_assignment({"t": [0, 1]}, 1)


def test_a_group_whose_members_never_came_is_upgraded() -> None:
    rig = Rig(initial_delay_ms=3000)
    a = rig.script.join(G, protocols=[(RANGE, metadata("t"))]).get().member_id
    rig.script.join(G, a, protocols=[(RANGE, metadata("t"))])
    rig.script.leave(G, (a, None)).get()
    assert rig.script.consumer_join(G, "c").get().error_code is ErrorCode.NONE
    assert rig.kind() == "consumer"


def test_a_downgrade_is_one_batch(rig: Rig) -> None:
    a = rig.script.eager(G)
    rig.script.consumer_join(G, "c").get()
    before = len(rig.runner.log)
    rig.script.beat(G, "c", -1).get()
    member = [
        "-ConsumerGroupCurrentMemberAssignment",
        "-ConsumerGroupTargetAssignmentMember",
        "-ConsumerGroupMemberMetadata",
    ]
    assert rig.records_since(before) == [
        *member,
        *member,
        "-ConsumerGroupTargetAssignmentMetadata",
        "-ConsumerGroupMetadata",
        "GroupMetadata",
    ]
    group = rig.runner.classic(G)
    assert group is not None
    assert (group.state, group.generation) == (ClassicGroupState.PREPARING_REBALANCE, 2)
    assert list(group.members) == [a]


def test_a_group_is_upgraded_while_somebody_joins_who_does_not_support_its_last_choice(
    rig: Rig,
) -> None:
    both = [(STICKY, metadata("t")), (RANGE, metadata("t"))]
    a = rig.script.join(G, protocols=both).get().member_id
    rig.script.join(G, a, protocols=both).get()
    rig.script.sync(G, a, 1, parts={a: write_assignment(EVERYTHING, 1)}, protocol=STICKY).get()
    b = rig.script.join(G, protocols=[(RANGE, metadata("t"))]).get().member_id
    waiting = rig.script.join(G, b, protocols=[(RANGE, metadata("t"))])
    assert rig.script.consumer_join(G, "c").get().error_code is ErrorCode.NONE
    assert rig.kind() == "consumer"
    assert waiting.get().error_code is ErrorCode.REBALANCE_IN_PROGRESS
    assert rig.runner.consumer(G).members.keys() == {a, b, "c"}  # type: ignore[union-attr]


@pytest.mark.parametrize("turn", [1, -1])
def test_members_that_leave_together_are_removed_in_the_order_of_the_request(
    rig: Rig, turn: int
) -> None:
    rig.script.consumer_join(G, "stays").get()
    leaving = [f"member-{number}" for number in range(8)][::turn]
    for member_id in leaving:
        rig.script.consumer_join(G, member_id).get()
    written = len(rig.runner.log)
    members = [{"member_id": member_id} for member_id in leaving]
    rig.script.call(ApiKey.LEAVE_GROUP, 5, group_id=G, members=members).get()
    keys = [decoded[0] for r in rig.runner.log[written:] if (decoded := from_record(*r))]
    removed = [key.member_id for key in keys if isinstance(key, ConsumerGroupMemberMetadataKey)]
    assert removed == leaving


def test_an_upgrade_that_cannot_be_stored_leaves_a_classic_group(rig: Rig) -> None:
    a = rig.script.eager(G)
    b = rig.script.join(G, protocols=[(RANGE, metadata("t"))]).get().member_id
    waiting = rig.script.join(G, b, protocols=[(RANGE, metadata("t"))])
    rig.runner.fail_with = FAILURE
    assert rig.script.consumer_join(G, "c").get().error_code is FAILURE
    rig.runner.fail_with = None
    assert rig.kind() == "classic"
    assert waiting.get().error_code is ErrorCode.REBALANCE_IN_PROGRESS
    for member_id in (a, b):
        rig.script.join(G, member_id, protocols=[(RANGE, metadata("t"))])
    group = rig.runner.classic(G)
    assert group is not None
    assert (group.state, group.generation) == (ClassicGroupState.COMPLETING_REBALANCE, 2)


def test_a_downgrade_that_cannot_be_stored_leaves_a_consumer_group(rig: Rig) -> None:
    a = rig.script.eager(G)
    rig.script.consumer_join(G, "c").get()
    deadlines = rig.runner.shard.next_deadline()
    rig.runner.fail_with = FAILURE
    assert rig.script.beat(G, "c", -1).get().error_code is FAILURE
    assert rig.kind() == "consumer"
    assert rig.runner.shard.next_deadline() == deadlines
    rig.runner.fail_with = None
    assert rig.script.beat(G, "c", -1).get().error_code is ErrorCode.NONE
    assert rig.kind() == "classic"
    assert rig.runner.classic(G).members.keys() == {a}  # type: ignore[union-attr]


def test_an_expiry_that_cannot_be_stored_is_tried_again(rig: Rig) -> None:
    a = rig.script.eager(G)
    rig.script.consumer_join(G, "c").get()
    session_ms = rig.runner.settings.group_consumer_session_timeout_ms
    rig.runner.fail_with = FAILURE
    for _ in range(session_ms // 5000):
        rig.runner.advance(5000)
        rig.script.join(G, a, protocols=[(RANGE, metadata("t"))])
    assert rig.kind() == "consumer"
    rig.runner.fail_with = None
    rig.runner.advance(1000)
    assert rig.kind() == "classic"


def test_a_classic_join_that_cannot_be_stored_changes_nothing(rig: Rig) -> None:
    a = rig.script.eager(G)
    rig.script.consumer_join(G, "c").get()
    rig.runner.fail_with = FAILURE
    rejoin = [(RANGE, metadata("t"))]
    assert rig.script.join(G, a, protocols=rejoin).get().error_code is FAILURE
    assert rig.runner.consumer(G).members[a].epoch == 1  # type: ignore[union-attr]
    rig.runner.fail_with = None
    answer = rig.script.join(G, a, protocols=rejoin).get()
    assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 2)


def test_what_a_cooperative_member_still_owns_is_not_given_away(rig: Rig) -> None:
    """The leader has taken two partitions from it, which it has not heard of yet."""
    a = rig.script.member_of_one(G, metadata("t"), write_assignment(EVERYTHING, 1), STICKY)
    owning = [(STICKY, metadata("t", owned=EVERYTHING))]
    b = rig.script.join(G, protocols=owning).get().member_id
    second = rig.script.join(G, b, protocols=[(STICKY, metadata("t"))])
    rig.script.join(G, a, protocols=owning).get()
    second.get()
    parts = {a: write_assignment({"t": [0, 1]}, 1), b: write_assignment({}, 1)}
    rig.script.sync(G, a, 2, parts=parts, protocol=STICKY)
    assert rig.script.consumer_join(G, "~c").get().assignment.topic_partitions == ()
    group = rig.runner.consumer(G)
    assert group is not None
    assert group.members[a].held == {rig.topic_id: frozenset(range(4))}

    rig.script.join(G, a, protocols=[(STICKY, metadata("t"))]).get()
    assert group.members[a].state is MemberState.STABLE
    assert rig.script.beat(G, "~c", 3).get().assignment.topic_partitions[0].partitions == (3,)


def test_a_downgraded_group_rebalances_also_after_a_restart(rig: Rig) -> None:
    """Otherwise nobody would read what the last member under the consumer protocol had."""
    a = rig.script.eager(G)
    rig.script.consumer_join(G, "c").get()
    rig.script.join(G, a, protocols=[(RANGE, metadata("t"))]).get()
    rig.script.sync(G, a, 2).get()
    rig.script.beat(G, "c", 2).get()
    rig.script.beat(G, "c", -1).get()
    rig.runner.restart()
    assert rig.script.heartbeat(G, a, 2).get().error_code is ErrorCode.REBALANCE_IN_PROGRESS
    answer = rig.script.join(G, a, protocols=[(RANGE, metadata("t"))]).get()
    assert (answer.generation_id, answer.leader) == (3, a)
    rig.script.sync(G, a, 3, parts={a: write_assignment(EVERYTHING, 1)}).get()
    rig.runner.restart()
    assert rig.script.heartbeat(G, a, 3).get().error_code is ErrorCode.NONE


def test_members_go_on_after_a_restart_in_a_mixed_group(rig: Rig) -> None:
    a = rig.script.eager(G)
    rig.script.commit(G, a, 1).get()
    rig.script.consumer_join(G, "c").get()
    rig.runner.restart()
    assert rig.script.heartbeat(G, a, 1).get().error_code is ErrorCode.REBALANCE_IN_PROGRESS
    rig.runner.restart()
    assert rig.script.join(G, a, protocols=[(RANGE, metadata("t"))]).get().generation_id == 2
    rig.runner.restart()
    assert rig.script.sync(G, a, 2).get().assignment == write_assignment({"t": [0, 1]}, 1)
    assert rig.script.beat(G, "c", 2).get().error_code is ErrorCode.NONE
    (group,) = rig.script.fetch(G).get().groups
    assert group.topics[0].partitions[0].committed_offset == 7


def test_a_silent_classic_member_is_removed_after_its_own_session(rig: Rig) -> None:
    rig.script.eager(G)
    rig.script.consumer_join(G, "c").get()
    rig.runner.advance(5999)
    assert len(rig.runner.consumer(G).members) == 2  # type: ignore[union-attr]
    rig.runner.advance(1)
    assert rig.runner.consumer(G).members.keys() == {"c"}  # type: ignore[union-attr]


def test_why_a_group_stays_classic_is_said_in_the_words_of_kafka(rig: Rig) -> None:
    script = rig.script
    script.member_of_one("malformed", b"\0", write_assignment(EVERYTHING, 1))
    with_user_data = write_assignment(EVERYTHING, 1)[:-4] + b"\0\0\0\2ud"
    script.member_of_one("custom", metadata("t"), with_user_data)
    custom = (
        "an unsupported custom assignor is in use. Please refer to the documentation or switch to "
        "a default assignor before re-attempting the upgrade."
    )
    malformed = "the embedded consumer protocol is malformed."
    for group_id, reason in {"malformed": malformed, "custom": custom}.items():
        message = script.consumer_join(group_id, "c").get().error_message
        sentence = f"Cannot upgrade classic group {group_id} to consumer group because {reason}"
        assert message == sentence


def test_groups_that_are_too_large_stay_what_they_are() -> None:
    rig = Rig(group_consumer_max_size=1, group_max_size=1)
    rig.script.eager(G)
    refused = rig.script.consumer_join(G, "c").get()
    assert refused.error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert rig.kind() == "classic"

    rig = Rig(group_max_size=1)
    rig.script.consumer_join(G, "c").get()
    for name in ("a", "b"):
        rig.script.join(G, name, protocols=[(RANGE, metadata("t"))]).get()
    rig.script.beat(G, "c", -1).get()
    assert rig.kind() == "consumer"
    rig.script.leave(G, ("a", None)).get()
    assert rig.kind() == "classic"


def test_the_classic_record_is_gone_from_what_compaction_leaves(rig: Rig) -> None:
    rig.script.eager(G)
    rig.script.consumer_join(G, "c").get()
    kept = {record.key for record in rig.runner.compacted()}
    assert tombstone(GroupMetadataKey(G)).key not in kept
