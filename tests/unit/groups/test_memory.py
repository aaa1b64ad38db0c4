"""What members of groups may take of a broker's memory, however they come."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.unit.groups.test_shard import CLIENT, MINUTE_MS, SESSION, Runner, message

from moldau.errors import ErrorCode
from moldau.groups.client_info import ClientInfo
from moldau.groups.memory import COUNTED_AT_ONCE, RECOUNT_MS, GroupMemory
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
    full = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if way is consumer_join else FULL
    codes = [way(runner, number) for number in range(60)]
    let_in = codes.index(full)
    assert 5 <= let_in < 50
    assert codes == [ErrorCode.NONE] * let_in + [full] * (60 - let_in)
    assert MOST // 2 < sum(runner.shard.footprints()) <= MOST
    runner.advance(2 * MINUTE_MS)  # sessions are over, and nobody came back
    assert sum(runner.shard.footprints()) == 0
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


def sync(runner: Runner, joined: Any, group: str, assignment: bytes) -> ErrorCode:
    request = message(
        ApiKey.SYNC_GROUP,
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": joined.member_id, "assignment": assignment}],
    )
    token = object()
    runner.act(runner.shard.sync_group(request, token, runner.now_ms, 5))
    code: ErrorCode = runner.answers[token].error_code
    return code


def test_assignments_count(runner: Runner) -> None:
    joined = runner.join("h")
    assert sync(runner, joined, "h", bytes(2 * MOST)) is FULL


def test_a_group_that_is_there_can_rebalance_when_the_memory_is_full(runner: Runner) -> None:
    member = runner.stable()
    fill(runner)
    again = runner.join("g", member.member_id)
    assert again.error_code is ErrorCode.NONE
    assert sync(runner, again, "g", bytes(4_000)) is ErrorCode.NONE


def test_a_static_member_comes_back_when_the_memory_is_full(runner: Runner) -> None:
    protocols = [SUBSCRIPTION]
    join(runner, "g", group_instance_id="i" * 9_000, protocols=protocols)
    runner.advance(0)
    fill(runner)
    other = join(runner, "g", group_instance_id="j" * 9_000, protocols=protocols)
    assert other.error_code is FULL
    again = join(runner, "g", group_instance_id="i" * 9_000, protocols=protocols)
    assert again is None or again.error_code is ErrorCode.NONE


def test_groups_that_only_have_offsets_keep_nobody_out(runner: Runner) -> None:
    for number in range(300):
        assert runner.commit(group=f"offsets of {number}") is ErrorCode.NONE
    assert sum(runner.shard.footprints()) == 0
    assert join_a_group(runner, 1) is ErrorCode.NONE


def test_names_without_members_and_offsets_count_until_they_go(runner: Runner) -> None:
    for number in range(20):
        member = runner.join(f"g{number}")
        runner.leave(member.member_id, f"g{number}")
    assert sum(runner.shard.footprints()) >= 20 * 2_000
    runner.advance(2 * MINUTE_MS)
    assert sum(runner.shard.footprints()) == 0


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
    assert 0.6 * taken < sum(runner.shard.footprints()) < 2 * taken


class Shard:
    def __init__(self, size: int, groups: int = 1) -> None:
        self.size = size
        self.groups = groups
        self.counts = 0
        self.looked_at = 0

    def footprints(self) -> Iterator[int]:
        self.counts += 1
        for _ in range(self.groups):
            self.looked_at += 1
            yield self.size


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


def test_very_many_are_counted_some_at_a_time() -> None:
    """Meanwhile a little more than is allowed may come in, and no more."""
    many = Shard(1, 5 * COUNTED_AT_ONCE)
    memory = GroupMemory(many.groups)
    memory.watch(many)
    size = many.groups // 20
    for _ in range(20):
        assert memory.has_room(size, 0)
    looked_at, admitted = [], []
    for _ in range(6):
        before = many.looked_at
        admitted.append(memory.has_room(size, 0))
        looked_at.append(many.looked_at - before)
    assert looked_at == [COUNTED_AT_ONCE] * 5 + [0]
    assert admitted == [True] * 5 + [False]
