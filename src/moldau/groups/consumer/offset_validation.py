"""Whether a member of a consumer group may commit or read offsets."""

from __future__ import annotations

from uuid import UUID

from moldau.errors import ErrorCode
from moldau.groups.consumer.group import ConsumerGroup
from moldau.groups.consumer.member import Member

COMMIT_WITH_EPOCH = 9
"""The first version of OffsetCommit that has a member epoch."""


def check_commit(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    member_epoch: int,
    version: int,
    transactional: bool,
) -> ErrorCode:
    """Whether a member may commit. An answer that it is behind does not settle it: for each
    partition ``check_partition`` then says whether the member had it at that epoch already."""
    if member_epoch < 0 and not group.members:
        return ErrorCode.NONE  # an administrator, or a consumer that assigns itself
    if transactional and member_epoch == -1 and not member_id and instance_id is None:
        return ErrorCode.NONE  # a producer that does not say which member it acts for
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not (transactional or member.uses_classic_protocol) and version < COMMIT_WITH_EPOCH:
        return ErrorCode.UNSUPPORTED_VERSION
    return check_epoch(member, member_epoch)


def check_partition(
    group: ConsumerGroup, member_id: str, member_epoch: int, topic_id: UUID | None, partition: int
) -> ErrorCode:
    """Whether a member that is behind may commit for one partition (KIP-1251).

    It may if it has had the partition since the epoch that it sends, or before.
    """
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    since = None if topic_id is None else member.assignment_epoch(topic_id, partition)
    if since is not None and since <= member_epoch <= member.epoch:
        return ErrorCode.NONE
    return _stale(member)


def check_fetch(group: ConsumerGroup, member_id: str, member_epoch: int) -> ErrorCode:
    member = group.members.get(member_id)
    return ErrorCode.UNKNOWN_MEMBER_ID if member is None else check_epoch(member, member_epoch)


def check_epoch(member: Member, epoch: int) -> ErrorCode:
    return ErrorCode.NONE if epoch == member.epoch else _stale(member)


def _stale(member: Member) -> ErrorCode:
    """To a classic member its epoch is a generation."""
    if member.uses_classic_protocol:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.STALE_MEMBER_EPOCH
