"""A group under the consumer protocol, as its records describe it.

The group epoch rises with every change of membership, subscriptions or subscribed topics. A target
assignment is computed for a group epoch, and members are brought to it one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from sys import getsizeof
from uuid import UUID

from moldau.groups.consumer.assignors import Partitions
from moldau.groups.consumer.member import Member, Ownership
from moldau.groups.memory import GROUP_BYTES


class GroupState(Enum):
    """What the coordinator is doing with a group, as DescribeGroups and ListGroups show it.

    The state follows from the epochs; nothing is ever refused because of it.
    """

    EMPTY = "Empty"
    """No members. Offsets may be committed by anybody, and the group may be deleted."""
    ASSIGNING = "Assigning"
    """The group has changed since the last target assignment; a heartbeat computes the next."""
    RECONCILING = "Reconciling"
    """Some member has not arrived at the target assignment yet."""
    STABLE = "Stable"
    """Every member has what the target assignment gives it."""


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a pattern matched, and when that was looked up."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


@dataclass(slots=True)
class ConsumerGroup:
    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = 0
    assignment_timestamp_ms: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    """Member ids by instance id."""
    target: dict[str, Partitions] = field(default_factory=dict)
    regexes: dict[str, ResolvedRegex] = field(default_factory=dict)
    owners: dict[tuple[UUID, int], str] = field(default_factory=dict)
    """Which member holds a partition, or has not given it up yet."""
    has_partition_metadata: bool = False
    """Whether a record of an older Kafka is in the log that the next change has to remove."""

    refresh_requested: bool = field(default=True, compare=False)
    """The topics may have changed: the next heartbeat looks at them again. Not in the log, so a
    coordinator that has just loaded the group looks, too."""
    _subscribed: frozenset[str] | None = field(default=None, compare=False, repr=False)

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        target_epoch = self.assignment_epoch
        if all(member.is_reconciled_to(target_epoch) for member in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def footprints(self) -> Iterator[int]:
        """What the group and its members take, in bytes."""
        yield GROUP_BYTES + getsizeof(self.group_id)
        for member in tuple(self.members.values()):
            yield member.footprint

    @property
    def has_only_classic_members(self) -> bool:
        return all(member.uses_classic_protocol for member in self.members.values())

    @property
    def patterns(self) -> list[str]:
        """The patterns that members have, each once."""
        patterns = (member.subscribed_regex for member in self.members.values())
        return list(dict.fromkeys(pattern for pattern in patterns if pattern))

    def static_member(self, instance_id: str) -> Member | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member: Member) -> Partitions:
        """The target of a member, which may be about to take the place of a static one."""
        target = self.target.get(member.member_id)
        if target is None and member.instance_id is not None:
            previous = self.static_members.get(member.instance_id, "")
            target = self.target.get(previous)
        return target or {}

    def is_held(self, topic_id: UUID, partition: int) -> bool:
        return (topic_id, partition) in self.owners

    def topics_of(self, member: Member, regexes: Mapping[str, ResolvedRegex]) -> frozenset[str]:
        """The names of all topics that a member subscribes to, by name or by pattern."""
        if member.subscribed_regex:
            resolved = regexes.get(member.subscribed_regex)
            if resolved is not None:
                return member.subscribed_names | resolved.topics
        return member.subscribed_names

    def awaits_topics(self, member: Member) -> bool:
        """Whether the member has a pattern of which it is not known yet which topics it matches."""
        return bool(member.subscribed_regex) and member.subscribed_regex not in self.regexes

    def matches(self, regex: str) -> frozenset[str]:
        """The topics that a pattern is known to match."""
        resolved = self.regexes.get(regex)
        return frozenset() if resolved is None else resolved.topics

    @property
    def subscribed(self) -> frozenset[str]:
        """The names of all topics that some member subscribes to."""
        if self._subscribed is None:
            self._subscribed = self.subscribed_by(self.members.values(), self.regexes)
        return self._subscribed

    def subscribed_by(
        self, members: Iterable[Member], regexes: Mapping[str, ResolvedRegex]
    ) -> frozenset[str]:
        # Most members of a group subscribe to the same names: take each such set once.
        names = {self.topics_of(member, regexes) for member in members}
        return frozenset().union(*names)

    def subscribers(self, regex: str) -> int:
        return sum(member.subscribed_regex == regex for member in self.members.values())

    def preferred_assignor(self, members: Iterable[Member], known: Iterable[str]) -> str:
        """The assignor that most members ask for; the first one known if none does."""
        votes = Counter(
            member.server_assignor for member in members if member.server_assignor is not None
        )
        names = list(known)
        return max(names, key=lambda name: (votes[name], -names.index(name)))

    # What follows is called when records are replayed, and by nothing else.

    def put_member(self, member: Member) -> None:
        previous = self.members.get(member.member_id)
        if previous is not None:
            self._release(previous)
            if previous.instance_id is not None and previous.instance_id != member.instance_id:
                self._forget_instance(previous)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        for ownership in (member.assigned, member.pending_revocation):
            self._hold(member.member_id, ownership)
        self._subscribed = None

    def remove_member(self, member_id: str) -> Member | None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._release(member)
            self._forget_instance(member)
            self._subscribed = None
        return member

    def put_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        if resolved is None:
            self.regexes.pop(regex, None)
        else:
            self.regexes[regex] = resolved
        self._subscribed = None

    def _forget_instance(self, member: Member) -> None:
        # A static member may have been replaced by one that took over its instance id.
        if (
            member.instance_id is not None
            and self.static_members.get(member.instance_id) == member.member_id
        ):
            del self.static_members[member.instance_id]

    def _hold(self, member_id: str, ownership: Ownership) -> None:
        for topic_id, partitions in ownership.items():
            for partition in partitions:
                self.owners[topic_id, partition] = member_id

    def _release(self, member: Member) -> None:
        owners = self.owners
        for ownership in (member.assigned, member.pending_revocation):
            for topic_id, partitions in ownership.items():
                for partition in partitions:
                    if owners.get((topic_id, partition)) == member.member_id:
                        del owners[topic_id, partition]
