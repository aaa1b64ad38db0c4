"""What a heartbeat, a departure or an expiry does to a group.

Nothing here changes a group: each function works out what the group becomes, on copies, and returns
the records that say so. Replaying them is what changes it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest

from moldau.errors import ErrorCode, KafkaError
from moldau.groups.client_info import ClientInfo
from moldau.groups.consumer import journal, messages
from moldau.groups.consumer.assignors import ASSIGNORS, GroupSpec, MemberSpec, Partitions
from moldau.groups.consumer.group import ConsumerGroup, ResolvedRegex
from moldau.groups.consumer.member import STATIC_LEAVE_EPOCH, Member, MemberState
from moldau.groups.consumer.patterns import check_pattern
from moldau.groups.consumer.reconciliation import Reconciler, Target
from moldau.groups.consumer.subscriptions import (
    changed_pattern,
    metadata_hash,
    topic_ids,
    with_changes,
)
from moldau.groups.settings import GroupSettings
from moldau.groups.topics import TopicView
from moldau.outcome import Record
from moldau.wire.times import milliseconds

FIRST_EPOCH = 1
"""The epoch of a group before anybody in it subscribes to anything."""


@dataclass(slots=True)
class Change:
    """What a heartbeat comes to."""

    member: Member
    """The member afterwards."""
    records: list[Record] = field(default_factory=list)
    assignment_changed: bool = False
    """Whether the member has been given or asked to give up something."""
    moved: bool = False
    """Whether the member's reconciliation went on, or began."""
    is_stale: bool = False
    """Whether the group has changed since its target assignment was computed."""


@dataclass(frozen=True, slots=True)
class Heartbeats:
    settings: GroupSettings
    topics: TopicView

    def beat(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        member_id: str,
        client: ClientInfo,
        now_ms: int,
    ) -> Change:
        """A member joins, or says that it is alive, what it wants and what it holds."""
        records: list[Record] = []
        owned = messages.owned_partitions(request)
        before, replaced = find_member(group, request, member_id, owned, records)
        after = _updated(before, request, client)
        return self.update(group, before, after, owned, now_ms, records, replaced=replaced)

    def update(
        self,
        group: ConsumerGroup,
        before: Member,
        after: Member,
        owned: Partitions | None,
        now_ms: int,
        records: list[Record],
        *,
        replaced: str | None = None,
        may_assign: bool = True,
    ) -> Change:
        """Put ``after`` in the place of ``before`` (and of the static member ``replaced``).

        Without ``may_assign`` the target assignment stays, and if it is not that of the group any
        more, the member does not move towards it.
        """
        group_id = group.group_id
        is_new = after.member_id not in group.members and replaced is None
        if is_new or not after.same_metadata(before):
            records.append(journal.member_metadata(group_id, after))
        subscription_changed = not after.same_subscription(before)

        old, new = before.subscribed_regex or None, after.subscribed_regex or None
        regexes: Mapping[str, ResolvedRegex] = group.regexes
        if old != new:
            if new is not None and not group.subscribers(new):
                check_pattern(new)
            if old is not None and old in regexes and group.subscribers(old) <= 1:
                records.append(journal.regular_expression(group_id, old, None))
                regexes = with_changes(regexes, {old: None})
        next_group = _Next(self.topics, group, after, replaced, regexes)
        epoch = group.epoch
        # The topics of a pattern that is not resolved yet come later, with an epoch of their own;
        # those that the member gives up for it are for others at once.
        force = subscription_changed and (
            after.subscribed_names != before.subscribed_names
            or new is None
            or new in regexes
            or (old is not None and bool(group.matches(old)))
        )
        if force or group.refresh_requested or not epoch:
            epoch = next_group.bump(records, force=force)
        if may_assign:
            target = self._target(next_group, epoch, now_ms, records)
        else:
            target = Target(group.assignment_epoch, group.target_of(after))
        is_stale = epoch > target.epoch

        stepped = after
        if (may_assign or not is_stale) and (
            subscription_changed or not after.is_reconciled_to(target.epoch)
        ):
            stepped = Reconciler(
                target=target,
                subscribed=topic_ids(self.topics, group.topics_of(after, regexes)),
                is_held=group.is_held,
                owned=owned,
                subscription_changed=subscription_changed,
            ).step(after)
        moved = stepped is not after and not stepped.same_assignment(after)
        if moved:
            records.append(journal.current_assignment(group_id, stepped))
        changed = {t: p.keys() for t, p in stepped.assigned.items()} != {
            t: p.keys() for t, p in before.assigned.items()
        }
        return Change(stepped, records, changed, moved, is_stale)

    def _target(self, next_group: _Next, epoch: int, now_ms: int, records: list[Record]) -> Target:
        group = next_group.group
        if epoch > group.assignment_epoch and self._may_assign(group, now_ms):
            shares = next_group.assign(self.settings.group_consumer_assignors)
            for member_id, share in shares.items():
                if group.target.get(member_id) != share:
                    records.append(journal.target_assignment(group.group_id, member_id, share))
            # What is assigned before all patterns are resolved is not worth a wait for the rest.
            at_ms = now_ms if next_group.is_resolved else 0
            records.append(journal.target_epoch(group.group_id, epoch, at_ms))
            return Target(epoch, shares[next_group.member.member_id])
        return Target(group.assignment_epoch, group.target_of(next_group.member))

    def _may_assign(self, group: ConsumerGroup, now_ms: int) -> bool:
        """Assignments of a group keep a distance, so that many joins at once cost a few only."""
        last = group.assignment_timestamp_ms
        interval = self.settings.of_group(group.group_id).consumer_assignment_interval_ms
        # A clock that was set back must not keep the group waiting.
        return last == 0 or not 0 <= now_ms - last < interval

    def resolve(self, group: ConsumerGroup, regex: str, now_ms: int) -> list[Record]:
        """Match a pattern of a group against the topics there are; nothing if they are the same."""
        resolved = changed_pattern(self.topics, group, regex, now_ms)
        if resolved is None:
            return []
        records = [journal.regular_expression(group.group_id, regex, resolved)]
        regexes = with_changes(group.regexes, {regex: resolved})
        names = group.subscribed_by(group.members.values(), regexes)
        new_hash = metadata_hash(self.topics, names)
        if new_hash != group.metadata_hash or resolved.topics != group.matches(regex):
            epoch = (group.epoch or FIRST_EPOCH) + 1
            records.append(journal.group_epoch(group.group_id, epoch, new_hash))
        return records

    def fence(self, group: ConsumerGroup, member_ids: Collection[str]) -> list[Record]:
        """Remove members that left, or that are taken for dead."""
        records: list[Record] = []
        for member_id in member_ids:
            records += journal.no_member(group.group_id, member_id)
        rest = [m for member_id, m in group.members.items() if member_id not in member_ids]
        in_use = {member.subscribed_regex for member in rest}
        dropped: dict[str, ResolvedRegex | None] = {
            regex: None for regex in group.regexes if regex not in in_use
        }
        for regex in dropped:
            records.append(journal.regular_expression(group.group_id, regex, None))
        names = group.subscribed_by(rest, with_changes(group.regexes, dropped))
        records.append(
            journal.group_epoch(group.group_id, group.epoch + 1, metadata_hash(self.topics, names))
        )
        return records


@dataclass(frozen=True, slots=True)
class _Next:
    """A group as it will be once a heartbeat's records have been replayed."""

    topics: TopicView
    group: ConsumerGroup
    member: Member
    replaced: str | None
    regexes: Mapping[str, ResolvedRegex]

    def members(self) -> dict[str, Member]:
        members = {**self.group.members, self.member.member_id: self.member}
        if self.replaced is not None and self.replaced != self.member.member_id:
            members.pop(self.replaced, None)
        return members

    @property
    def is_resolved(self) -> bool:
        """Whether it is known of every pattern which topics it matches."""
        return all(
            not member.subscribed_regex or member.subscribed_regex in self.regexes
            for member in self.members().values()
        )

    def bump(self, records: list[Record], *, force: bool) -> int:
        """The group epoch: one more when there is a reason, which other topics are, too."""
        group = self.group
        names = group.subscribed_by(self.members().values(), self.regexes)
        new_hash = metadata_hash(self.topics, names)
        epoch = group.epoch or FIRST_EPOCH
        if force or new_hash != group.metadata_hash:
            epoch += 1
        if epoch != group.epoch:
            records.append(journal.group_epoch(group.group_id, epoch, new_hash))
            if group.has_partition_metadata:
                records.append(journal.no_partition_metadata(group.group_id))
        return epoch

    def assign(self, assignors: Collection[str]) -> dict[str, dict[UUID, frozenset[int]]]:
        group, members = self.group, self.members()
        ids: dict[frozenset[str], frozenset[UUID]] = {}
        specs: dict[str, MemberSpec] = {}
        for member_id, member in members.items():
            names = group.topics_of(member, self.regexes)
            if names not in ids:
                ids[names] = topic_ids(self.topics, names)
            specs[member_id] = MemberSpec(ids[names], group.target_of(member), member.instance_id)
        counts = {
            topic_id: self.topics.partitions(self.topics.name(topic_id) or "") or 0
            for topic_id in sorted(frozenset().union(*ids.values()))
        }
        name = group.preferred_assignor(members.values(), assignors)
        return ASSIGNORS[name].assign(GroupSpec(specs, counts))


def is_quiet(
    group: ConsumerGroup,
    member: Member,
    request: ConsumerGroupHeartbeatRequest,
    client: ClientInfo,
) -> bool:
    """Whether a heartbeat says no more than that the member lives, and there is nothing to tell it.

    Nearly all heartbeats are like that; anything in doubt is not.
    """
    return (
        request.member_epoch == member.epoch == group.assignment_epoch == group.epoch
        and member.state is MemberState.STABLE
        and not group.refresh_requested
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.rack_id is None
        and (request.instance_id is None or request.instance_id == member.instance_id)
        and client == (member.client_id, member.client_host)
        and milliseconds(request.rebalance_timeout) == -1
        and member.classic is None
    )


def find_member(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    member_id: str,
    owned: Partitions | None,
    records: list[Record],
) -> tuple[Member, str | None]:
    """The member that a heartbeat is from, and the static member whose place it takes if any."""
    joins = request.member_epoch == 0
    instance_id = request.instance_id
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            if joins:
                return Member(member_id), None
            raise unknown_member(group.group_id, member_id)
        check_epoch(member, request.member_epoch, owned)
        return member, None

    existing = group.static_member(instance_id)
    if not joins:
        member = static_member(group, instance_id, member_id)
        check_epoch(member, request.member_epoch, owned)
        return member, None
    if existing is None:
        return group.members.get(member_id) or Member(member_id), None
    if existing.member_id == member_id and existing.epoch != STATIC_LEAVE_EPOCH:
        return existing, None  # it begins again: the answer to its first join was lost
    if existing.epoch != STATIC_LEAVE_EPOCH and not existing.uses_classic_protocol:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group "
            f"because the instance id is owned by {existing.member_id} member.",
        )
    return replace_static(group, existing, member_id, records), existing.member_id


def find_classic_member(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    *,
    joins: bool,
    records: list[Record],
) -> tuple[Member, str | None]:
    """The same for a JoinGroup. ``joins``: it has no member id yet."""
    if instance_id is None:
        return group.members.get(member_id) or Member(member_id), None
    if not joins:
        return static_member(group, instance_id, member_id), None
    existing = group.static_member(instance_id)
    if existing is None:
        return Member(member_id), None
    return replace_static(group, existing, member_id, records), existing.member_id


def replace_static(
    group: ConsumerGroup, existing: Member, member_id: str, records: list[Record]
) -> Member:
    """A static member comes back, as a rule under another member id, and gets what it had."""
    member = replace(existing, member_id=member_id, epoch=0, previous_epoch=0)
    if existing.member_id != member_id:
        records += journal.no_member(group.group_id, existing.member_id)
    records.append(journal.member_metadata(group.group_id, member))
    records.append(
        journal.target_assignment(
            group.group_id, member_id, group.target.get(existing.member_id, {})
        )
    )
    records.append(journal.current_assignment(group.group_id, member))
    return member


def static_member(group: ConsumerGroup, instance_id: str, member_id: str) -> Member:
    """The member with an instance id, which must be ``member_id``."""
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Instance id {instance_id} is unknown.",
        )
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{member.member_id}.",
        )
    return member


def check_epoch(member: Member, epoch: int, owned: Partitions | None) -> None:
    """Fence a member that has another epoch than the group knows.

    The last epoch before is good, too, if the member holds nothing it should not: the answer with
    the new epoch may have been lost. So is zero: a member may always begin again.
    """
    if epoch in (0, member.epoch):
        return
    is_previous = epoch == member.previous_epoch < member.epoch
    if is_previous and owned is not None and member.holds_subset(owned):
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {'greater' if epoch > member.epoch else 'smaller'} "
        f"member epoch ({epoch}) than the one known by the group coordinator ({member.epoch}). "
        "The member must abandon all its partitions and rejoin.",
    )


def unknown_member(group_id: str, member_id: str) -> KafkaError:
    return KafkaError(
        ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}."
    )


def _updated(member: Member, request: ConsumerGroupHeartbeatRequest, client: ClientInfo) -> Member:
    """The member with whatever the request says anew; what is null stays as it was."""
    names = request.subscribed_topic_names
    rebalance_timeout_ms = milliseconds(request.rebalance_timeout)
    return replace(
        member,
        instance_id=_or(request.instance_id, member.instance_id),
        rack_id=_or(request.rack_id, member.rack_id),
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms
        ),
        server_assignor=_or(request.server_assignor, member.server_assignor),
        subscribed_names=member.subscribed_names if names is None else frozenset(names),
        subscribed_regex=_or(request.subscribed_topic_regex, member.subscribed_regex),
        client_id=client.client_id,
        client_host=client.client_host,
        classic=None,
    )


def _or(new: str | None, old: str | None) -> str | None:
    return old if new is None else new
