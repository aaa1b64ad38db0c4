"""By how many bytes a request would make groups grow; see ``memory.py``."""

from __future__ import annotations

from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest
from kio.schema.sync_group.v5.request import SyncGroupRequest

from moldau.groups.classic import ClassicGroup
from moldau.groups.client_info import ClientInfo
from moldau.groups.consumer.member import Member
from moldau.groups.memory import (
    ASSIGNMENT_BYTES,
    GROUP_BYTES,
    names_size,
    protocols_size,
    topics_size,
)


def join_growth(request: JoinGroupRequest, client: ClientInfo, known: int | None) -> int:
    """``known``: what the metadata of the member takes so far, if it joins again."""
    metadata = protocols_size([(each.name, each.metadata) for each in request.protocols])
    if known is not None:
        return metadata - known
    # A new member id begins with the client id or the instance id.
    names = (client.client_id, client.client_id, client.client_host, request.member_id)
    instance = request.group_instance_id
    size = names_size(request.group_id, *names, instance, instance)
    return GROUP_BYTES + size + metadata


def sync_growth(request: SyncGroupRequest, group: ClassicGroup | None) -> int:
    if not request.assignments or group is None:
        return 0
    before = sum([max(len(m.assignment), ASSIGNMENT_BYTES) for m in group.members.values()])
    return sum([len(part.assignment) for part in request.assignments]) - before


def heartbeat_growth(
    request: ConsumerGroupHeartbeatRequest, client: ClientInfo, member: Member | None
) -> int:
    """``member``: the one that lives on."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    if member is None and request.member_epoch != 0:
        return 0  # it cannot join so
    if member is None:
        size = names_size(
            request.group_id,
            request.member_id,
            request.instance_id,
            client.client_id,
            client.client_host,
            regex,
        )
        return GROUP_BYTES + size + topics_size(names or ())
    growth = 0
    if names is not None:
        growth += topics_size(names) - topics_size(member.subscribed_names)
    if regex is not None:
        growth += names_size(regex) - names_size(member.subscribed_regex)
    return growth
