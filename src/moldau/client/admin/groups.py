"""Groups: list, describe, delete, remove members.

Requests go to the coordinators of the groups they are about, one for all groups of a coordinator
where the API allows it; listing asks every broker, because each knows only its own groups.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.list_groups.v5.request import ListGroupsRequest

from moldau.client import arguments
from moldau.client.admin.calls import Caller
from moldau.client.admin.group_protocol import read_assignment, read_subscription
from moldau.client.admin.group_types import (
    CLASSIC,
    CONSUMER,
    GroupDescription,
    GroupListing,
    GroupMember,
    MemberToRemove,
)
from moldau.client.admin.types import Outcome
from moldau.client.errors import UnsupportedApiError
from moldau.errors import ErrorCode, KafkaError
from moldau.model import Node, TopicPartition
from moldau.request_errors import check, error_of
from moldau.wire.api import ApiKey
from moldau.wire.make import make

_CONSUMER_PROTOCOL = "consumer"


async def list_groups(
    caller: Caller, states: Collection[str], types: Collection[str]
) -> list[GroupListing]:
    request = make(ListGroupsRequest, states_filter=tuple(states), types_filter=tuple(types))

    async def of_broker(node_id: int) -> list[GroupListing]:
        answer = await caller.broker(node_id, ApiKey.LIST_GROUPS, request, lambda a: a.error_code)
        check(answer.error_code)
        return [
            GroupListing(g.group_id, g.group_type.lower(), g.group_state, g.protocol_type)
            for g in answer.groups
        ]

    await caller.refresh(())
    listings = await asyncio.gather(*map(of_broker, caller.cluster.metadata.nodes))
    return sorted((group for groups in listings for group in groups), key=lambda g: g.group)


async def describe_groups(caller: Caller, groups: Sequence[str]) -> list[Outcome[GroupDescription]]:
    """Groups of both types: what is no group of type ``consumer`` is asked about as a classic."""
    groups = arguments.names(groups, "describe_groups()")

    async def ask(node_id: int, wanted: dict[str, None]) -> dict[str, Any]:
        node = caller.cluster.metadata.nodes[node_id]
        try:
            descriptions = await _describe(caller, node, list(wanted), consumer=True)
        except UnsupportedApiError:
            descriptions = {}
        rest = [group for group in wanted if _is_missing(descriptions.get(group))]
        if rest:
            descriptions.update(await _describe(caller, node, rest, consumer=False))
        return descriptions

    answers = await caller.coordinators(dict.fromkeys(groups), ask)
    return [
        Outcome(group, None, answer) if isinstance(answer, KafkaError) else Outcome(group, answer)
        for group, answer in answers.items()
    ]


async def delete_groups(caller: Caller, groups: Sequence[str]) -> list[Outcome[str]]:
    groups = arguments.names(groups, "delete_groups()")

    async def ask(node_id: int, wanted: dict[str, None]) -> dict[str, Any]:
        connection = await caller.cluster.connection(node_id)
        answer = await connection.request(
            ApiKey.DELETE_GROUPS, make(DeleteGroupsRequest, groups_names=tuple(wanted))
        )
        return {result.group_id: error_of(result.error_code) for result in answer.results}

    answers = await caller.coordinators(dict.fromkeys(groups), ask)
    return [Outcome(group, group, error) for group, error in answers.items()]


async def remove_members(
    caller: Caller, group: str, members: Sequence[MemberToRemove], reason: str | None
) -> list[Outcome[MemberToRemove]]:
    identities = tuple(
        make(
            MemberIdentity,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            reason=reason,
        )
        for member in members
    )
    answer = await caller.coordinator(
        group,
        ApiKey.LEAVE_GROUP,
        make(LeaveGroupRequest, group_id=group, members=identities),
        lambda a: [a.error_code],
    )
    check(answer.error_code)
    return [
        Outcome(member.instance_id or member.member_id, member, error_of(result.error_code))
        for member, result in zip(members, answer.members, strict=True)
    ]


def _is_missing(answer: object) -> bool:
    if isinstance(answer, KafkaError):
        return answer.code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
    return answer is None


async def _describe(
    caller: Caller, node: Node, groups: Sequence[str], *, consumer: bool
) -> dict[str, Any]:
    """A description or an error of each group."""
    connection = await caller.cluster.connection(node.id)
    if consumer:
        answer = await connection.request(
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            make(
                ConsumerGroupDescribeRequest,
                group_ids=tuple(groups),
                include_authorized_operations=False,
            ),
        )
    else:
        answer = await connection.request(
            ApiKey.DESCRIBE_GROUPS,
            make(DescribeGroupsRequest, groups=tuple(groups), include_authorized_operations=False),
        )
    read = _read_consumer if consumer else _read_classic
    return {
        group.group_id: error_of(group.error_code, group.error_message) or read(group, node)
        for group in answer.groups
    }


def _read_consumer(group: Any, coordinator: Node) -> GroupDescription:
    return GroupDescription(
        group.group_id,
        CONSUMER,
        group.group_state,
        group.assignor_name,
        coordinator,
        tuple(
            GroupMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                tuple(member.subscribed_topic_names),
                _partitions(member.assignment),
                _partitions(member.target_assignment),
                member.member_epoch,
                member.subscribed_topic_regex or None,
            )
            for member in group.members
        ),
        group.group_epoch,
    )


def _read_classic(group: Any, coordinator: Node) -> GroupDescription | KafkaError:
    if group.group_state == "Dead":
        # How brokers before version 6 of this API say it.
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"There is no group {group.group_id!r}")
    consumers = group.protocol_type in (_CONSUMER_PROTOCOL, "")
    return GroupDescription(
        group.group_id,
        CLASSIC,
        group.group_state,
        group.protocol_data,
        coordinator,
        tuple(
            GroupMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                read_subscription(member.member_metadata) if consumers else (),
                read_assignment(member.member_assignment) if consumers else (),
            )
            for member in group.members
        ),
    )


def _partitions(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, partition)
            for topic in assignment.topic_partitions
            for partition in topic.partitions
        )
    )
