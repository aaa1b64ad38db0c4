"""Consumers of both protocols in one group, and a churn that makes their life hard.

They behave as the Java client does: classic ones eager or cooperative (the leader of a classic
group divides the work), the others reconcile what their heartbeats tell them. They come and go,
crash, fall asleep, change from one protocol to the other; the coordinator restarts and its appends
fail. All that time no two consumers that the group knows own the same partition, generations and
epochs only rise, and no acknowledged commit is lost. When the churn stops the group becomes stable,
the consumers own everything, and a coordinator that reads the log knows the same group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from tests.support.embedded_protocol import read_assignment, read_owned, write_assignment
from tests.support.wire import build
from tests.unit.groups.migration.runner import ShardRunner
from tests.unit.groups.migration.scenario import metadata

from moldau.errors import ErrorCode
from moldau.groups.settings import GroupSettings, MigrationPolicy
from moldau.wire.api import ApiKey
from moldau.wire.messages import newest_class

GROUP = "g"
TOPIC = "t"
PARTITIONS = 6
MAX_CONSUMERS = 7
TICK_MS = 500
HEARTBEAT_MS = 1000
REBALANCE_MS = 10_000
SESSION_MS = 6000
SETTLE_MS = 4 * (REBALANCE_MS + SESSION_MS)

RETRY = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REBALANCE_IN_PROGRESS,
}
LOST = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_MEMBER_EPOCH}
STOP = {ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID}


class Consumer(ABC):
    """One process. ``asleep``: it does nothing; ``busy``: it lives but gives nothing up."""

    def __init__(self, world: World, instance_id: str | None = None) -> None:
        self.world = world
        self.instance_id = instance_id
        self.member_id = ""
        self.epoch = 0
        """The generation of a classic member."""
        self.owned: frozenset[int] = frozenset()
        self.owned_epoch = 0
        """The epoch in which it was told what it owns."""
        self.asleep = self.busy = self.stopped = False
        self.next_heartbeat_ms = 0

    def tick(self) -> None:
        if not self.asleep and not self.stopped:
            self.live()

    @abstractmethod
    def live(self) -> None: ...

    @abstractmethod
    def leave(self) -> None: ...

    def call(self, api: ApiKey, version: int, **values: Any) -> int:
        request = build(newest_class(api, "request"), {"group_id": GROUP, **values})
        return self.world.runner.send(api, version, request)

    def answer(self, token: int) -> Any:
        return self.world.runner.answers.get(token)

    def is_due(self) -> bool:
        now_ms = self.world.runner.now_ms
        if now_ms < self.next_heartbeat_ms:
            return False
        self.next_heartbeat_ms = now_ms + HEARTBEAT_MS
        return True

    def commit(self) -> None:
        """Now and then commit the next offset of everything that it owns, one by one."""
        if self.world.runner.now_ms % (4 * TICK_MS):
            return
        for partition in sorted(self.owned):
            offset = self.world.next_offset()
            one = {"partition_index": partition, "committed_offset": offset}
            answer = self.answer(
                self.call(
                    ApiKey.OFFSET_COMMIT,
                    9,
                    member_id=self.member_id,
                    group_instance_id=self.instance_id,
                    generation_id_or_member_epoch=self.epoch,
                    topics=[{"name": TOPIC, "partitions": [{**one, "committed_metadata": ""}]}],
                )
            )
            if answer.topics[0].partitions[0].error_code is ErrorCode.NONE:
                self.world.committed[partition] = offset


class ClassicConsumer(Consumer):
    def __init__(
        self, world: World, instance_id: str | None = None, *, cooperative: bool, version: int = 9
    ) -> None:
        super().__init__(world, instance_id)
        self.cooperative = cooperative
        self.version = version
        self.protocol = "cooperative-sticky" if cooperative else "range"
        self.is_in = False
        self.joining = self.syncing = 0
        """The tokens of requests that wait."""

    def live(self) -> None:
        if self.joining and (joined := self.answer(self.joining)) is not None:
            self.joining = 0
            self._joined(joined)
        elif self.syncing and (synced := self.answer(self.syncing)) is not None:
            self.syncing = 0
            self._synced(synced)
        if self.is_in and self.is_due():
            self._heartbeat()
        if not (self.is_in or self.joining or self.syncing or self.busy or self.stopped):
            self._join()
        if self.is_in:
            self.commit()

    def leave(self) -> None:
        if self.member_id:
            identity = {"member_id": self.member_id, "group_instance_id": self.instance_id}
            self.call(ApiKey.LEAVE_GROUP, 5, members=[identity])

    def _join(self) -> None:
        if not self.cooperative:
            self.owned = frozenset()
        owned = {TOPIC: sorted(self.owned)} if self.owned else {}
        data = metadata(TOPIC, owned=owned)
        self.joining = self.call(
            ApiKey.JOIN_GROUP,
            self.version,
            session_timeout=SESSION_MS,
            rebalance_timeout=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[{"name": self.protocol, "metadata": data}],
        )

    def _joined(self, answer: Any) -> None:
        if answer.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return
        if answer.error_code is not ErrorCode.NONE:
            self._failed(answer.error_code)
            return
        self.member_id, self.epoch = answer.member_id, answer.generation_id
        leads = answer.leader == self.member_id and not answer.skip_assignment
        self.syncing = self.call(
            ApiKey.SYNC_GROUP,
            5,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=answer.protocol_name,
            assignments=divide(answer.members) if leads else [],
        )

    def _synced(self, answer: Any) -> None:
        if answer.error_code is not ErrorCode.NONE:
            self._failed(answer.error_code)
            return
        assigned = read_assignment(answer.assignment).get(TOPIC, frozenset())
        revoked = self.owned - assigned
        self.owned, self.owned_epoch = assigned, self.epoch
        # A cooperative consumer joins again once it has given something up.
        self.is_in = not revoked
        self.next_heartbeat_ms = self.world.runner.now_ms + HEARTBEAT_MS

    def _heartbeat(self) -> None:
        token = self.call(
            ApiKey.HEARTBEAT,
            4,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        error = self.answer(token).error_code
        if error is ErrorCode.REBALANCE_IN_PROGRESS and self.busy:
            return
        if error is not ErrorCode.NONE:
            self.is_in = False
            self._failed(error)

    def _failed(self, error: ErrorCode) -> None:
        if error in LOST:
            self.owned = frozenset()
            if error is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
        elif error in STOP:
            self.stopped, self.owned = True, frozenset()
        else:
            assert error in RETRY, error


def divide(members: Iterable[Any]) -> list[dict[str, Any]]:
    """What the leader assigns: members keep up to their share, and what one of them still owns is
    not given to another before it has been given up."""
    wanted = {
        member.member_id: read_owned(bytes(member.metadata)).get(TOPIC, frozenset())
        for member in members
    }
    share = -(-PARTITIONS // len(wanted))
    parts: dict[str, set[int]] = {}
    taken: set[int] = set()
    for member_id in sorted(wanted):
        parts[member_id] = set(sorted(wanted[member_id] - taken)[:share])
        taken |= wanted[member_id]
    for partition in sorted(set(range(PARTITIONS)) - taken):
        min(parts.values(), key=len).add(partition)
    return [
        {"member_id": member_id, "assignment": write_assignment({TOPIC: part} if part else {}, 1)}
        for member_id, part in parts.items()
    ]


class ModernConsumer(Consumer):
    def __init__(self, world: World, instance_id: str | None = None) -> None:
        super().__init__(world, instance_id)
        self.member_id = world.new_id()
        self.tell = True
        self.wanted: frozenset[int] = frozenset()
        self.said: frozenset[int] | None = None

    def live(self) -> None:
        if not self.busy:
            self.owned = self.wanted
        if self.tell or self.owned != self.said or self.is_due():
            self._heartbeat()
        if self.epoch > 0:
            self.commit()

    def leave(self) -> None:
        if self.epoch > 0:
            self._beat(-1)

    def _beat(self, epoch: int, **values: Any) -> Any:
        token = self.call(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            1,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
            **values,
        )
        return self.answer(token)

    def _heartbeat(self) -> None:
        values: dict[str, Any] = {}
        if self.tell or self.epoch == 0:
            values = {"subscribed_topic_names": [TOPIC], "rebalance_timeout": REBALANCE_MS}
        if self.tell or self.epoch == 0 or self.owned != self.said:
            held = {"topic_id": self.world.topic_id, "partitions": sorted(self.owned)}
            values["topic_partitions"] = [held] if self.owned else []
        answer = self._beat(self.epoch, **values)
        error = answer.error_code
        if error is ErrorCode.NONE:
            assert answer.member_epoch >= self.epoch, "member epochs only rise"
            self.epoch = self.owned_epoch = answer.member_epoch
            self.tell = False
            self.said = self.owned
            if answer.assignment is not None:
                topics = answer.assignment.topic_partitions
                self.wanted = frozenset(p for topic in topics for p in topic.partitions)
        elif error in LOST or error is ErrorCode.GROUP_ID_NOT_FOUND:
            self.epoch, self.tell, self.said = 0, True, None
            self.owned = self.wanted = frozenset()
        elif error in STOP:
            self.stopped, self.owned = True, frozenset()
        else:
            assert error in RETRY, error
            self.tell = True


class World:
    """A group and its consumers. Each kind of trouble is a method of ``TROUBLES``."""

    def __init__(
        self, *, cooperative: bool, interval_ms: int, policy: MigrationPolicy, delay_ms: int = 0
    ) -> None:
        settings = GroupSettings(
            group_initial_rebalance_delay_ms=delay_ms,
            group_consumer_session_timeout_ms=SESSION_MS,
            group_consumer_assignment_interval_ms=interval_ms,
            group_consumer_migration_policy=policy,
        )
        self.runner = ShardRunner(settings, {TOPIC: PARTITIONS})
        topic_id = self.runner.topics.topic_id(TOPIC)
        assert topic_id is not None
        self.topic_id = topic_id
        self.cooperative = cooperative
        self.consumers: list[Consumer] = []
        self.committed: dict[int, int] = {}
        self.kinds_seen: list[str] = []
        self._epoch = 0
        self._numbers = 0

    def next_offset(self) -> int:
        self._numbers += 1
        return self._numbers

    def new_id(self) -> str:
        return f"modern-{self.next_offset()}"

    def run(self, steps: Iterable[tuple[str, int, int]]) -> None:
        """Steps are a trouble, a number that chooses its victim, and ticks that pass after it."""
        for trouble, number, ticks in steps:
            if not self.consumers:
                self.start_classic(None, number)
            elif not trouble.startswith("start") or len(self.consumers) < MAX_CONSUMERS:
                victim = self.consumers[number % len(self.consumers)]
                getattr(self, trouble)(victim, number)
                self.check_epochs()
            self.time_passes(ticks)
        self.runner.fail_with = None
        for consumer in self.consumers:
            consumer.asleep = consumer.busy = False
        self.time_passes(SETTLE_MS // TICK_MS)
        self.check_settled()
        self.check_log()

    def time_passes(self, ticks: int) -> None:
        for _ in range(ticks):
            self.runner.advance(TICK_MS)
            self.check_epochs()
            for consumer in self.consumers:
                consumer.tick()
                self.check_epochs()
                self.check_owners()
            self.check_group()

    # -- troubles --------------------------------------------------------------------------------

    def start_classic(self, _: Consumer | None, number: int) -> None:
        version = (3, 8, 9)[number % 3]
        self.consumers.append(ClassicConsumer(self, cooperative=self.cooperative, version=version))

    def start_modern(self, _: Consumer, __: int) -> None:
        self.consumers.append(ModernConsumer(self))

    def start_static(self, _: Consumer, number: int) -> None:
        """Perhaps after a crash, perhaps beside one that runs, of either protocol."""
        name = f"static-{number % 2}"
        self.consumers.append(self.other_process(name, modern=number % 4 < 2))

    def other_process(self, instance_id: str | None, *, modern: bool) -> Consumer:
        if modern:
            return ModernConsumer(self, instance_id)
        return ClassicConsumer(self, instance_id, cooperative=self.cooperative)

    def change_protocol(self, victim: Consumer, _: int) -> None:
        """One step of a rolling upgrade or downgrade."""
        self.consumers.remove(victim)
        if victim.instance_id is None:
            victim.leave()
        self.consumers.append(
            self.other_process(victim.instance_id, modern=isinstance(victim, ClassicConsumer))
        )

    def all_change_protocol(self, victim: Consumer, number: int) -> None:
        """A whole rolling upgrade or downgrade, at some speed."""
        modern = isinstance(victim, ClassicConsumer)
        for consumer in [*self.consumers]:
            if isinstance(consumer, ModernConsumer) is not modern:
                self.change_protocol(consumer, number)
                self.time_passes(number % 7)

    def crash(self, victim: Consumer, _: int) -> None:
        self.consumers.remove(victim)

    def leave(self, victim: Consumer, _: int) -> None:
        self.consumers.remove(victim)
        victim.leave()

    def remove_by_name(self, victim: Consumer, _: int) -> None:
        if victim.instance_id is not None:
            victim.call(
                ApiKey.LEAVE_GROUP,
                5,
                members=[{"member_id": "", "group_instance_id": victim.instance_id}],
            )

    def fall_asleep_or_wake(self, victim: Consumer, _: int) -> None:
        victim.asleep = not victim.asleep

    def work_too_long_or_finish(self, victim: Consumer, _: int) -> None:
        victim.busy = not victim.busy

    def break_or_mend_the_log(self, _: Consumer, number: int) -> None:
        errors = (None, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
        self.runner.fail_with = errors[number % len(errors)]

    def restart_the_coordinator(self, _: Consumer, __: int) -> None:
        """Requests that waited are answered by nobody: their connections broke."""
        self.runner.fail_with = None
        self.runner.restart()
        for consumer in self.consumers:
            if isinstance(consumer, ClassicConsumer) and (consumer.joining or consumer.syncing):
                consumer.joining = consumer.syncing = 0
        # Generations that were not stored are lost; nobody was given an assignment of them.
        self._epoch = 0

    # -- what must hold --------------------------------------------------------------------------

    def members(self) -> dict[str, set[int]]:
        """The members of the group, whatever its kind, and the epochs that the group knows of.

        In a consumer group a member may not have heard of its newest one yet.
        """
        classic, modern = self.runner.classic(GROUP), self.runner.consumer(GROUP)
        assert classic is None or modern is None, "a group is of one kind"
        if modern is not None:
            return {m.member_id: {m.epoch, m.previous_epoch} for m in modern.members.values()}
        if classic is not None:
            return {member_id: {classic.generation} for member_id in classic.members}
        return {}

    def check_owners(self) -> None:
        """Of the consumers that the group knows, at most one owns a partition.

        One of another epoch has been removed, or has missed a rebalance as a static member may, and
        does not know it yet. It cannot commit any more.
        """
        members = self.members()
        owners: dict[int, str] = {}
        for consumer in self.consumers:
            member_id = consumer.member_id
            if consumer.owned_epoch in members.get(member_id, ()):
                for partition in consumer.owned:
                    owner = owners.setdefault(partition, member_id)
                    assert owner == member_id, f"{partition} has two owners"

    def check_epochs(self) -> None:
        """They rise as long as there are members: an empty group may be replaced by a new one."""
        classic, modern = self.runner.classic(GROUP), self.runner.consumer(GROUP)
        epoch = 0
        if self.members():
            epoch = modern.epoch if modern is not None else classic.generation if classic else 0
            assert epoch >= self._epoch, "generations and group epochs only rise"
            kind = "classic" if modern is None else "consumer"
            if self.kinds_seen[-1:] != [kind]:
                self.kinds_seen.append(kind)
        self._epoch = epoch

    def check_group(self) -> None:
        modern = self.runner.consumer(GROUP)
        if modern is not None:
            holders = [
                (topic_id, partition)
                for member in modern.members.values()
                for topic_id, partitions in member.held.items()
                for partition in partitions
            ]
            assert len(holders) == len(set(holders)) == len(modern.owners)
        self.check_commits()

    def check_commits(self) -> None:
        wanted = [{"name": TOPIC, "partition_indexes": [*range(PARTITIONS)]}]
        group = {"group_id": GROUP, "topics": wanted, "member_id": None, "member_epoch": -1}
        request = build(
            newest_class(ApiKey.OFFSET_FETCH, "request"),
            {"groups": [group], "require_stable": False},
        )
        token = self.runner.send(ApiKey.OFFSET_FETCH, 9, request)
        (answer,) = self.runner.answers[token].groups
        offsets = {p.partition_index: p.committed_offset for p in answer.topics[0].partitions}
        for partition, offset in self.committed.items():
            assert offsets[partition] == offset, "a commit was lost"

    def check_settled(self) -> None:
        """The churn is over: whoever runs is in, and everything is owned once."""
        alive = [consumer for consumer in self.consumers if not consumer.stopped]
        assert sorted(self.members()) == sorted(consumer.member_id for consumer in alive)
        if not alive:
            return
        owned = sorted(partition for consumer in alive for partition in consumer.owned)
        assert owned == list(range(PARTITIONS))
        (listed,) = self.runner.shard.list_groups()
        assert listed.group_state == "Stable"
        policy = self.runner.settings.group_consumer_migration_policy
        modern = [consumer for consumer in alive if isinstance(consumer, ModernConsumer)]
        if modern or policy.allows_downgrade:
            assert listed.group_type == ("consumer" if modern else "classic")

    def check_log(self) -> None:
        """The log alone gives the same group, and so does what compaction leaves of it."""
        runner = self.runner
        for log in (runner.log, runner.compacted()):
            other = runner.loaded(log)
            assert other.list_groups() == runner.shard.list_groups()
            theirs, ours = (s.describe_group(GROUP, "", 6) for s in (other, runner.shard))
            assert theirs.replies == ours.replies
            assert other._consumer.get(GROUP) == runner.consumer(GROUP)


TROUBLES = [
    "start_classic",
    "start_modern",
    "start_static",
    "change_protocol",
    "all_change_protocol",
    "crash",
    "leave",
    "remove_by_name",
    "fall_asleep_or_wake",
    "work_too_long_or_finish",
    "break_or_mend_the_log",
    "restart_the_coordinator",
]
TICKS = [0, 0, 1, 2, 4, 8, 16, 30]
