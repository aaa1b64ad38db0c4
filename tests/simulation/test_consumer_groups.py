"""Lives of a consumer group under the consumer protocol, with every kind of churn.

Consumers join, change their minds, are slow to give partitions up, lose answers, crash, leave, come
back as static members; topics grow, appear and go; the coordinator restarts and fails to write.
At any time no two members own the same partition, epochs only rise, and the log alone gives the
same groups. When the churn stops, the group becomes stable with fair shares.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)
from kio.schema.consumer_group_heartbeat.v1.response import ConsumerGroupHeartbeatResponse
from tests.unit.groups.consumer.harness import GROUP, Harness, partitions

from moldau.errors import ErrorCode
from moldau.groups.consumer.group import GroupState
from moldau.groups.settings import GroupSettings
from moldau.wire.primitives import error_from

REBALANCE_TIMEOUT_MS = 20_000
TOPICS = ("apples", "apricots", "beans")
NAMES = st.frozensets(st.sampled_from(TOPICS))
REGEXES = st.sampled_from(["ap.*", "beans|apples", ".*"])
SUBSCRIPTIONS = st.one_of(NAMES, NAMES, REGEXES)

Partitions = dict[UUID, frozenset[int]]


@dataclass(eq=False)
class Consumer:
    """What a real consumer does between its heartbeats."""

    member_id: str
    subscription: frozenset[str] | str
    assignor: str | None
    instance_id: str | None = None
    epoch: int = 0
    owned: Partitions = field(default_factory=dict)
    wanted: Partitions = field(default_factory=dict)
    slow: bool = False
    """Whether it takes its time to give partitions up."""
    tell: bool = True
    """Whether the next heartbeat has to say everything again."""
    said: Partitions | None = None
    """What it last said that it owns."""

    def subscribe(self) -> dict[str, Any]:
        if isinstance(self.subscription, str):
            return {"regex": self.subscription, "topics": ()}
        return {"topics": tuple(sorted(self.subscription)), "regex": ""}

    def request(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"instance_id": self.instance_id}
        if self.tell or self.epoch == 0:
            fields |= self.subscribe()
            fields |= {"rebalance_timeout_ms": REBALANCE_TIMEOUT_MS, "assignor": self.assignor}
        if self.tell or self.epoch == 0 or self.owned != self.said:
            fields["owned"] = self.owned
        return fields

    def reconcile(self) -> None:
        """Give up what is not wanted any more; only then take what is new."""
        self.owned = {topic: p for topic, p in self.wanted.items() if p}

    def start_over(self) -> None:
        self.epoch, self.owned, self.wanted, self.tell, self.said = 0, {}, {}, True, None


class ConsumerGroupLives(RuleBasedStateMachine):
    consumers = Bundle("consumers")

    @initialize(interval=st.sampled_from([0, 1000]), assignor=st.sampled_from(["uniform", "range"]))
    def start(self, interval: int, assignor: str) -> None:
        others = {"uniform": "range", "range": "uniform"}
        self.assignor = assignor
        self.h = Harness(
            GroupSettings(
                group_consumer_assignment_interval_ms=interval,
                group_consumer_assignors=(assignor, others[assignor]),
            ),
            apples=4,
            beans=3,
        )
        self.alive: list[Consumer] = []
        self.count = 0
        self.epochs = (0, 0)
        self.member_epochs: dict[str, int] = {}

    # Consumers

    def new_id(self) -> str:
        self.count += 1
        return f"m{self.count}"

    @rule(
        target=consumers,
        subscription=SUBSCRIPTIONS,
        instance_id=st.sampled_from([None, None, "i1", "i2"]),
    )
    def join(self, subscription: frozenset[str] | str, instance_id: str | None) -> object:
        consumer = Consumer(self.new_id(), subscription, None, instance_id)
        self.alive.append(consumer)
        if not self.send(consumer):
            return multiple()
        return consumer

    @rule(consumer=consumers)
    def heartbeat(self, consumer: Consumer) -> None:
        self.send(consumer)

    @rule()
    def everybody_heartbeats(self) -> None:
        for consumer in list(self.alive):
            self.send(consumer)

    @rule(consumer=consumers)
    def heartbeat_whose_answer_is_lost(self, consumer: Consumer) -> None:
        if consumer in self.alive:
            self.h.beat(consumer.member_id, consumer.epoch, **consumer.request())
            consumer.tell = True

    @rule(consumer=consumers, failure=st.just(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    def heartbeat_that_cannot_be_written(self, consumer: Consumer, failure: ErrorCode) -> None:
        if consumer in self.alive:
            self.h.fail_with = failure
            self.send(consumer)
            self.h.fail_with = None

    @rule(consumer=consumers, slow=st.booleans())
    def revoke(self, consumer: Consumer, slow: bool) -> None:
        consumer.slow = slow
        if not slow:
            consumer.reconcile()

    @rule(consumer=consumers, subscription=SUBSCRIPTIONS)
    def subscribe(self, consumer: Consumer, subscription: frozenset[str] | str) -> None:
        consumer.subscription, consumer.tell = subscription, True

    @rule(consumer=consumes(consumers))
    def crash(self, consumer: Consumer) -> None:
        if consumer in self.alive:
            self.alive.remove(consumer)

    @rule(consumer=consumes(consumers))
    def leave(self, consumer: Consumer) -> None:
        if consumer in self.alive:
            self.alive.remove(consumer)
            self.h.beat(consumer.member_id, -1, instance_id=consumer.instance_id)

    @rule(consumer=consumers, keeps_id=st.booleans())
    def restart_static_member(self, consumer: Consumer, keeps_id: bool) -> None:
        if consumer in self.alive and consumer.instance_id is not None and consumer.epoch > 0:
            self.h.beat(consumer.member_id, -2, instance_id=consumer.instance_id)
            consumer.start_over()
            if not keeps_id:
                consumer.member_id = self.new_id()

    def send(self, consumer: Consumer) -> bool:
        """One heartbeat; False when the consumer gives up."""
        if consumer not in self.alive:
            return False
        request = consumer.request()
        answer = self.h.beat(consumer.member_id, consumer.epoch, **request)
        code = error_from(answer.error_code)
        if code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            consumer.start_over()
        elif code in (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.alive.remove(consumer)
            return False
        elif code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
            consumer.tell = True
        else:
            assert code == ErrorCode.NONE
            self.take(consumer, answer, request.get("owned", consumer.said))
        return True

    def take(
        self, consumer: Consumer, answer: ConsumerGroupHeartbeatResponse, said: object
    ) -> None:
        assert answer.member_epoch >= consumer.epoch, "member epochs only rise"
        consumer.epoch = answer.member_epoch
        consumer.tell = False
        consumer.said = said  # type: ignore[assignment]
        assignment = partitions(answer)
        if assignment is not None:
            consumer.wanted = assignment
        if not consumer.slow:
            consumer.reconcile()

    # The world around them

    @rule(ms=st.sampled_from([1, 1000, 5000, 19_000, 46_000]))
    def pass_time(self, ms: int) -> None:
        self.h.pass_time(ms)

    @rule(topic=st.sampled_from(TOPICS), more=st.integers(1, 3))
    def grow(self, topic: str, more: int) -> None:
        self.h.topic(topic, (self.h.topics.partitions(topic) or 0) + more)

    @rule(topic=st.sampled_from(TOPICS))
    def delete(self, topic: str) -> None:
        if self.h.topics.partitions(topic):
            self.h.topic(topic, None)

    @rule()
    def restart_coordinator(self) -> None:
        self.h.reload()

    # What always holds

    @invariant()
    def a_partition_has_one_owner(self) -> None:
        group = self.h.groups.get(GROUP)
        if group is None:
            return
        holders: dict[tuple[UUID, int], str] = {}
        for member in group.members.values():
            for ownership in (member.assigned, member.pending_revocation):
                for topic, epochs in ownership.items():
                    for partition in epochs:
                        assert (topic, partition) not in holders
                        holders[topic, partition] = member.member_id
        assert group.owners == holders
        for consumer in self.alive:
            # One that was fenced does not know yet, but can no longer commit.
            if consumer.member_id in group.members:
                for topic, held in consumer.owned.items():
                    for partition in held:
                        owner = holders.get((topic, partition), consumer.member_id)
                        assert owner == consumer.member_id

    @invariant()
    def epochs_only_rise(self) -> None:
        group = self.h.groups.get(GROUP)
        if group is None:
            return
        assert group.epoch >= self.epochs[0]
        assert group.assignment_epoch >= self.epochs[1]
        assert group.assignment_epoch <= group.epoch
        self.epochs = (group.epoch, group.assignment_epoch)
        for member_id, member in group.members.items():
            if member.epoch > 0:
                assert member.epoch >= self.member_epochs.get(member_id, 0)
                self.member_epochs[member_id] = member.epoch
                assert member.epoch <= group.assignment_epoch

    def teardown(self) -> None:
        """The churn stops: those who are left agree."""
        if not hasattr(self, "h"):
            return
        for consumer in self.alive:
            consumer.slow = False
            consumer.reconcile()
        for _ in range(12):
            self.h.pass_time(5000)
            for consumer in list(self.alive):
                self.send(consumer)
            self.a_partition_has_one_owner()
        self.h.check_log()
        group = self.h.groups.get(GROUP)
        if group is None:
            return
        assert group.members.keys() == {consumer.member_id for consumer in self.alive}
        assert group.state is (GroupState.STABLE if self.alive else GroupState.EMPTY)
        self.check_shares()

    def check_shares(self) -> None:
        topics = self.h.topics
        wants = {c.member_id: self.topics_of(c) for c in self.alive}
        expected = {
            (topics.topic_id(topic), partition)
            for topic in frozenset().union(*wants.values())
            for partition in range(topics.partitions(topic) or 0)
        }
        owned = [(t, p) for c in self.alive for t, held in c.owned.items() for p in held]
        assert len(owned) == len(set(owned))
        assert set(owned) == expected
        if self.assignor == "uniform":
            sizes = {c.member_id: sum(map(len, c.owned.values())) for c in self.alive}
            for consumer in self.alive:
                for topic_id in consumer.owned:
                    takers = [m for m, names in wants.items() if topics.name(topic_id) in names]
                    least = min(sizes[member_id] for member_id in takers)
                    assert sizes[consumer.member_id] - least <= 1

    def topics_of(self, consumer: Consumer) -> frozenset[str]:
        existing = frozenset(self.h.topics.names())
        match consumer.subscription:
            case "ap.*":
                return frozenset(name for name in existing if name.startswith("ap"))
            case "beans|apples":
                return existing & {"beans", "apples"}
            case ".*":
                return existing
            case names:
                return existing & frozenset(names)


TestConsumerGroupLives = ConsumerGroupLives.TestCase
TestConsumerGroupLives.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
