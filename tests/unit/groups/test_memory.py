"""What members of groups may take of a broker's memory, however they come."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.groups.test_shard import CLIENT, MINUTE_MS, SESSION, Runner, message

from moldau.errors import ErrorCode
from moldau.groups.client_info import ClientInfo
from moldau.groups.memory import RECOUNT_MS, GroupMemory
from moldau.wire.api import ApiKey

FULL = ErrorCode.COORDINATOR_NOT_AVAILABLE
MOST = 200_000
ANOTHER = ClientInfo("c" * 10_000, "/127.0.0.1")


@pytest.fixture
def runner() -> Runner:
    return Runner(memory=GroupMemory(MOST))


def join(
    runner: Runner, group: str, client: ClientInfo = CLIENT, version: int = 9, **fields: Any
) -> Any:
    request = message(
        ApiKey.JOIN_GROUP,
        **{
            "group_id": group,
            "session_timeout": SESSION,
            "rebalance_timeout": SESSION,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
            **fields,
        },
    )
    token = object()
    runner.act(runner.shard.join_group(request, token, runner.now_ms, client, version))
    return runner.answers.get(token)


def ask_for_id(runner: Runner, number: int) -> ErrorCode:
    code: ErrorCode = join(runner, "g", ANOTHER).error_code
    return ErrorCode.NONE if code is ErrorCode.MEMBER_ID_REQUIRED else code


def join_a_group(runner: Runner, number: int) -> ErrorCode:
    protocols = [{"name": "range", "metadata": bytes(9_000)}]
    answer = join(runner, f"g{number}", version=3, protocols=protocols)
    return ErrorCode.NONE if answer is None else answer.error_code


def join_as_static(runner: Runner, number: int) -> ErrorCode:
    answer = join(runner, "g", group_instance_id=f"{number}" * 5_000)
    return ErrorCode.NONE if answer is None else answer.error_code


def join_with_long_protocols(runner: Runner, number: int) -> ErrorCode:
    protocols = [{"name": "range", "metadata": b""}, {"name": f"{number}" * 9_000, "metadata": b""}]
    answer = join(runner, "g", version=3, protocols=protocols)
    return ErrorCode.NONE if answer is None else answer.error_code


def consumer_join(runner: Runner, number: int) -> ErrorCode:
    names = ["t", *(f"{number}-{name}" for name in range(100))]
    answer = runner.consumer_join("g", f"m{number}", subscribed_topic_names=names)
    code: ErrorCode = answer.error_code
    return code


WAYS = [ask_for_id, join_a_group, join_as_static, join_with_long_protocols, consumer_join]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_nobody_fills_the_memory(runner: Runner, way: Callable[[Runner, int], ErrorCode]) -> None:
    codes = [way(runner, number) for number in range(60)]
    let_in = codes.index(FULL)
    assert 5 <= let_in < 50
    assert codes == [ErrorCode.NONE] * let_in + [FULL] * (60 - let_in)
    assert MOST // 2 < runner.shard.footprint() <= MOST
    runner.advance(2 * MINUTE_MS)  # sessions are over, and nobody came back
    assert runner.shard.footprint() == 0
    assert way(runner, 99) is ErrorCode.NONE


def fill(runner: Runner) -> None:
    for number in range(60):
        join_a_group(runner, number)
    assert join_a_group(runner, 60) is FULL


def test_who_is_in_may_join_again_and_leave(runner: Runner) -> None:
    member = runner.stable()
    fill(runner)
    again = join(runner, "g", member_id=member.member_id, protocols=[SUBSCRIPTION], version=3)
    assert again.error_code is ErrorCode.NONE
    more = [SUBSCRIPTION, {"name": "more", "metadata": bytes(MOST)}]
    refused = join(runner, "g", member_id=member.member_id, protocols=more, version=3)
    assert refused.error_code is FULL
    runner.leave(member.member_id)
    assert runner.shard._classic.member("g", member.member_id) is None


SUBSCRIPTION = {"name": "range", "metadata": b"\x00\x01\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x00"}


def test_a_consumer_that_lives_on_is_not_disturbed(runner: Runner) -> None:
    joined = runner.consumer_join()
    fill(runner)
    beat = message(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        group_id="g",
        member_id="me",
        member_epoch=joined.member_epoch,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert runner.consumer_heartbeat(beat).error_code is ErrorCode.NONE
    assert runner.consumer_leave().error_code is ErrorCode.NONE


def test_assignments_count(runner: Runner) -> None:
    joined = runner.join("h")
    request = message(
        ApiKey.SYNC_GROUP,
        group_id="h",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": joined.member_id, "assignment": bytes(MOST)}],
    )
    token = object()
    runner.act(runner.shard.sync_group(request, token, runner.now_ms, 5))
    assert runner.answers[token].error_code is FULL


def test_groups_that_only_have_offsets_keep_nobody_out(runner: Runner) -> None:
    for number in range(300):
        assert runner.commit(group=f"offsets of {number}") is ErrorCode.NONE
    assert runner.shard.footprint() == 0
    assert join_a_group(runner, 1) is ErrorCode.NONE


def test_names_without_members_and_offsets_count_until_they_go(runner: Runner) -> None:
    for number in range(20):
        member = runner.join(f"g{number}")
        runner.leave(member.member_id, f"g{number}")
    assert runner.shard.footprint() >= 20 * 2_000
    runner.advance(2 * MINUTE_MS)
    assert runner.shard.footprint() == 0


def test_protocols_that_nobody_supports_any_more_are_forgotten(runner: Runner) -> None:
    member = runner.stable()
    for number in range(5):
        other = {"name": f"protocol {number}", "metadata": b""}
        join(runner, "g", member_id=member.member_id, protocols=[SUBSCRIPTION, other], version=3)
        runner.advance(0)
    group = runner.shard._classic.get("g")
    assert group is not None
    assert set(group._supported) == {"range", "protocol 4"}


def test_all_shards_of_a_broker_share_it_while_they_are_there() -> None:
    memory = GroupMemory(MOST)
    one, other = Runner(memory=memory), Runner(memory=memory)
    fill(one)
    assert join_a_group(other, 1) is FULL
    del one
    gc.collect()
    other.now_ms += RECOUNT_MS
    assert join_a_group(other, 1) is ErrorCode.NONE


def test_what_is_counted_is_about_what_is_taken() -> None:
    runner = Runner()
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(300):
            ask_for_id(runner, number)
            join_with_long_protocols(runner, number)
            join_as_static(runner, number)
            join(runner, f"g{number}", version=3)
        for number in range(50):
            consumer_join(runner, number)
        runner.log.clear()
        runner.answers.clear()
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0.6 * taken < runner.shard.footprint() < 2 * taken


class Shard:
    def __init__(self, size: int) -> None:
        self.size = size
        self.counts = 0

    def footprint(self) -> int:
        self.counts += 1
        return self.size


def test_it_is_counted_rarely() -> None:
    memory, shard = GroupMemory(1_000), Shard(0)
    memory.watch(shard)
    assert all(memory.has_room(100, 0) for _ in range(10))
    assert shard.counts == 0
    assert memory.has_room(100, 0), "all others have gone"
    assert shard.counts == 1
    shard.size = 950
    admitted = [memory.has_room(100, now_ms) for now_ms in range(100)]
    assert admitted == [True] * 9 + [False] * 91
    assert shard.counts == 2, "not again for each of them"
    shard.size = 100
    assert memory.has_room(100, 10 + RECOUNT_MS)
