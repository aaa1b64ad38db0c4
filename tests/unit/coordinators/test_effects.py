"""Effects and replies: nobody hears of anything before it is committed, and everybody in order."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest
from tests.support.logs import records_of
from tests.support.partitions import LOCAL, NOW_MS, PLENTY, SECOND, make_log, make_partition, state
from tests.unit.coordinators.harness import (
    COMMIT_TIMEOUT_MS,
    Notes,
    active_host,
    error,
    make_host,
    note,
)

from moldau.config.values.topic import TopicConfig
from moldau.coordinators import ShardHost
from moldau.errors import ErrorCode
from moldau.outcome import Effect, Outcome, Record
from moldau.replication import Partition
from moldau.testing.clock import ManualClock


class Started:
    """Effects, and the order in which they started."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, name: str) -> Effect:
        return lambda: self.names.append(name)


def follow(host: ShardHost[Notes], end_offset: int) -> None:
    """The other replica has everything up to ``end_offset``."""
    host.partition.read(end_offset, PLENTY, follower_id=SECOND)


def flushing_host(*isr: int) -> ShardHost[Notes]:
    """On a log whose batches count when they are durable."""
    log = make_log(replace(TopicConfig(), flush_messages=1))
    return active_host(Partition(LOCAL, log, state(isr=isr or (LOCAL,))))


def test_an_effect_of_what_is_committed_starts_at_once() -> None:
    started = Started()
    host = active_host(make_partition(LOCAL))
    assert note(host, b"a", started("a")) == ("noted", b"a")
    assert started.names == ["a"]


async def test_an_effect_waits_for_the_commit_and_starts_once() -> None:
    started = Started()
    host = active_host(make_partition(LOCAL, SECOND))
    answer = note(host, b"a", started("a"))
    assert started.names == []
    follow(host, 1)
    assert started.names == ["a"]
    assert await answer == ("noted", b"a")
    note(host, b"b")
    follow(host, 2)
    assert started.names == ["a"]


async def test_replies_and_effects_come_in_the_order_of_their_batches() -> None:
    started = Started()
    host = active_host(make_partition(LOCAL, SECOND))
    answers = [note(host, b"%d" % n, started(f"{n}")) for n in range(5)]
    done: list[int] = []
    for number, answer in enumerate(answers):
        answer.add_done_callback(lambda _, number=number: done.append(number))
    follow(host, 2)
    assert started.names == ["0", "1"]
    follow(host, 5)
    assert started.names == ["0", "1", "2", "3", "4"]
    await asyncio.gather(*answers)
    assert done == [0, 1, 2, 3, 4]


async def test_an_effect_without_records_waits_for_what_is_before_it() -> None:
    started = Started()
    host = active_host(make_partition(LOCAL, SECOND))
    note(host, b"a")
    host.run(lambda _shard, _now: Outcome(effects=[started("later")]))
    assert started.names == []
    follow(host, 1)
    assert started.names == ["later"]


async def test_an_effect_of_a_failed_append_never_starts() -> None:
    started = Started()
    host = active_host(make_partition(LOCAL, min_insync_replicas=2))
    answer = note(host, b"a", started("a"))
    assert answer == ("undone", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    host.partition.apply(state(isr=(LOCAL, SECOND), partition_epoch=1))
    note(host, b"b")
    follow(host, 1)
    assert started.names == []


async def test_an_effect_outlasts_the_patience_of_its_client() -> None:
    started, clock = Started(), ManualClock()
    host = active_host(make_partition(LOCAL, SECOND), clock)
    answer = note(host, b"a", started("a"))
    clock.advance(5.0)
    assert await answer == ("error", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert started.names == []
    follow(host, 1)
    assert started.names == ["a"]


async def test_what_was_given_up_does_not_hold_up_what_follows() -> None:
    clock = ManualClock()
    host = active_host(make_partition(LOCAL, SECOND), clock)
    first = note(host, b"a")
    clock.advance(3.0)
    second = note(host, b"b")
    clock.advance(2.0)
    assert await first == ("error", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    follow(host, 2)
    assert await second == ("noted", b"b")
    assert clock.pending == 0


@pytest.mark.parametrize("lose", ["leadership", "host"])
async def test_an_effect_of_a_coordinator_that_lost_its_partition_never_starts(lose: str) -> None:
    started = Started()
    host = active_host(make_partition(LOCAL, SECOND))
    answer = note(host, b"a", started("a"))
    if lose == "host":
        host.close()
    else:
        host.partition.apply(state(leader=SECOND, epoch=1, isr=(LOCAL, SECOND)))
    assert await answer == ("error", ErrorCode.NOT_COORDINATOR)
    host.partition.apply(state(epoch=2, isr=(LOCAL,)))
    assert host.partition.high_watermark == 1
    assert started.names == []


async def test_too_few_replicas_refuse_the_reply_but_what_is_committed_later_has_its_effect() -> (
    None
):
    started, clock = Started(), ManualClock()
    host = active_host(make_partition(LOCAL, SECOND, min_insync_replicas=2), clock)
    answer = note(host, b"a", started("a"))
    host.partition.apply(state(isr=(LOCAL,), partition_epoch=1))
    clock.advance(COMMIT_TIMEOUT_MS / 1000)
    assert await answer == ("error", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert started.names == [], "nothing is committed by so few"
    host.partition.apply(state(isr=(LOCAL, SECOND), partition_epoch=2))
    follow(host, 1)
    assert started.names == ["a"]


async def test_nothing_is_heard_of_a_batch_before_it_is_flushed() -> None:
    started = Started()
    host = flushing_host()
    first, second = note(host, b"a", started("a")), note(host, b"b", started("b"))
    read = asyncio.ensure_future(
        host.submit(lambda _shard, token, _now: Outcome.reply(token, "seen"), error)
    )
    assert started.names == []
    assert not any(answer.done() for answer in (first, second, read))
    host.partition.log.durability.flush(NOW_MS)
    assert started.names == ["a", "b"]
    assert await first == ("noted", b"a")
    assert await second == ("noted", b"b")
    assert await read == "seen"


async def test_a_batch_that_is_not_on_disk_has_no_effect() -> None:
    started = Started()
    host = flushing_host()
    answer = note(host, b"a", started("a"))
    host.partition.log.health.fail("the disk is gone")
    assert await answer == ("error", ErrorCode.NOT_COORDINATOR)
    assert started.names == []


async def test_a_flush_that_ends_after_the_host_says_nothing() -> None:
    host = flushing_host(LOCAL, SECOND)
    answer = note(host, b"a")
    host.close()
    host.partition.log.durability.flush(NOW_MS)
    assert await answer == ("error", ErrorCode.NOT_COORDINATOR)


async def test_an_effect_may_be_a_task_and_have_the_shard_note_its_end() -> None:
    tasks: list[Coroutine[Any, Any, None]] = []
    host = active_host(make_partition(LOCAL), spawn=tasks.append)

    async def tell_others() -> None:
        await asyncio.sleep(0)
        host.run(lambda _shard, _now: Outcome([Record(b"told", b"yes")]))

    note(host, b"a", tell_others)
    (task,) = tasks
    await task
    assert host.shard.table == {b"a": b"v", b"told": b"yes"}


async def test_an_effect_that_fails_keeps_none_of_the_others_from_starting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    started = Started()

    def broken() -> None:
        raise RuntimeError("a bug")

    host = active_host(make_partition(LOCAL))
    assert note(host, b"a", broken, started("a")) == ("noted", b"a")
    assert started.names == ["a"]
    assert len(records_of(caplog, "moldau.coordinators")) == 1


async def test_after_a_failover_what_was_not_noted_as_done_starts_again() -> None:
    started = Started()
    partition = make_partition(LOCAL, SECOND)
    before = active_host(partition)
    answer = note(before, b"a", started("by the first"))
    before.close()
    assert await answer == ("error", ErrorCode.NOT_COORDINATOR)
    after = make_host(partition)
    after.shard.when_loaded = lambda: Outcome(
        effects=[started(f"{key.decode()} by the second") for key in after.shard.table]
    )
    await after.load(PLENTY)
    assert started.names == [], "what was replayed is not committed yet"
    follow(after, 1)
    assert started.names == ["a by the second"]
