"""A classic group: what is stored of it, and the rebalance that is going on.

What is stored changes in ``replay`` and nowhere else: it is the last record of the group. While the
group is EMPTY or STABLE its generation, protocol, leader and members are those of the record.

A rebalance is not stored, in Kafka neither: it begins with the stored generation, and members join,
leave and are taken for dead, a protocol and a leader are chosen, members are told the number of the
next generation. If the coordinator dies, all that is forgotten and they join again. The rebalance
ends when the record of the generation it leads to is replayed: with the leader's assignment, or
without members.

Only bookkeeping: when a group rebalances and who is answered is decided in ``rebalance.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from sys import getsizeof

from moldau.errors import ErrorCode
from moldau.groups.classic.member import ClassicMember, JoinedMember, Parked, Protocols, vote
from moldau.groups.classic.states import (
    PREDECESSORS,
    ClassicGroupState,
    IllegalTransitionError,
)
from moldau.groups.memory import GROUP_BYTES, PENDING_BYTES
from moldau.wire.embedded_protocol import PROTOCOL_TYPE, subscribed_topics
from moldau.wire.errors import DecodeError
from moldau.wire.stored.group_records import NO_TIMESTAMP, GroupMetadataValue


class ClassicGroup:
    """Members are kept in the order they joined; the first one leads."""

    __slots__ = (
        "_static",
        "_subscribed",
        "_subscriptions",
        "_supported",
        "awaiting_join",
        "generation",
        "group_id",
        "initial_delay_ms",
        "initial_remaining_ms",
        "is_unsettled",
        "leader",
        "members",
        "new_member_added",
        "pending_join",
        "pending_sync",
        "protocol",
        "protocol_type",
        "returning",
        "state",
        "state_timestamp_ms",
        "stored",
    )

    def __init__(
        self,
        group_id: str,
        state: ClassicGroupState = ClassicGroupState.EMPTY,
        *,
        generation: int = 0,
        protocol_type: str | None = None,
        protocol: str | None = None,
        leader: str | None = None,
        state_timestamp_ms: int | None = None,
    ) -> None:
        self.group_id = group_id
        self.stored: GroupMetadataValue | None = None
        """What the log says of the group; None: nothing, it only has offsets there."""
        self.state = state
        self.state_timestamp_ms = state_timestamp_ms
        """When the group came into its state; None in groups stored by very old brokers."""
        self.generation = generation
        self.protocol_type = protocol_type
        """What the group is for (``consumer``, ``connect`` …); None: it only ever had offsets."""
        self.protocol = protocol
        self.leader = leader
        self.members: dict[str, ClassicMember] = {}
        self.pending_join: set[str] = set()
        """Member ids handed out with MEMBER_ID_REQUIRED that have not come back yet."""
        self.awaiting_join: set[str] = set()
        """Members whose JoinGroup is parked."""
        self.pending_sync: set[str] = set()
        """Members of this generation that have not sent SyncGroup yet."""
        self._subscriptions: tuple[bytes, ...] | None = None
        """The metadata of the members of the last generation; None: not a consumer group."""
        self._subscribed: frozenset[str] | None = None
        self.new_member_added = False
        """Somebody joined since the initial delay began, so it may be worth waiting longer."""
        self.initial_delay_ms: int | None = None
        """Length of the running piece of the initial rebalance delay; None: none is running."""
        self.initial_remaining_ms = 0
        """How much the initial delay may still be extended."""
        self.is_unsettled = False
        """Stored between two generations: whoever loads the group has to let it rebalance."""
        self.returning: dict[str, Protocols] = {}
        """What static members support that have come back, by their new member ids, until the
        record that has these is replayed."""
        self._static: dict[str, str] = {}
        self._supported: Counter[str] = Counter()

    # -- what is stored ------------------------------------------------------------------------

    def replay(self, value: GroupMetadataValue) -> None:
        """Take over what the log says now. DecodeError if it names a member twice.

        A group that is made, or that has been something else so far, may already prepare the
        rebalance to a later generation; then that goes on.
        """
        _check_members(value)
        self.stored = value
        is_preparing = self.state is ClassicGroupState.PREPARING_REBALANCE
        if not is_preparing or value.generation > self.generation:
            self._settle(value)

    def _settle(self, value: GroupMetadataValue) -> None:
        """Be what the record says: what members support beyond that is remembered if known."""
        known = {member_id: member.protocols for member_id, member in self.members.items()}
        known |= self.returning
        state = ClassicGroupState.STABLE if value.members else ClassicGroupState.EMPTY
        if self.is_rebalancing and self.state not in PREDECESSORS[state]:
            raise IllegalTransitionError(self.group_id, self.state, state)
        timestamp = value.current_state_timestamp
        self.state = state
        self.state_timestamp_ms = None if timestamp == NO_TIMESTAMP else timestamp
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol = value.protocol
        self.leader = value.leader
        self.is_unsettled = value.leader is None
        self.members = {}
        self._static.clear()
        self._supported.clear()
        for stored in value.members:
            chosen = ((value.protocol or "", stored.subscription),)
            protocols = known.get(stored.member_id, chosen)
            if chosen[0] not in protocols:
                protocols = chosen
            self.add(ClassicMember.restored(stored, value.protocol_type, protocols))
        self.awaiting_join.clear()
        self.pending_sync &= self.members.keys()
        self.returning.clear()
        self.refresh_subscription()

    # -- state ---------------------------------------------------------------------------------

    def transition_to(self, state: ClassicGroupState, now_ms: int) -> None:
        if self.state not in PREDECESSORS[state]:
            raise IllegalTransitionError(self.group_id, self.state, state)
        self.state = state
        self.state_timestamp_ms = now_ms

    @property
    def is_rebalancing(self) -> bool:
        """Whether the group is ahead of what is stored of it."""
        return self.state in (
            ClassicGroupState.PREPARING_REBALANCE,
            ClassicGroupState.COMPLETING_REBALANCE,
        )

    @property
    def can_rebalance(self) -> bool:
        return self.state in PREDECESSORS[ClassicGroupState.PREPARING_REBALANCE]

    @property
    def is_simple(self) -> bool:
        """Only a name to keep offsets under: no protocol was ever used with it."""
        return (
            self.protocol_type is None
            and self.state is ClassicGroupState.EMPTY
            and not self.pending_join
        )

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == PROTOCOL_TYPE

    @property
    def has_all_members_joined(self) -> bool:
        return len(self.awaiting_join) == len(self.members) and not self.pending_join

    @property
    def rebalance_timeout_ms(self) -> int:
        """The patience of the most patient member."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    # -- members -------------------------------------------------------------------------------

    def add(self, member: ClassicMember, parked: Parked | None = None) -> None:
        """Take a member in; its JoinGroup, if any, waits."""
        if member.instance_id is not None:
            assert member.instance_id not in self._static, "the old static member must go first"
            self._static[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)
        self.park_join(member, parked)
        self.pending_join.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Let a member go, or the promise of one; the lead passes to the next."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
            if member.instance_id is not None:
                self._static.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.awaiting_join.discard(member_id)
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)

    def update(
        self,
        member: ClassicMember,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    @property
    def is_inhabited(self) -> bool:
        """Whether somebody is in the group, or is expected."""
        return bool(self.members or self.pending_join)

    def footprints(self) -> Iterator[int]:
        """What the group and those in it take, in bytes."""
        yield GROUP_BYTES + getsizeof(self.group_id)
        for member_id in tuple(self.pending_join):
            yield PENDING_BYTES + getsizeof(member_id)
        for member in tuple(self.members.values()):
            yield member.footprint

    def rename_static(self, member: ClassicMember, member_id: str) -> None:
        """A static member came back: same place, same assignment, another member id."""
        assert member.instance_id is not None
        old_id = member.member_id
        # The place in the order decides who leads next, so the dict is rebuilt around it.
        self.members = {
            (member_id if key == old_id else key): value for key, value in self.members.items()
        }
        member.member_id = member_id
        self._static[member.instance_id] = member_id
        if self.leader == old_id:
            self.leader = member_id
        for waiting in (self.awaiting_join, self.pending_sync):
            if old_id in waiting:
                waiting.remove(old_id)
                waiting.add(member_id)

    def members_for(self, member_id: str) -> list[JoinedMember]:
        """The members of this generation, for the one that divides the work among them."""
        protocol = self.protocol
        if member_id != self.leader or protocol is None:
            return []
        return [(m.member_id, m.instance_id, m.metadata(protocol)) for m in self.members.values()]

    def static_member_id(self, instance_id: str) -> str | None:
        return self._static.get(instance_id)

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether this is a member; a static one that was replaced is fenced."""
        if instance_id is not None:
            current = self._static.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    # -- waiting requests ----------------------------------------------------------------------

    def park_join(self, member: ClassicMember, parked: Parked | None) -> Parked | None:
        """Keep a JoinGroup (None: none) and give back the one that waited before."""
        before = member.parked_join
        member.parked_join = parked
        if parked is None:
            self.awaiting_join.discard(member.member_id)
        else:
            self.awaiting_join.add(member.member_id)
        return before

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is one of those who joined; False: nobody did."""
        if self.leader in self.awaiting_join:
            return True
        joined = next((m for m in self.members if m in self.awaiting_join), None)
        if joined is None:
            return False
        self.leader = joined
        return True

    # -- protocols -----------------------------------------------------------------------------

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """Whether somebody with these protocols and the members have one in common."""
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        size = len(self.members)
        return protocol_type == self.protocol_type and any(
            self._supported[name] == size for name in names
        )

    def select_protocol(self, offers: Mapping[str, Protocols] | None = None) -> str:
        """The protocol with the most votes among those that all members support.

        ``offers``: what some members, by their ids, support from now on.
        """
        ballots = {member_id: member.protocols for member_id, member in self.members.items()}
        supported = self._supported
        if offers is not None:
            ballots |= offers
            supported = Counter(name for protocols in ballots.values() for name in dict(protocols))
        candidates = {name for name, count in supported.items() if count == len(ballots)}
        votes = Counter(vote(protocols, candidates) for protocols in ballots.values())
        return max(votes, key=votes.__getitem__)

    def _count(self, member: ClassicMember, change: int) -> None:
        # A client may name a protocol twice; it still supports it once.
        for name in dict(member.protocols):
            self._supported[name] += change
            if not self._supported[name]:
                del self._supported[name]

    # -- generations ---------------------------------------------------------------------------

    def next_generation(self, now_ms: int) -> None:
        """Everybody has joined: the number and the protocol of the next generation are settled."""
        self.generation += 1
        self.is_unsettled = False
        self.protocol = self.select_protocol()
        self.transition_to(ClassicGroupState.COMPLETING_REBALANCE, now_ms)
        self.refresh_subscription()
        self.pending_sync.clear()

    def refresh_subscription(self) -> None:
        """Remember what the members of this generation subscribe to."""
        self._subscribed = None
        self._subscriptions = None
        if self.uses_consumer_protocol and (self.protocol is not None or not self.members):
            protocol = self.protocol or ""
            self._subscriptions = tuple(m.metadata(protocol) for m in self.members.values())

    @property
    def subscribed_topics(self) -> frozenset[str] | None:
        """What the members subscribe to; None: not a consumer group, or unreadable metadata."""
        if self._subscribed is None and self._subscriptions is not None:
            topics: set[str] = set()
            for metadata in self._subscriptions:
                names = subscribed_topics(metadata)
                if names is None:
                    self._subscriptions = None
                    return None
                topics.update(names)
            self._subscribed = frozenset(topics)
        return self._subscribed

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member may be reading the topic; in doubt a consumer group may."""
        topics = self.subscribed_topics
        return self.uses_consumer_protocol if topics is None else topic in topics


def _check_members(value: GroupMetadataValue) -> None:
    ids = [member.member_id for member in value.members]
    instances = [one for member in value.members if (one := member.group_instance_id) is not None]
    if len({*ids}) < len(ids) or len({*instances}) < len(instances):
        raise DecodeError("a stored group has the same member twice")
