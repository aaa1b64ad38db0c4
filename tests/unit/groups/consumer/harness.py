"""Consumer groups with their log: appends what they decide, and checks that the log is enough."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.schema.consumer_group_heartbeat.v1.request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from kio.schema.consumer_group_heartbeat.v1.response import ConsumerGroupHeartbeatResponse

from moldau.errors import ErrorCode
from moldau.groups.client_info import ClientInfo
from moldau.groups.consumer import ConsumerGroups, GroupTimeout
from moldau.groups.consumer.group import ConsumerGroup
from moldau.groups.consumer.timers import PatternResolution
from moldau.groups.settings import GroupSettings
from moldau.groups.timeouts import Timeouts
from moldau.groups.topics import FixedTopics
from moldau.outcome import Outcome, Record
from moldau.wire.make import make

CLIENT = ClientInfo("client", "/127.0.0.1")
GROUP = "group"
NOTHING: dict[UUID, frozenset[int]] = {}


class Harness:
    """Plays the shell: time, topics, a log, and an append that can be made to fail."""

    def __init__(self, settings: GroupSettings | None = None, **partitions: int) -> None:
        self.settings = settings or GroupSettings(group_consumer_assignment_interval_ms=0)
        self.topics = FixedTopics(partitions)
        self.timeouts: Timeouts[GroupTimeout] = Timeouts()
        self.groups = self.fresh(self.timeouts)
        self.replica = self.fresh(Timeouts())
        """Sees the log only, as a coordinator that takes over would."""
        self.now_ms = 1_000_000
        self.log: list[Record] = []
        self.fail_with: ErrorCode | None = None
        self.largest_batch: int | None = None
        """Bytes of values that can be written at once."""
        self.last_records: list[Record] = []

    def fresh(self, timeouts: Timeouts[GroupTimeout]) -> ConsumerGroups:
        ids = iter(range(1_000_000))
        return ConsumerGroups(self.settings, self.topics, timeouts, lambda: f"made-{next(ids)}")

    @property
    def group(self) -> ConsumerGroup:
        group = self.groups.get(GROUP)
        assert group is not None
        return group

    def run(self, outcome: Outcome) -> list[object]:
        """Append, replay, check, and hand out the replies."""
        self.last_records = outcome.records
        if outcome.records and (failure := self.fail_with or self._too_large(outcome.records)):
            return [reply.response for reply in outcome.failed(failure)]
        for record in outcome.records:
            self.log.append(record)
            self.groups.replay(*record)
            self.replica.replay(*record)
        assert states(self.replica) == states(self.groups)
        return [reply.response for reply in outcome.replies]

    def reload(self) -> None:
        """The coordinator restarts from its log."""
        self.check_log()
        self.timeouts = Timeouts()
        self.groups = self.fresh(self.timeouts)
        for record in self.log:
            self.groups.replay(*record)
        self.run(self.groups.on_loaded(self.now_ms))

    def check_log(self) -> None:
        """The log alone gives the same groups, and so does what compaction leaves of it."""
        compacted = {key: (n, value) for n, (key, value) in enumerate(self.log)}
        shortened = [
            Record(key, value)
            for key, (_, value) in sorted(compacted.items(), key=lambda e: e[1][0])
        ]
        for log in (self.log, shortened, [record for record in shortened if record.value]):
            rebuilt = self.fresh(Timeouts())
            for record in log:
                rebuilt.replay(*record)
            assert states(rebuilt) == states(self.groups)

    def beat(
        self,
        member_id: str,
        epoch: int,
        *,
        owned: dict[UUID, frozenset[int]] | None = None,
        topics: tuple[str, ...] | None = None,
        regex: str | None = None,
        instance_id: str | None = None,
        assignor: str | None = None,
        rebalance_timeout_ms: int = -1,
        group_id: str = GROUP,
        version: int = 1,
        rack_id: str | None = None,
        client: ClientInfo = CLIENT,
    ) -> ConsumerGroupHeartbeatResponse:
        request = make(
            ConsumerGroupHeartbeatRequest,
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance_id,
            rack_id=rack_id,
            rebalance_timeout=timedelta(milliseconds=rebalance_timeout_ms),
            subscribed_topic_names=topics,
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=None
            if owned is None
            else tuple(
                make(TopicPartitions, topic_id=topic_id, partitions=tuple(sorted(partitions)))
                for topic_id, partitions in owned.items()
            ),
        )
        outcome = self.groups.heartbeat(request, "token", self.now_ms, client, version)
        (response,) = self.run(outcome)
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response

    def join(self, member_id: str, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        fields.setdefault("rebalance_timeout_ms", 60_000)
        if "regex" not in fields:
            fields["topics"] = topics
        return self.beat(member_id, 0, owned=NOTHING, **fields)

    def _too_large(self, records: Sequence[Record]) -> ErrorCode | None:
        size = sum(len(value or b"") for _, value in records)
        fits = self.largest_batch is None or size <= self.largest_batch
        return None if fits else ErrorCode.MESSAGE_TOO_LARGE

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        while due := self.timeouts.due(self.now_ms):
            patterns = [key for key in due if isinstance(key, PatternResolution)]
            members = [key for key in due if not isinstance(key, PatternResolution)]
            self.run(self.groups.on_time(self.now_ms, members))
            if patterns:
                self.run(self.groups.resolve_patterns(self.now_ms, patterns))

    def topic(self, name: str, partitions: int | None) -> None:
        """A topic appears, grows, or (None) goes."""
        if partitions is None:
            self.topics.remove(name)
        else:
            self.topics.set(name, partitions)
        self.run(self.groups.on_topics_changed([name], self.now_ms))

    def id(self, name: str) -> UUID:
        topic_id = self.topics.topic_id(name)
        assert topic_id is not None
        return topic_id


def states(groups: ConsumerGroups) -> dict[str, ConsumerGroup | None]:
    return {group_id: groups.get(group_id) for group_id in groups.group_ids()}


def partitions(response: ConsumerGroupHeartbeatResponse) -> dict[UUID, frozenset[int]] | None:
    if response.assignment is None:
        return None
    return {
        topic.topic_id: frozenset(topic.partitions)
        for topic in response.assignment.topic_partitions
        if topic.topic_id is not None
    }
