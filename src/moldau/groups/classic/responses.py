"""The responses to JoinGroup, SyncGroup, Heartbeat and LeaveGroup, filled as Kafka fills them."""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.heartbeat.v4.response import HeartbeatResponse
from kio.schema.join_group.v9.response import JoinGroupResponse, JoinGroupResponseMember
from kio.schema.leave_group.v5.request import MemberIdentity
from kio.schema.leave_group.v5.response import LeaveGroupResponse, MemberResponse
from kio.schema.sync_group.v5.response import SyncGroupResponse

from moldau.errors import ErrorCode
from moldau.groups.classic.group import ClassicGroup
from moldau.groups.classic.member import ClassicMember, JoinedMember
from moldau.wire.embedded_protocol import PROTOCOL_TYPE
from moldau.wire.make import make
from moldau.wire.stored.group_records import GroupMetadataValue

UNKNOWN_MEMBER_ID = ""
"""The member id of somebody who has none yet."""
NO_GENERATION = -1
_NO_THROTTLE = 0
_NULLABLE_PROTOCOL_VERSION = 7
"""From here on a JoinGroup answer may say "no protocol"; before, that is the empty string."""


def join_error(
    error: ErrorCode,
    member_id: str = UNKNOWN_MEMBER_ID,
    *,
    version: int,
) -> JoinGroupResponse:
    return make(
        JoinGroupResponse,
        throttle_time=_NO_THROTTLE,
        error_code=error,
        generation_id=NO_GENERATION,
        protocol_type=None,
        protocol_name=None if version >= _NULLABLE_PROTOCOL_VERSION else "",
        leader="",
        skip_assignment=False,
        member_id=member_id,
        members=(),
    )


def joined(
    group: ClassicGroup | GroupMetadataValue,
    member_id: str,
    *,
    members: Iterable[JoinedMember] = (),
    skip_assignment: bool = False,
    leader: str | None = None,
    error: ErrorCode = ErrorCode.NONE,
) -> JoinGroupResponse:
    """The generation of a group, as it is or will be; who divides the work gets the members."""
    return make(
        JoinGroupResponse,
        throttle_time=_NO_THROTTLE,
        error_code=error,
        generation_id=group.generation,
        protocol_type=group.protocol_type or None,
        protocol_name=group.protocol or "",
        leader=leader or group.leader or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=tuple(
            make(
                JoinGroupResponseMember,
                member_id=other_id,
                group_instance_id=instance_id,
                metadata=metadata,
            )
            for other_id, instance_id, metadata in members
        ),
    )


def joined_alone(member_id: str, generation: int, protocol: str) -> JoinGroupResponse:
    """For a classic member of a consumer group: nobody leads, the coordinator assigns."""
    return make(
        JoinGroupResponse,
        throttle_time=_NO_THROTTLE,
        error_code=ErrorCode.NONE,
        generation_id=generation,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol,
        leader="",
        skip_assignment=False,
        member_id=member_id,
        members=(),
    )


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    return make(
        SyncGroupResponse,
        throttle_time=_NO_THROTTLE,
        error_code=error,
        protocol_type=None,
        protocol_name=None,
        assignment=b"",
    )


def assignment(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    return synced(group.protocol_type, group.protocol, member.assignment)


def synced(protocol_type: str | None, protocol: str | None, part: bytes) -> SyncGroupResponse:
    return make(
        SyncGroupResponse,
        throttle_time=_NO_THROTTLE,
        error_code=ErrorCode.NONE,
        protocol_type=protocol_type,
        protocol_name=protocol,
        assignment=part,
    )


def heartbeat(error: ErrorCode) -> HeartbeatResponse:
    return make(HeartbeatResponse, throttle_time=_NO_THROTTLE, error_code=error)


def left(members: Iterable[tuple[MemberIdentity, ErrorCode]]) -> LeaveGroupResponse:
    return make(
        LeaveGroupResponse,
        throttle_time=_NO_THROTTLE,
        error_code=ErrorCode.NONE,
        members=tuple(
            make(
                MemberResponse,
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=error,
            )
            for member, error in members
        ),
    )


def leave_error(error: ErrorCode) -> LeaveGroupResponse:
    return make(LeaveGroupResponse, throttle_time=_NO_THROTTLE, error_code=error, members=())
