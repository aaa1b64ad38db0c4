"""A group under the consumer protocol becomes a classic one.

That happens when its last member under the consumer protocol goes and classic members remain. They
keep what the target assignment gives them until the rebalance that follows; one that had not
arrived there has to join again first, because the generation is the epoch of the group.
"""

from __future__ import annotations

from collections.abc import Collection

from moldau.groups.classic import ClassicGroup, ClassicGroups, ClassicGroupState, ClassicMember
from moldau.groups.consumer import journal
from moldau.groups.consumer.group import ConsumerGroup
from moldau.groups.consumer.member import Member
from moldau.groups.migration.assignments import embedded_assignment
from moldau.groups.settings import GroupSettings
from moldau.groups.topics import TopicView
from moldau.outcome import Outcome
from moldau.wire.embedded_protocol import PROTOCOL_TYPE, protocol_version
from moldau.wire.errors import DecodeError


class Downgrader:
    def __init__(self, settings: GroupSettings, topics: TopicView, classic: ClassicGroups) -> None:
        self._settings = settings
        self._topics = topics
        self._classic = classic

    def without(
        self, group: ConsumerGroup, leaving: Collection[str], now_ms: int
    ) -> Outcome | None:
        """The group without these members as a classic one, if only classic members remain."""
        rest = [member for key, member in group.members.items() if key not in leaving]
        if not rest or not self._is_allowed(rest):
            return None
        converted = self._converted(group, rest, now_ms)
        if converted is None:
            return None
        outcome = Outcome(list(journal.no_group(group)))
        outcome.extend(self._classic.adopt(converted, now_ms, rebalance=True))
        return outcome

    def is_due_with(self, group: ConsumerGroup, joining: Member, replaced: Member) -> bool:
        """Whether a classic member replaces the last one under the consumer protocol."""
        return not replaced.uses_classic_protocol and self._is_allowed(_with(group, joining))

    def with_replaced(
        self, group: ConsumerGroup, joining: Member, now_ms: int, *, rebalance: bool
    ) -> Outcome | None:
        """The group with a classic member in the place of the static one with its instance id."""
        members = _with(group, joining)
        converted = self._converted(group, members, now_ms)
        if converted is None:
            return None
        outcome = Outcome(list(journal.no_group(group, also=[joining.member_id])))
        outcome.extend(self._classic.adopt(converted, now_ms, rebalance=rebalance))
        return outcome

    def _is_allowed(self, members: Collection[Member]) -> bool:
        return (
            all(member.uses_classic_protocol for member in members)
            and self._settings.group_consumer_migration_policy.allows_downgrade
            and len(members) <= self._settings.group_max_size
        )

    def _converted(
        self, group: ConsumerGroup, members: Collection[Member], now_ms: int
    ) -> ClassicGroup | None:
        """None if what the members once sent cannot be read: then the group stays what it is."""
        classic = ClassicGroup(
            group.group_id,
            ClassicGroupState.STABLE,
            generation=group.epoch,
            protocol_type=PROTOCOL_TYPE,
            state_timestamp_ms=now_ms,
        )
        for member in members:
            classic.add(_classic_member(member))
        try:
            classic.protocol = protocol = classic.select_protocol()
            for member in members:
                converted = classic.members[member.member_id]
                converted.assignment = embedded_assignment(
                    group.target_of(member),
                    self._topics,
                    protocol_version(converted.metadata(protocol)),
                )
        except (DecodeError, KeyError):
            return None
        classic.refresh_subscription()
        return classic


def _with(group: ConsumerGroup, joining: Member) -> list[Member]:
    return [
        *(m for m in group.members.values() if m.instance_id != joining.instance_id),
        joining,
    ]


def _classic_member(member: Member) -> ClassicMember:
    metadata = member.classic
    assert metadata is not None, "only classic members are left"
    return ClassicMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=metadata.session_timeout_ms,
        protocol_type=PROTOCOL_TYPE,
        protocols=tuple(
            (protocol.name, protocol.metadata) for protocol in metadata.supported_protocols
        ),
    )
