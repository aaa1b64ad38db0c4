"""Groups over the protocol: how requests reach their shard, and what they hear without one."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from typing import Any

import pytest
from kio.schema.sync_group.v5.request import SyncGroupRequestAssignment
from tests.support.memory_broker import MemoryBroker
from tests.support.wire import WireClient

from moldau.broker.group_coordinator import group_coordinator_spec
from moldau.broker.handlers.join_group import MAX_METADATA_BYTES
from moldau.controller import CreateTopicResult, NewTopic
from moldau.coordinators import HostState
from moldau.errors import ErrorCode
from moldau.machine.real import real_machine
from moldau.wire.api import ApiKey

PROTOCOLS = [{"name": "range", "metadata": b"\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00"}]
COMMIT = {
    "group_id": "g",
    "generation_id_or_member_epoch": -1,
    "topics": [
        {
            "name": "t",
            "partitions": [
                {"partition_index": 0, "committed_offset": 7, "committed_metadata": "note"}
            ],
        }
    ],
}


@pytest.fixture
async def ready(broker: MemoryBroker, client: WireClient) -> WireClient:
    """A connection to a broker that coordinates groups."""
    await client.create_topic("t")
    await broker.parts.groups.topic.create()
    return client


async def join(client: WireClient, group_id: str = "g", member_id: str = "") -> Any:
    return await client.call(
        ApiKey.JOIN_GROUP,
        3,
        group_id=group_id,
        session_timeout=10_000,
        rebalance_timeout=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=PROTOCOLS,
    )


async def joined(broker: MemoryBroker, client: WireClient, group_id: str = "g") -> Any:
    """A member alone in its group, once the group has waited for others."""
    answer = asyncio.ensure_future(join(client, group_id))
    await broker.settle()
    broker.clock.advance(4)
    return await answer


# FindCoordinator ---------------------------------------------------------------------------------


async def test_the_first_group_asked_for_brings_the_offsets_topic_into_being(
    broker: MemoryBroker, client: WireClient
) -> None:
    answer = await client.call(ApiKey.FIND_COORDINATOR, coordinator_keys=["g", "h"])
    found = [(c.key, c.error_code, c.node_id, c.host, c.port) for c in answer.coordinators]
    assert found == [("g", 0, 1, "memory", 9092), ("h", 0, 1, "memory", 9092)]
    assert broker.parts.metadata.partition_count("__consumer_offsets") == 50


@pytest.mark.parametrize(
    ("key_type", "code"),
    [
        (2, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (3, ErrorCode.INVALID_REQUEST),
    ],
)
@pytest.mark.parametrize("version", [1, 6])
async def test_coordinators_of_other_kinds_are_refused(
    client: WireClient, key_type: int, code: ErrorCode, version: int
) -> None:
    answer = await client.call(
        ApiKey.FIND_COORDINATOR, version, key_type=key_type, coordinator_keys=["k"]
    )
    (coordinator,) = answer.coordinators
    assert (coordinator.error_code, coordinator.node_id) == (code, -1)
    assert coordinator.error_message


async def test_an_offsets_topic_that_this_broker_does_not_know_yet_is_not_available(
    broker: MemoryBroker, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is being deleted, or another broker is just being told of it."""

    async def create(topics: Sequence[NewTopic]) -> list[CreateTopicResult]:
        exists = ErrorCode.TOPIC_ALREADY_EXISTS
        return [CreateTopicResult(name=topic.name, error=exists) for topic in topics]

    monkeypatch.setattr(broker.parts.controller, "create_topics", create)
    answer = await client.call(ApiKey.FIND_COORDINATOR, coordinator_keys=["g"])
    (coordinator,) = answer.coordinators
    assert coordinator.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_no_keys_create_nothing(broker: MemoryBroker, client: WireClient) -> None:
    answer = await client.call(ApiKey.FIND_COORDINATOR, coordinator_keys=[])
    assert answer.coordinators == ()
    assert broker.parts.metadata.topics == {}


# Without a coordinator ---------------------------------------------------------------------------

ONE_GROUP: dict[ApiKey, dict[str, Any]] = {
    ApiKey.JOIN_GROUP: {
        "group_id": "g",
        "member_id": "m",
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "protocol_type": "consumer",
        "protocols": PROTOCOLS,
    },
    ApiKey.SYNC_GROUP: {
        "group_id": "g",
        "member_id": "m",
        "protocol_type": "consumer",
        "protocol_name": "range",
    },
    ApiKey.HEARTBEAT: {"group_id": "g", "member_id": "m"},
    ApiKey.LEAVE_GROUP: {"group_id": "g", "members": [{"member_id": "m"}]},
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "topic_partitions": [],
        "subscribed_topic_names": ["t"],
        "rebalance_timeout": 1000,
    },
    ApiKey.OFFSET_DELETE: {
        "group_id": "g",
        "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}],
    },
}


def codes(answer: Any) -> list[ErrorCode]:
    """The answer's own error, or those of its groups, or of the partitions in it."""
    if hasattr(answer, "error_code"):
        return [answer.error_code]
    if hasattr(answer, "groups"):
        return [group.error_code for group in answer.groups]
    if hasattr(answer, "results"):
        return [result.error_code for result in answer.results]
    return [p.error_code for topic in answer.topics for p in topic.partitions]


SEVERAL: dict[ApiKey, dict[str, Any]] = {
    ApiKey.DESCRIBE_GROUPS: {"groups": ["g", ""]},
    ApiKey.CONSUMER_GROUP_DESCRIBE: {"group_ids": ["g", ""]},
    ApiKey.DELETE_GROUPS: {"groups_names": ["g", ""]},
}


async def test_a_broker_that_coordinates_nothing_sends_everybody_away(
    client: WireClient,
) -> None:
    await client.create_topic("t")
    for key, fields in ONE_GROUP.items():
        answer = await client.call(key, **fields)
        assert codes(answer) == [ErrorCode.NOT_COORDINATOR], key.name
    for key, fields in SEVERAL.items():
        answer = await client.call(key, **fields)
        refuses_empty = key is ApiKey.CONSUMER_GROUP_DESCRIBE
        empty = ErrorCode.INVALID_GROUP_ID if refuses_empty else ErrorCode.NOT_COORDINATOR
        assert codes(answer) == [ErrorCode.NOT_COORDINATOR, empty], key.name
    commit = await client.call(ApiKey.OFFSET_COMMIT, 9, **COMMIT)
    assert codes(commit) == [ErrorCode.NOT_COORDINATOR]
    groups = [{"group_id": "g", "topics": None}]
    assert codes(await client.call(ApiKey.OFFSET_FETCH, 9, groups=groups)) == [
        ErrorCode.NOT_COORDINATOR
    ]
    assert (await client.call(ApiKey.LIST_GROUPS)).groups == ()


async def test_while_a_shard_is_loaded_only_heartbeats_succeed(
    broker: MemoryBroker, ready: WireClient
) -> None:
    for host in broker.parts.groups.hosts:
        host.state = HostState.LOADING
    for key, fields in ONE_GROUP.items():
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        expected = ErrorCode.NONE if key is ApiKey.HEARTBEAT else loading
        assert codes(await ready.call(key, **fields)) == [expected], key.name
    listed = await ready.call(ApiKey.LIST_GROUPS)
    assert listed.error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_an_empty_group_id_is_none(ready: WireClient) -> None:
    for key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP):
        answer = await ready.call(key, **(ONE_GROUP[key] | {"group_id": ""}))
        assert answer.error_code is ErrorCode.INVALID_GROUP_ID, key.name
    fields = ONE_GROUP[ApiKey.SYNC_GROUP] | {"protocol_name": None}
    answer = await ready.call(ApiKey.SYNC_GROUP, **fields)
    assert answer.error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    heartbeat = ONE_GROUP[ApiKey.CONSUMER_GROUP_HEARTBEAT] | {"group_id": ""}
    answer = await ready.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, **heartbeat)
    assert answer.error_message == "GroupId can't be empty."


async def test_the_empty_group_id_may_have_offsets_and_is_described_and_deleted(
    ready: WireClient,
) -> None:
    async def deleted() -> ErrorCode:
        answer = await ready.call(ApiKey.DELETE_GROUPS, groups_names=[""])
        code: ErrorCode = answer.results[0].error_code
        return code

    assert await deleted() is ErrorCode.GROUP_ID_NOT_FOUND
    for version, code in ((5, ErrorCode.NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)):
        (group,) = (await ready.call(ApiKey.DESCRIBE_GROUPS, version, groups=[""])).groups
        assert (group.error_code, group.group_state) == (code, "Dead")
    await ready.call(ApiKey.OFFSET_COMMIT, 9, **(COMMIT | {"group_id": ""}))
    (group,) = (await ready.call(ApiKey.DESCRIBE_GROUPS, groups=[""])).groups
    assert (group.error_code, group.group_state) == (ErrorCode.NONE, "Empty")
    assert await deleted() is ErrorCode.NONE


@pytest.mark.parametrize(
    "broker", [{"group.coordinator.rebalance.protocols": "classic"}], indirect=True
)
async def test_without_the_consumer_protocol_nobody_looks_for_its_coordinator(
    client: WireClient,
) -> None:
    answer = await client.call(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, **ONE_GROUP[ApiKey.CONSUMER_GROUP_HEARTBEAT]
    )
    assert (answer.error_code, answer.error_message) == (ErrorCode.UNSUPPORTED_VERSION, None)
    described = await client.call(ApiKey.CONSUMER_GROUP_DESCRIBE, group_ids=["g", "h"])
    assert [
        (group.group_id, group.error_code, group.error_message) for group in described.groups
    ] == [
        ("g", ErrorCode.UNSUPPORTED_VERSION, None),
        ("h", ErrorCode.UNSUPPORTED_VERSION, None),
    ]


async def test_a_group_of_the_other_kind_is_said_to_be_that(
    broker: MemoryBroker, ready: WireClient
) -> None:
    await joined(broker, ready, "classic")
    described = await ready.call(ApiKey.CONSUMER_GROUP_DESCRIBE, group_ids=["classic", "none"])
    assert [group.error_message for group in described.groups] == [
        "Group classic is not a consumer group.",
        "Group none not found.",
    ]


# Members -----------------------------------------------------------------------------------------


async def test_the_life_of_a_classic_member(broker: MemoryBroker, ready: WireClient) -> None:
    member = await joined(broker, ready)
    assert (member.error_code, member.generation_id, member.leader) == (0, 1, member.member_id)
    me = {"group_id": "g", "generation_id": 1, "member_id": member.member_id}
    synced = await ready.call(
        ApiKey.SYNC_GROUP,
        3,
        **me,
        assignments=[{"member_id": member.member_id, "assignment": b"mine"}],
    )
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    assert (await ready.call(ApiKey.HEARTBEAT, **me)).error_code == 0
    described = await ready.call(
        ApiKey.DESCRIBE_GROUPS, groups=["g"], include_authorized_operations=True
    )
    (group,) = described.groups
    assert (group.group_state, group.protocol_data) == ("Stable", "range")
    assert [(m.client_id, m.client_host) for m in group.members] == [("tests", "/10.0.0.7")]
    assert group.authorized_operations > 0
    listed = await ready.call(ApiKey.LIST_GROUPS, states_filter=["stable"])
    assert [found.group_id for found in listed.groups] == ["g"]
    refused = await ready.call(ApiKey.DELETE_GROUPS, groups_names=["g", "g"])
    assert [r.error_code for r in refused.results] == [ErrorCode.NON_EMPTY_GROUP]
    left = await ready.call(
        ApiKey.LEAVE_GROUP, group_id="g", members=[{"member_id": member.member_id}]
    )
    assert (left.error_code, [m.error_code for m in left.members]) == (0, [0])
    deleted = await ready.call(ApiKey.DELETE_GROUPS, groups_names=["g"])
    assert [result.error_code for result in deleted.results] == [0]


async def test_a_member_that_is_silent_for_too_long_is_gone(
    broker: MemoryBroker, ready: WireClient
) -> None:
    member = await joined(broker, ready)
    broker.clock.advance(11)
    answer = await ready.call(
        ApiKey.HEARTBEAT, group_id="g", generation_id=1, member_id=member.member_id
    )
    assert answer.error_code is ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_member_under_the_consumer_protocol_is_assigned_partitions(
    ready: WireClient,
) -> None:
    answer = await ready.call(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, **ONE_GROUP[ApiKey.CONSUMER_GROUP_HEARTBEAT]
    )
    assert answer.error_code == 0
    assert answer.member_epoch > 0
    (assigned,) = answer.assignment.topic_partitions
    assert assigned.partitions == (0,)
    described = await ready.call(ApiKey.CONSUMER_GROUP_DESCRIBE, group_ids=["g", "nope"])
    assert [(group.group_id, group.error_code) for group in described.groups] == [
        ("g", 0),
        ("nope", ErrorCode.GROUP_ID_NOT_FOUND),
    ]


async def test_requests_that_wait_are_sent_away_at_shutdown(
    broker: MemoryBroker, ready: WireClient
) -> None:
    waiting = asyncio.ensure_future(join(ready))
    await broker.settle()
    assert not waiting.done()
    broker.parts.coordinators.stop()
    answer = await waiting
    assert (answer.error_code, answer.generation_id) == (ErrorCode.NOT_COORDINATOR, -1)


# Offsets -----------------------------------------------------------------------------------------


async def test_offsets_are_committed_and_told_by_name_and_by_id(
    broker: MemoryBroker, ready: WireClient
) -> None:
    topic_id = broker.parts.metadata.topics["t"].topic_id
    assert codes(await ready.call(ApiKey.OFFSET_COMMIT, 9, **COMMIT)) == [0]
    by_name = [{"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0, 1]}]}]
    answer = await ready.call(ApiKey.OFFSET_FETCH, 8, groups=by_name)
    (topic,) = answer.groups[0].topics
    assert [(p.committed_offset, p.metadata) for p in topic.partitions] == [(7, "note"), (-1, "")]
    by_id = [{"group_id": "g", "topics": [{"topic_id": topic_id, "partition_indexes": [0]}]}]
    answer = await ready.call(ApiKey.OFFSET_FETCH, 10, groups=by_id)
    assert answer.groups[0].topics[0].topic_id == topic_id
    everything = await ready.call(
        ApiKey.OFFSET_FETCH, 9, groups=[{"group_id": "g", "topics": None}]
    )
    assert [topic.name for topic in everything.groups[0].topics] == ["t"]


async def test_what_does_not_exist_is_refused_beside_what_does(ready: WireClient) -> None:
    partition = {"committed_offset": 1, "committed_metadata": None}
    answer = await ready.call(
        ApiKey.OFFSET_COMMIT,
        9,
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=[
            {"name": "nope", "partitions": [partition | {"partition_index": 0}]},
            {"name": "t", "partitions": [partition | {"partition_index": n} for n in (0, 5)]},
        ],
    )
    found = {
        (topic.name, p.partition_index): p.error_code
        for topic in answer.topics
        for p in topic.partitions
    }
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found == {("nope", 0): unknown, ("t", 0): 0, ("t", 5): unknown}
    deleted = await ready.call(
        ApiKey.OFFSET_DELETE,
        group_id="g",
        topics=[{"name": "t", "partitions": [{"partition_index": n} for n in (0, 5)]}],
    )
    assert {p.partition_index: p.error_code for p in deleted.topics[0].partitions} == {
        0: 0,
        5: unknown,
    }


@pytest.mark.parametrize(("version", "place"), [(1, "partition"), (2, "answer")])
async def test_an_error_of_offset_fetch_is_where_the_version_has_a_place_for_it(
    client: WireClient, version: int, place: str
) -> None:
    groups = [{"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}]
    answer = await client.call(ApiKey.OFFSET_FETCH, version, groups=groups)
    (group,) = answer.groups
    partitions = [p.error_code for topic in group.topics for p in topic.partitions]
    if place == "partition":
        assert partitions == [ErrorCode.NOT_COORDINATOR]
    else:
        assert (partitions, group.error_code) == ([], ErrorCode.NOT_COORDINATOR)


async def test_committed_offsets_survive_a_restart(broker: MemoryBroker, ready: WireClient) -> None:
    assert codes(await ready.call(ApiKey.OFFSET_COMMIT, 9, **COMMIT)) == [0]
    await broker.restart()
    await broker.settle()
    client = await broker.connect()
    answer = await client.call(ApiKey.OFFSET_FETCH, 9, groups=[{"group_id": "g", "topics": None}])
    (topic,) = answer.groups[0].topics
    assert [p.committed_offset for p in topic.partitions] == [7]


async def test_metadata_that_could_never_be_stored_is_refused(ready: WireClient) -> None:
    protocols = [{"name": "range", "metadata": bytes(MAX_METADATA_BYTES + 1)}]
    answer = await ready.call(
        ApiKey.JOIN_GROUP,
        3,
        group_id="g",
        session_timeout=10_000,
        rebalance_timeout=10_000,
        protocol_type="consumer",
        protocols=protocols,
    )
    assert answer.error_code is ErrorCode.INVALID_REQUEST


async def test_an_assignment_larger_than_a_record_is_an_error_and_begins_anew(
    broker: MemoryBroker, ready: WireClient
) -> None:
    member = await joined(broker, ready)
    answer = await ready.call(
        ApiKey.SYNC_GROUP,
        group_id="g",
        generation_id=member.generation_id,
        member_id=member.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": member.member_id, "assignment": bytes(2_000_000)}],
    )
    assert answer.error_code is ErrorCode.UNKNOWN_SERVER_ERROR, "as in Kafka"
    beat = await ready.call(
        ApiKey.HEARTBEAT,
        group_id="g",
        generation_id=member.generation_id,
        member_id=member.member_id,
    )
    assert beat.error_code is ErrorCode.REBALANCE_IN_PROGRESS


async def test_who_waits_for_an_assignment_holds_on_to_none(
    broker: MemoryBroker, ready: WireClient
) -> None:
    clients = [await broker.connect() for _ in range(2)]
    joins = [asyncio.ensure_future(join(client)) for client in clients]
    for _ in range(3):
        await broker.settle()
        broker.clock.advance(4)
    members = [await answer for answer in joins]
    (number,) = [i for i, m in enumerate(members) if m.member_id != m.leader]
    follower = members[number]
    waiting = asyncio.ensure_future(
        clients[number].call(
            ApiKey.SYNC_GROUP,
            group_id="g",
            generation_id=follower.generation_id,
            member_id=follower.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[{"member_id": "x", "assignment": b"seven times seven"}] * 7,
        )
    )
    await broker.settle()
    assert not waiting.done()
    kept = [each for each in gc.get_objects() if isinstance(each, SyncGroupRequestAssignment)]
    assert not [each for each in kept if each.assignment == b"seven times seven"]
    waiting.cancel()


def test_all_shards_of_a_broker_have_one_memory(broker: MemoryBroker) -> None:
    parts = broker.parts
    spec = group_coordinator_spec(parts.configs, parts.metadata, real_machine())
    assert spec.new_shard()._memory is spec.new_shard()._memory
