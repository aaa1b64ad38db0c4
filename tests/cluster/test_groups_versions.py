"""Every version of every API of groups: a member's life in it, readable by kio."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.support.groups import (
    FAST_GROUPS,
    REBALANCE_TIMEOUT_MS,
    ClassicMember,
    commit,
    committed,
    find_coordinator,
)
from tests.support.wire import WireClient

from moldau.errors import ErrorCode
from moldau.wire.api import SERVED, ApiKey

pytestmark = pytest.mark.parametrize("broker", [FAST_GROUPS], indirect=True)


def versions(*apis: ApiKey) -> list[object]:
    return [
        pytest.param(api, version, id=f"{api.name}-{version}")
        for api in apis
        for version in range(SERVED[api].oldest, SERVED[api].newest + 1)
    ]


async def stable_member(client: WireClient, group: str = "g") -> ClassicMember:
    member = ClassicMember(client, group)
    await find_coordinator(client, group)
    await member.join()
    await member.sync({member.member_id: b"assigned"})
    return member


@pytest.mark.parametrize(
    ("api", "version"),
    versions(ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP),
)
async def test_a_member_joins_works_and_leaves(
    client: WireClient, api: ApiKey, version: int
) -> None:
    member = ClassicMember(client, "g", {api: version})
    await find_coordinator(client, "g")
    joined = await member.join()
    assert joined.error_code is ErrorCode.NONE
    assert joined.leader == member.member_id
    assert [one.member_id for one in joined.members] == [member.member_id]
    assert joined.members[0].metadata == b"metadata"
    assert joined.protocol_name == "range"
    synced = await member.sync({member.member_id: b"assigned"})
    assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, b"assigned")
    assert await member.heartbeat() is ErrorCode.NONE
    left = await member.leave()
    assert left.error_code is ErrorCode.NONE
    assert all(one.error_code is ErrorCode.NONE for one in left.members)
    assert await member.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("api", "version"), versions(ApiKey.OFFSET_COMMIT))
async def test_offsets_are_committed(client: WireClient, api: ApiKey, version: int) -> None:
    topic_id = await client.create_topic("t", partitions=2)
    await find_coordinator(client, "g")
    topic: str | UUID = topic_id if version >= 10 else "t"
    answer = await commit(client, "g", topic, {0: 7, 1: 8}, version=version)
    (one,) = answer.topics
    assert (one.name, one.topic_id) == (("", topic_id) if version >= 10 else ("t", None))
    assert [(p.partition_index, p.error_code) for p in one.partitions] == [
        (0, ErrorCode.NONE),
        (1, ErrorCode.NONE),
    ]
    assert await committed(client, "g", "t", [0, 1]) == {("t", 0): 7, ("t", 1): 8}


@pytest.mark.parametrize(("api", "version"), versions(ApiKey.OFFSET_FETCH))
async def test_committed_offsets_are_read(client: WireClient, api: ApiKey, version: int) -> None:
    topic_id = await client.create_topic("t", partitions=2)
    await find_coordinator(client, "g")
    await commit(client, "g", "t", {1: 8})
    topic = {"topic_id": topic_id} if version >= 10 else {"name": "t"}
    wanted = [{"group_id": "g", "topics": [{**topic, "partition_indexes": [0, 1]}]}]
    (group,) = (await client.call(api, version, groups=wanted)).groups
    assert group.error_code is ErrorCode.NONE
    (found,) = group.topics
    assert [
        (p.partition_index, p.committed_offset, p.metadata, p.error_code) for p in found.partitions
    ] == [(0, -1, "", ErrorCode.NONE), (1, 8, "note", ErrorCode.NONE)]
    if version >= 2:
        everything = [{"group_id": "g", "topics": None}]
        (group,) = (await client.call(api, version, groups=everything)).groups
        (found,) = group.topics
        assert (found.name, found.topic_id) == (("", topic_id) if version >= 10 else ("t", None))
        assert [p.partition_index for p in found.partitions] == [1]


@pytest.mark.parametrize(("api", "version"), versions(ApiKey.DESCRIBE_GROUPS))
async def test_a_group_is_described(client: WireClient, api: ApiKey, version: int) -> None:
    member = await stable_member(client)
    answer = await client.call(
        api, version, groups=["g", "nobody"], include_authorized_operations=True
    )
    found, missing = answer.groups
    assert (found.error_code, found.group_state) == (ErrorCode.NONE, "Stable")
    assert (found.protocol_type, found.protocol_data) == ("consumer", "range")
    (one,) = found.members
    assert (one.member_id, one.client_id, one.client_host) == (
        member.member_id,
        "tests",
        "/127.0.0.1",
    )
    assert (one.member_metadata, one.member_assignment) == (b"metadata", b"assigned")
    assert missing.group_state == "Dead"
    not_found = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE
    assert missing.error_code is not_found


@pytest.mark.parametrize(("api", "version"), versions(ApiKey.LIST_GROUPS))
async def test_groups_are_listed(client: WireClient, api: ApiKey, version: int) -> None:
    await stable_member(client, "a")
    await client.create_topic("t")
    await commit(client, "b", "t", {0: 1})
    answer = await client.call(api, version)
    assert answer.error_code is ErrorCode.NONE
    found = {one.group_id: one for one in answer.groups}
    assert {name: one.protocol_type for name, one in found.items()} == {"a": "consumer", "b": ""}
    if version >= 4:
        assert found["a"].group_state == "Stable"
        answer = await client.call(api, version, states_filter=["empty"])
        assert [one.group_id for one in answer.groups] == ["b"]
    if version >= 5:
        assert found["a"].group_type == "classic"
        assert not (await client.call(api, version, types_filter=["consumer"])).groups


@pytest.mark.parametrize(("api", "version"), versions(ApiKey.DELETE_GROUPS))
async def test_an_empty_group_is_deleted_with_its_offsets(
    client: WireClient, api: ApiKey, version: int
) -> None:
    await client.create_topic("t")
    await find_coordinator(client, "g")
    await commit(client, "g", "t", {0: 1})
    await stable_member(client, "busy")
    answer = await client.call(api, version, groups_names=["g", "busy", "nobody"])
    assert {one.group_id: one.error_code for one in answer.results} == {
        "g": ErrorCode.NONE,
        "busy": ErrorCode.NON_EMPTY_GROUP,
        "nobody": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert await committed(client, "g", None) == {}


async def test_offsets_are_deleted(client: WireClient) -> None:
    await client.create_topic("t", partitions=2)
    await find_coordinator(client, "g")
    await commit(client, "g", "t", {0: 1, 1: 2})
    answer = await client.call(
        ApiKey.OFFSET_DELETE,
        group_id="g",
        topics=[{"name": "t", "partitions": [{"partition_index": 1}]}],
    )
    assert answer.error_code is ErrorCode.NONE
    assert answer.topics[0].partitions[0].error_code is ErrorCode.NONE
    assert await committed(client, "g", None) == {("t", 0): 1}
    answer = await client.call(ApiKey.OFFSET_DELETE, group_id="nobody", topics=[])
    assert answer.error_code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("api", "version"),
    versions(ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE),
)
async def test_a_member_under_the_consumer_protocol(
    client: WireClient, api: ApiKey, version: int
) -> None:
    topic_id = await client.create_topic("t", partitions=2)
    await find_coordinator(client, "g")
    heartbeat_version = version if api is ApiKey.CONSUMER_GROUP_HEARTBEAT else 1
    describe_version = version if api is ApiKey.CONSUMER_GROUP_DESCRIBE else 1
    joined = await client.call(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        heartbeat_version,
        group_id="g",
        member_id="" if heartbeat_version == 0 else "me",
        member_epoch=0,
        rebalance_timeout=REBALANCE_TIMEOUT_MS,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert joined.error_code is ErrorCode.NONE, joined
    assert joined.member_epoch == 2
    assert [(one.topic_id, one.partitions) for one in joined.assignment.topic_partitions] == [
        (topic_id, (0, 1))
    ]
    answer = await client.call(
        ApiKey.CONSUMER_GROUP_DESCRIBE, describe_version, group_ids=["g", "nobody"]
    )
    found, missing = answer.groups
    assert (found.error_code, found.group_epoch) == (ErrorCode.NONE, 2)
    assert found.members[0].assignment.topic_partitions[0].topic_name == "t"
    assert missing.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    left = await client.call(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        heartbeat_version,
        group_id="g",
        member_id=joined.member_id,
        member_epoch=-1,
    )
    assert (left.error_code, left.member_epoch) == (ErrorCode.NONE, -1)
