"""Groups on a running broker: rebalances, restarts, topics that come and go, the end."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.groups import (
    FAST_GROUPS,
    ClassicMember,
    commit,
    committed,
    find_coordinator,
)
from tests.support.in_process import InProcessBroker, eventually
from tests.support.wire import WireClient

from moldau.coordinators.host import HostState
from moldau.errors import ErrorCode
from moldau.wire.api import ApiKey
from moldau.wire.primitives import error_from

GROUP = "g"
OFFSETS_TOPIC = "__consumer_offsets"
FAST = pytest.mark.parametrize("broker", [FAST_GROUPS], indirect=True)


async def lone_member(client: WireClient, group: str = GROUP, **settings: Any) -> ClassicMember:
    """The only member of a stable group."""
    member = ClassicMember(client, group, **settings)
    await find_coordinator(client, group)
    joined = await member.join()
    assert joined.error_code is ErrorCode.NONE
    await member.sync({member.member_id: b"all"})
    return member


async def until_loaded(broker: InProcessBroker) -> None:
    hosts = broker.parts.groups.hosts
    await eventually(lambda: all(host.state is HostState.ACTIVE for host in hosts), "loading")


async def until_one_waits(broker: InProcessBroker) -> None:
    hosts = broker.parts.groups.hosts
    await eventually(lambda: any(host.waiting for host in hosts), "parking")


# The offsets topic -------------------------------------------------------------------------------


async def test_the_first_question_for_a_coordinator_makes_the_offsets_topic(
    broker: InProcessBroker, client: WireClient
) -> None:
    assert await find_coordinator(client, GROUP) == 1
    topic = broker.parts.metadata.topics[OFFSETS_TOPIC]
    assert len(topic.partitions) == 50
    assert topic.is_internal
    assert broker.parts.configs.topic_overrides(OFFSETS_TOPIC) == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }


async def test_many_who_ask_at_once_get_one_topic(broker: InProcessBroker) -> None:
    clients = [await broker.connect() for _ in range(5)]
    assert await asyncio.gather(*(find_coordinator(one, GROUP) for one in clients)) == [1] * 5


async def test_a_batch_of_keys_is_answered_key_by_key(client: WireClient) -> None:
    answer = await client.call(
        ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=["a", "b", "a"]
    )
    assert [(one.key, one.node_id) for one in answer.coordinators] == [("a", 1), ("b", 1), ("a", 1)]


@pytest.mark.parametrize("broker", [{"offsets.topic.replication.factor": "3"}], indirect=True)
async def test_a_replication_factor_that_was_asked_for_is_waited_for(client: WireClient) -> None:
    answer = await client.call(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=[GROUP])
    assert answer.coordinators[0].error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_metadata_makes_the_offsets_topic_with_its_own_settings(
    broker: InProcessBroker, client: WireClient
) -> None:
    answer = await client.call(
        ApiKey.METADATA, topics=[{"name": OFFSETS_TOPIC}], allow_auto_topic_creation=True
    )
    assert len(answer.topics[0].partitions) == 50
    assert "cleanup.policy" in broker.parts.configs.topic_overrides(OFFSETS_TOPIC)


async def test_without_the_offsets_topic_there_is_no_coordinator(client: WireClient) -> None:
    member = ClassicMember(client, GROUP)
    assert (await member.join()).error_code is ErrorCode.NOT_COORDINATOR
    assert await member.heartbeat() is ErrorCode.NOT_COORDINATOR


async def test_an_unknown_kind_of_key_is_an_invalid_request(client: WireClient) -> None:
    answer = await client.call(ApiKey.FIND_COORDINATOR, key_type=9, coordinator_keys=["k"])
    assert answer.coordinators[0].error_code is ErrorCode.INVALID_REQUEST


# Members -----------------------------------------------------------------------------------------


@FAST
async def test_a_second_member_makes_everybody_join_again(
    broker: InProcessBroker, client: WireClient
) -> None:
    first = await lone_member(client)
    second = ClassicMember(await broker.connect(), GROUP)
    answer = await second.receive_join(second.send_join())
    assert answer.error_code is ErrorCode.MEMBER_ID_REQUIRED
    joining = second.send_join()
    await until_one_waits(broker)
    assert await first.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    leader = await first.join()
    follower = await second.receive_join(joining)
    assert leader.generation_id == follower.generation_id == 2
    assert leader.leader == follower.leader == first.member_id
    assert {one.member_id for one in leader.members} == {first.member_id, second.member_id}
    assert follower.members == ()
    waiting = second.send_sync()
    mine = await first.sync({first.member_id: b"0-1", second.member_id: b"2-3"})
    theirs = await second.receive_sync(waiting)
    assert (mine.assignment, theirs.assignment) == (b"0-1", b"2-3")
    assert await second.heartbeat() is ErrorCode.NONE


@FAST
async def test_requests_behind_a_parked_join_wait_for_its_answer(
    broker: InProcessBroker, client: WireClient
) -> None:
    first = await lone_member(client)
    second = ClassicMember(await broker.connect(), GROUP)
    await second.receive_join(second.send_join())
    joining = second.send_join()
    listing = second.client.send(ApiKey.LIST_GROUPS)
    await until_one_waits(broker)
    await first.join()
    assert (await second.receive_join(joining)).error_code is ErrorCode.NONE
    answer = await second.client.receive(ApiKey.LIST_GROUPS, listing)
    assert [one.group_id for one in answer.groups] == [GROUP]


@pytest.mark.parametrize(
    "broker", [{**FAST_GROUPS, "group.min.session.timeout.ms": "1"}], indirect=True
)
async def test_a_silent_member_is_removed_after_its_session(
    broker: InProcessBroker, client: WireClient
) -> None:
    started = time.monotonic()
    first = await lone_member(client, session_timeout_ms=1000)
    second = ClassicMember(await broker.connect(), GROUP)
    joined = await second.join()  # the first never comes back
    assert time.monotonic() - started >= 1
    assert [one.member_id for one in joined.members] == [second.member_id]
    assert await first.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


@FAST
async def test_a_static_member_that_comes_back_keeps_its_assignment(
    broker: InProcessBroker, client: WireClient
) -> None:
    before = await lone_member(client, instance_id="static")
    after = ClassicMember(await broker.connect(), GROUP, instance_id="static")
    joined = await after.join()
    assert joined.error_code is ErrorCode.NONE
    assert joined.generation_id == before.generation
    assert (await after.sync()).assignment == b"all"
    assert await before.heartbeat() is ErrorCode.FENCED_INSTANCE_ID


@FAST
async def test_stopping_answers_a_parked_join_at_once(
    broker: InProcessBroker, client: WireClient
) -> None:
    await lone_member(client)
    second = ClassicMember(await broker.connect(), GROUP)
    await second.receive_join(second.send_join())
    joining = second.send_join()
    await until_one_waits(broker)
    stopping = asyncio.ensure_future(broker.server.stop())
    answer = await second.receive_join(joining)
    assert answer.error_code is ErrorCode.NOT_COORDINATOR
    await stopping


@FAST
async def test_deleting_the_offsets_topic_sends_members_away(
    broker: InProcessBroker, client: WireClient
) -> None:
    member = await lone_member(client)
    await client.call(ApiKey.DELETE_TOPICS, topics=[{"name": OFFSETS_TOPIC}], timeout=60_000)
    assert await member.heartbeat() is ErrorCode.NOT_COORDINATOR
    await find_coordinator(client, GROUP)
    assert await member.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


# Offsets -----------------------------------------------------------------------------------------


@FAST
async def test_commits_are_checked_against_the_group(client: WireClient) -> None:
    await client.create_topic("t")
    member = await lone_member(client)

    async def code(**settings: Any) -> ErrorCode:
        answer = await commit(client, GROUP, "t", {0: 1}, **settings)
        return error_from(answer.topics[0].partitions[0].error_code)

    me = {"member_id": member.member_id, "generation": member.generation}
    assert await code(**me) is ErrorCode.NONE
    assert await code(**{**me, "generation": 7}) is ErrorCode.ILLEGAL_GENERATION
    assert await code(**{**me, "member_id": "x"}) is ErrorCode.UNKNOWN_MEMBER_ID
    assert await code() is ErrorCode.UNKNOWN_MEMBER_ID
    assert await code(**me, metadata="x" * 5000) is ErrorCode.OFFSET_METADATA_TOO_LARGE


@FAST
async def test_commits_for_topics_that_do_not_exist_fail_alone(client: WireClient) -> None:
    await client.create_topic("t")
    await find_coordinator(client, GROUP)
    partition = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
    answer = await client.call(
        ApiKey.OFFSET_COMMIT,
        9,
        group_id=GROUP,
        topics=[{"name": name, "partitions": [partition]} for name in ("t", "missing")],
    )
    assert {one.name: one.partitions[0].error_code for one in answer.topics} == {
        "t": ErrorCode.NONE,
        "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert await committed(client, GROUP, None) == {("t", 0): 5}


@FAST
async def test_an_unknown_topic_id_is_told_so(client: WireClient) -> None:
    topic_id = await client.create_topic("t")
    await find_coordinator(client, GROUP)
    await client.call(ApiKey.DELETE_TOPICS, topics=[{"name": "t"}], timeout=60_000)
    answer = await commit(client, GROUP, topic_id, {0: 1}, version=10)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.UNKNOWN_TOPIC_ID
    answer = await client.call(
        ApiKey.OFFSET_FETCH,
        10,
        groups=[{"group_id": GROUP, "topics": [{"topic_id": topic_id, "partition_indexes": [0]}]}],
    )
    found = answer.groups[0].topics[0]
    assert found.topic_id == topic_id
    assert found.partitions[0].error_code is ErrorCode.UNKNOWN_TOPIC_ID


@FAST
async def test_offsets_of_several_groups_come_in_one_answer(client: WireClient) -> None:
    await client.create_topic("t")
    await find_coordinator(client, GROUP)
    for number in range(4):
        await commit(client, f"g{number}", "t", {0: number})
    wanted = [{"group_id": f"g{number}", "topics": None} for number in range(4)]
    answer = await client.call(ApiKey.OFFSET_FETCH, 9, groups=wanted)
    found = {
        group.group_id: group.topics[0].partitions[0].committed_offset for group in answer.groups
    }
    assert found == {f"g{number}": number for number in range(4)}


@FAST
async def test_offsets_go_with_their_topic(client: WireClient) -> None:
    for name in ("t", "other"):
        await client.create_topic(name)
    await find_coordinator(client, GROUP)
    for name in ("t", "other"):
        await commit(client, GROUP, name, {0: 5})
    await client.call(ApiKey.DELETE_TOPICS, topics=[{"name": "t"}], timeout=60_000)
    assert await committed(client, GROUP, None) == {("other", 0): 5}
    await client.create_topic("t")
    assert await committed(client, GROUP, "t") == {("t", 0): -1}


# Restarts ----------------------------------------------------------------------------------------


@FAST
async def test_members_and_offsets_survive_a_restart(
    broker: InProcessBroker, client: WireClient
) -> None:
    await client.create_topic("t", partitions=3)
    member = await lone_member(client)
    for round_number in range(3):
        await member.commit("t", {0: round_number, 1: 10, 2: 20})
    await commit(client, "simple", "t", {0: 99})
    await broker.restart()
    client = await broker.connect()
    await until_loaded(broker)
    member.client = client
    assert await committed(client, GROUP, "t", [0, 1, 2]) == {
        ("t", 0): 2,
        ("t", 1): 10,
        ("t", 2): 20,
    }
    assert await committed(client, "simple", None) == {("t", 0): 99}
    assert await member.heartbeat() is ErrorCode.NONE, "the member did not notice"
    answer = await member.commit("t", {0: 3})
    assert answer.topics[0].partitions[0].error_code is ErrorCode.NONE
    described = await client.call(ApiKey.DESCRIBE_GROUPS, groups=[GROUP, "simple"])
    assert [one.group_state for one in described.groups] == ["Stable", "Empty"]


@FAST
async def test_a_deleted_group_stays_deleted(broker: InProcessBroker, client: WireClient) -> None:
    await client.create_topic("t")
    member = await lone_member(client)
    await member.commit("t", {0: 3})
    await member.leave()
    answer = await client.call(ApiKey.DELETE_GROUPS, groups_names=[GROUP])
    assert answer.results[0].error_code is ErrorCode.NONE
    await broker.restart()
    client = await broker.connect()
    await until_loaded(broker)
    assert (await client.call(ApiKey.LIST_GROUPS)).groups == ()
    assert await committed(client, GROUP, None) == {}


async def test_a_group_that_is_being_loaded_says_so(tmp_path: Path) -> None:
    async with InProcessBroker(tmp_path, FAST_GROUPS) as broker:
        client = await broker.connect()
        member = await lone_member(client)
        host = broker.parts.groups.host_of(GROUP)
        assert host is not None
        host.state = HostState.LOADING
        again = ClassicMember(client, GROUP)
        assert (await again.join()).error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await member.heartbeat() is ErrorCode.NONE, "nobody's session ends meanwhile"
        listed = await client.call(ApiKey.LIST_GROUPS)
        assert (listed.error_code, listed.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ())
        host.state = HostState.ACTIVE


# Kinds of groups ---------------------------------------------------------------------------------


async def consumer_heartbeat(client: WireClient, epoch: int, **values: Any) -> Any:
    return await client.call(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        group_id=GROUP,
        member_id="modern",
        member_epoch=epoch,
        **values,
    )


JOINING = {"rebalance_timeout": 10_000, "subscribed_topic_names": ["t"], "topic_partitions": []}


@FAST
async def test_an_empty_group_may_change_its_kind(
    broker: InProcessBroker, client: WireClient
) -> None:
    await client.create_topic("t")
    classic = await lone_member(client)
    await classic.commit("t", {0: 4})
    await classic.leave()
    joined = await consumer_heartbeat(client, 0, **JOINING)
    assert joined.error_code is ErrorCode.NONE
    listed = await client.call(ApiKey.LIST_GROUPS)
    assert [(one.group_id, one.group_type) for one in listed.groups] == [(GROUP, "consumer")]
    assert await committed(client, GROUP, None) == {("t", 0): 4}
    await consumer_heartbeat(client, -1)
    classic = await lone_member(client)
    listed = await client.call(ApiKey.LIST_GROUPS)
    assert [(one.group_id, one.group_type) for one in listed.groups] == [(GROUP, "classic")]
    await broker.restart()
    client = await broker.connect()
    await until_loaded(broker)
    listed = await client.call(ApiKey.LIST_GROUPS)
    assert [(one.group_id, one.group_type) for one in listed.groups] == [(GROUP, "classic")]


@FAST
async def test_a_member_under_the_consumer_protocol_gets_new_partitions(
    client: WireClient,
) -> None:
    topic_id = await client.create_topic("t")
    await find_coordinator(client, GROUP)
    joined = await consumer_heartbeat(client, 0, **JOINING)
    owned = [{"topic_id": topic_id, "partitions": [0]}]
    await consumer_heartbeat(client, joined.member_epoch, topic_partitions=owned)
    await client.call(
        ApiKey.CREATE_PARTITIONS,
        topics=[{"name": "t", "count": 3, "assignments": None}],
        timeout=60_000,
    )
    epoch = joined.member_epoch
    async with asyncio.timeout(60):
        while True:
            answer = await consumer_heartbeat(client, epoch, topic_partitions=owned)
            assert answer.error_code is ErrorCode.NONE
            epoch = answer.member_epoch
            if answer.assignment is not None:
                (mine,) = answer.assignment.topic_partitions
                if mine.partitions == (0, 1, 2):
                    break
            await asyncio.sleep(0.05)
    assert epoch > joined.member_epoch
