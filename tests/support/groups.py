"""Members of groups, made of single requests over a socket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tests.support.wire import WireClient

from moldau.errors import ErrorCode
from moldau.wire.api import ApiKey

SESSION_TIMEOUT_MS = 45_000
REBALANCE_TIMEOUT_MS = 60_000
FAST_GROUPS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}
"""Settings of a broker whose groups lose no time."""


async def find_coordinator(client: WireClient, group: str) -> int:
    """Look for the coordinator, which makes the offsets topic; the node that it is."""
    answer = await client.call(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=[group])
    (one,) = answer.coordinators
    assert one.error_code is ErrorCode.NONE, one
    return int(one.node_id)


@dataclass
class ClassicMember:
    """A member under the classic protocol, each of whose requests may have its own version."""

    client: WireClient
    group: str
    versions: Mapping[ApiKey, int] = field(default_factory=dict)
    instance_id: str | None = None
    member_id: str = ""
    generation: int = -1
    metadata: bytes = b"metadata"
    protocols: Sequence[str] = ("range",)
    session_timeout_ms: int = SESSION_TIMEOUT_MS

    def send_join(self) -> int:
        return self._send(
            ApiKey.JOIN_GROUP,
            group_id=self.group,
            session_timeout=self.session_timeout_ms,
            rebalance_timeout=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[{"name": name, "metadata": self.metadata} for name in self.protocols],
        )

    async def receive_join(self, correlation_id: int) -> Any:
        answer = await self._receive(ApiKey.JOIN_GROUP, correlation_id)
        if answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.member_id = answer.member_id
            self.generation = answer.generation_id
        return answer

    async def join(self) -> Any:
        """Join, with the second round if an id has to be asked for first."""
        answer = await self.receive_join(self.send_join())
        if answer.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            answer = await self.receive_join(self.send_join())
        return answer

    def send_sync(self, assignments: Mapping[str, bytes] | None = None) -> int:
        return self._send(
            ApiKey.SYNC_GROUP,
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=self.protocols[0],
            assignments=[
                {"member_id": member_id, "assignment": assignment}
                for member_id, assignment in (assignments or {}).items()
            ],
        )

    async def sync(self, assignments: Mapping[str, bytes] | None = None) -> Any:
        return await self.receive_sync(self.send_sync(assignments))

    async def receive_sync(self, correlation_id: int) -> Any:
        return await self._receive(ApiKey.SYNC_GROUP, correlation_id)

    async def heartbeat(self) -> ErrorCode:
        answer = await self._call(
            ApiKey.HEARTBEAT,
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        code: ErrorCode = answer.error_code
        return code

    async def leave(self) -> Any:
        return await self._call(
            ApiKey.LEAVE_GROUP,
            group_id=self.group,
            members=[{"member_id": self.member_id, "group_instance_id": self.instance_id}],
        )

    async def commit(self, topic: str, offsets: Mapping[int, int]) -> Any:
        return await commit(
            self.client,
            self.group,
            topic,
            offsets,
            member_id=self.member_id,
            generation=self.generation,
            instance_id=self.instance_id,
        )

    def _send(self, api: ApiKey, **values: Any) -> int:
        return self.client.send(api, self.versions.get(api), **values)

    async def _receive(self, api: ApiKey, correlation_id: int) -> Any:
        return await self.client.receive(api, correlation_id, self.versions.get(api))

    async def _call(self, api: ApiKey, **values: Any) -> Any:
        return await self._receive(api, self._send(api, **values))


async def commit(
    client: WireClient,
    group: str,
    topic: str | UUID,
    offsets: Mapping[int, int],
    *,
    version: int = 9,
    member_id: str = "",
    generation: int = -1,
    instance_id: str | None = None,
    metadata: str | None = "note",
) -> Any:
    """OffsetCommit; with no member the commit of a consumer that assigns itself."""
    return await client.call(
        ApiKey.OFFSET_COMMIT,
        version,
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=[
            {
                **_named(topic),
                "partitions": [
                    {
                        "partition_index": index,
                        "committed_offset": offset,
                        "committed_metadata": metadata,
                    }
                    for index, offset in offsets.items()
                ],
            }
        ],
    )


async def committed(
    client: WireClient, group: str, topic: str | UUID | None, partitions: Sequence[int] = (0,)
) -> dict[tuple[str, int], int]:
    """What a group has committed: of one topic, or (None) everything."""
    wanted = None if topic is None else [{**_named(topic), "partition_indexes": list(partitions)}]
    version = 10 if isinstance(topic, UUID) else 9
    answer = await client.call(
        ApiKey.OFFSET_FETCH, version, groups=[{"group_id": group, "topics": wanted}]
    )
    (found,) = answer.groups
    assert found.error_code is ErrorCode.NONE, found
    return {
        (one.name or str(one.topic_id), part.partition_index): part.committed_offset
        for one in found.topics
        for part in one.partitions
    }


def _named(topic: str | UUID) -> dict[str, Any]:
    return {"name": topic} if isinstance(topic, str) else {"topic_id": topic}
