"""Administration of consumer groups: list, describe, offsets, delete, remove members.

Requests go to the coordinator of the group they are about; listing asks every broker, because each
knows only the groups that it coordinates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.list_groups.v5.request import ListGroupsRequest

from moldau.client import groups_offsets
from moldau.client.admin_types import Outcome
from moldau.client.backoff import retrying
from moldau.client.cluster import Cluster
from moldau.client.coordinators import ask_coordinator, find_coordinator
from moldau.client.errors import UnsupportedApiError, check, error_of
from moldau.client.groups_protocol import read_assignment, read_subscription
from moldau.client.groups_types import (
    CLASSIC,
    CONSUMER,
    CommittedOffset,
    GroupDescription,
    GroupListing,
    GroupMember,
    MemberToRemove,
)
from moldau.errors import ErrorCode, KafkaError
from moldau.model import Node, TopicPartition
from moldau.wire.api import ApiKey
from moldau.wire.make import make

_CONSUMER_PROTOCOL = "consumer"


class GroupAdmin:
    """Requests about groups over a shared :class:`Cluster`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list_groups(
        self, *, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[GroupListing]:
        """All groups of the cluster by name; brokers filter by state and type."""
        request = make(ListGroupsRequest, states_filter=tuple(states), types_filter=tuple(types))

        async def of_broker(node_id: int) -> list[GroupListing]:
            async def attempt() -> Any:
                connection = await self._cluster.connection(node_id)
                answer = await connection.request(ApiKey.LIST_GROUPS, request)
                check(answer.error_code)
                return answer

            answer = await retrying(attempt, within=self._cluster.request_timeout)
            return [
                GroupListing(g.group_id, g.group_type.lower(), g.group_state, g.protocol_type)
                for g in answer.groups
            ]

        await retrying(lambda: self._cluster.refresh(()), within=self._cluster.request_timeout)
        found = await asyncio.gather(*map(of_broker, self._cluster.metadata.nodes))
        return sorted((group for groups in found for group in groups), key=lambda g: g.group)

    async def describe(self, groups: Sequence[str]) -> list[Outcome[GroupDescription]]:
        """State and members of groups of both types."""
        return list(await asyncio.gather(*map(self._describe_one, groups)))

    async def offsets(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """Everything that a group has committed."""
        return await groups_offsets.fetch(self._cluster, group)

    async def alter_offsets(
        self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> list[Outcome[int]]:
        """Commit for a group that has no members."""
        return await groups_offsets.commit(self._cluster, group, offsets)

    async def delete_offsets(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> list[Outcome[TopicPartition]]:
        """Forget offsets of topics to which no member subscribes."""
        return await groups_offsets.delete(self._cluster, group, partitions)

    async def delete(self, groups: Sequence[str]) -> list[Outcome[str]]:
        """Delete groups that have no members, with their offsets."""

        async def one(group: str) -> Outcome[str]:
            answer = await ask_coordinator(
                self._cluster,
                group,
                ApiKey.DELETE_GROUPS,
                make(DeleteGroupsRequest, groups_names=(group,)),
                lambda a: [result.error_code for result in a.results],
            )
            (result,) = answer.results
            return Outcome(group, group, error_of(result.error_code))

        return [await one(group) for group in groups]

    async def remove_members(
        self, group: str, members: Sequence[MemberToRemove], *, reason: str | None = None
    ) -> list[Outcome[MemberToRemove]]:
        """Make members leave a classic group; static ones do not leave by themselves."""
        identities = tuple(
            make(
                MemberIdentity,
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                reason=reason,
            )
            for member in members
        )
        answer = await ask_coordinator(
            self._cluster,
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

    async def _describe_one(self, group: str) -> Outcome[GroupDescription]:
        try:
            coordinator = await find_coordinator(self._cluster, group)
            try:
                return Outcome(group, await self._describe_consumer(group, coordinator))
            except UnsupportedApiError:
                pass
            except KafkaError as error:
                if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
                    raise
            return Outcome(group, await self._describe_classic(group, coordinator))
        except KafkaError as error:
            return Outcome(group, None, error)

    async def _describe_consumer(self, group: str, coordinator: Node) -> GroupDescription:
        request = make(
            ConsumerGroupDescribeRequest, group_ids=(group,), include_authorized_operations=False
        )
        answer = await ask_coordinator(
            self._cluster, group, ApiKey.CONSUMER_GROUP_DESCRIBE, request, _group_codes
        )
        (found,) = answer.groups
        check(found.error_code, found.error_message)
        return GroupDescription(
            group,
            CONSUMER,
            found.group_state,
            found.assignor_name,
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
                for member in found.members
            ),
            found.group_epoch,
        )

    async def _describe_classic(self, group: str, coordinator: Node) -> GroupDescription:
        request = make(DescribeGroupsRequest, groups=(group,), include_authorized_operations=False)
        answer = await ask_coordinator(
            self._cluster, group, ApiKey.DESCRIBE_GROUPS, request, _group_codes
        )
        (found,) = answer.groups
        check(found.error_code, found.error_message)
        if found.group_state == "Dead":
            # How brokers before version 6 of this API say it.
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"There is no group {group!r}")
        consumers = found.protocol_type in (_CONSUMER_PROTOCOL, "")
        return GroupDescription(
            group,
            CLASSIC,
            found.group_state,
            found.protocol_data,
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
                for member in found.members
            ),
        )


def _group_codes(answer: Any) -> list[int]:
    return [group.error_code for group in answer.groups]


def _partitions(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, partition)
            for topic in assignment.topic_partitions
            for partition in topic.partitions
        )
    )
