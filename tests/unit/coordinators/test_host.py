"""The runtime of a shard: append, replay, answer after the commit, time, loading, the end."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from tests.support.partitions import (
    LOCAL,
    NOW_MS,
    PLENTY,
    SECOND,
    append,
    make_log,
    make_partition,
    state,
)
from tests.unit.coordinators.harness import Notes, active_host, error, make_host, note

from moldau.config.values.topic import TopicConfig
from moldau.coordinators import HostState, PendingRequest
from moldau.errors import ErrorCode, KafkaError
from moldau.outcome import Outcome, Record, Reply
from moldau.records.builder import build_batch
from moldau.records.control import ControlType, build_end_txn_marker
from moldau.records.reader import read_records
from moldau.records.record import Record as LogRecord
from moldau.replication import Partition
from moldau.testing.clock import ManualClock
from moldau.testing.disk import MemoryDisk
from moldau.wire.errors import DecodeError

SLICE = 200


def test_a_committed_request_is_answered_at_once_and_its_record_is_in_the_log() -> None:
    host = active_host(make_partition(LOCAL))
    assert note(host, b"a") == ("noted", b"a")
    assert host.shard.table == {b"a": b"v"}
    assert host.waiting == 0
    found = host.partition.log.read(0, PLENTY, 1)
    assert found is not None
    assert [(record.key, record.value) for record in read_records(found.read())] == [(b"a", b"v")]


def test_an_outcome_is_one_batch() -> None:
    host = active_host(make_partition(LOCAL))
    records = [Record(b"a", b"1"), Record(b"b", None)]
    host.submit(lambda _shard, token, _now: Outcome(list(records), [Reply(token, 1)]), error)
    found = host.partition.log.read(0, PLENTY, 2)
    assert found is not None
    assert [(one.key, one.value) for one in read_records(found.read())] == records


async def test_the_answer_waits_for_the_replicas() -> None:
    host = active_host(make_partition(LOCAL, SECOND))
    answer = note(host, b"a")
    assert host.shard.table == {b"a": b"v"}, "state is ahead of the commit"
    assert not answer.done()
    host.partition.read(1, PLENTY, follower_id=SECOND)
    assert await answer == ("noted", b"a")
    assert host.waiting == 0


async def test_an_answer_without_records_does_not_overtake_what_it_has_seen() -> None:
    host = active_host(make_partition(LOCAL, SECOND))
    first = note(host, b"a")
    second = asyncio.ensure_future(
        host.submit(lambda _shard, token, _now: Outcome.reply(token, "seen"), error)
    )
    assert not second.done()
    host.partition.read(1, PLENTY, follower_id=SECOND)
    assert await first == ("noted", b"a")
    assert await second == "seen"


async def test_replicas_that_do_not_follow_in_time_make_the_coordinator_unavailable() -> None:
    clock = ManualClock()
    host = active_host(make_partition(LOCAL, SECOND), clock)
    answer = note(host, b"a")
    clock.advance(5.0)
    assert await answer == ("error", ErrorCode.COORDINATOR_NOT_AVAILABLE)


def test_a_failed_append_undoes_and_answers_the_error() -> None:
    partition = make_partition(LOCAL, min_insync_replicas=2)
    host = active_host(partition)
    assert note(host, b"a") == ("undone", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert host.shard.undone == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert host.shard.table == {}


def test_a_failed_append_answers_whom_the_shard_forgot() -> None:
    host = active_host(make_partition(LOCAL, min_insync_replicas=2))
    answer = host.submit(
        lambda _shard, token, _now: Outcome([Record(b"a", b"")], [Reply(token, "fine")]), error
    )
    assert answer == ("error", ErrorCode.COORDINATOR_NOT_AVAILABLE)


def test_a_batch_that_is_too_large_is_an_unknown_server_error() -> None:
    host = active_host(make_partition(LOCAL))
    huge = b"x" * 2_000_000
    answer = host.submit(
        lambda _shard, token, _now: Outcome([Record(b"a", huge)], [Reply(token, "fine")]), error
    )
    assert answer == ("error", ErrorCode.UNKNOWN_SERVER_ERROR)
    assert host.partition.log.log_end_offset == 0


async def test_a_fault_in_the_shard_fails_the_one_request() -> None:
    host = active_host(make_partition(LOCAL))

    def broken(_shard: Notes, _token: PendingRequest, _now_ms: int) -> Outcome:
        raise RuntimeError("bug")

    assert host.submit(broken, error) == ("error", ErrorCode.UNKNOWN_SERVER_ERROR)
    assert note(host, b"a") == ("noted", b"a")


async def test_a_parked_request_is_answered_by_a_later_outcome() -> None:
    host = active_host(make_partition(LOCAL))
    parked: list[object] = []

    def park(_shard: Notes, token: PendingRequest, _now_ms: int) -> Outcome:
        parked.append(token)
        return Outcome()

    waiting = host.submit(park, error)
    assert host.waiting == 1
    host.submit(
        lambda _shard, token, _now: Outcome(replies=[Reply(token, 2), Reply(parked[0], 1)]), error
    )
    assert await waiting == 1
    assert host.waiting == 0


async def test_closing_sends_everybody_away() -> None:
    host = active_host(make_partition(LOCAL, SECOND))
    host.shard.deadline = 1
    answer = note(host, b"a")
    host.close()
    assert await answer == ("error", ErrorCode.NOT_COORDINATOR)
    assert note(host, b"b") == ("error", ErrorCode.NOT_COORDINATOR)
    host.partition.read(1, PLENTY, follower_id=SECOND)


async def test_lost_leadership_answers_not_coordinator() -> None:
    host = active_host(make_partition(LOCAL, SECOND))
    answer = note(host, b"a")
    host.partition.apply(state(leader=SECOND, epoch=1, isr=(LOCAL, SECOND)))
    assert await answer == ("error", ErrorCode.NOT_COORDINATOR)


def test_who_leads_again_writes_nothing_by_what_it_knew_before() -> None:
    """Others may have led meanwhile: a host is for one leadership, also before it is closed."""
    host = active_host(make_partition(LOCAL))
    host.partition.apply(state(leader=SECOND, epoch=1))
    host.partition.apply(state(epoch=2))
    assert note(host, b"a") == ("error", ErrorCode.NOT_COORDINATOR)
    host.run(lambda _shard, _now: Outcome([Record(b"b", b"v")]))
    assert host.partition.log.log_end_offset == 0
    assert host.shard.table == {}


async def test_the_answer_waits_for_the_disk_where_flush_messages_says_so() -> None:
    log = make_log(replace(TopicConfig(), flush_messages=1))
    host = active_host(Partition(LOCAL, log, state()))
    answer = note(host, b"a")
    assert not answer.done()
    log.durability.flush(NOW_MS)
    assert await answer == ("noted", b"a")


def test_background_work_may_be_larger_than_a_batch() -> None:
    host = active_host(make_partition(LOCAL))
    records = [Record(b"%d" % number, b"x" * 1000) for number in range(3000)]
    host.run(lambda _shard, _now: Outcome(list(records)))
    assert host.partition.log.log_end_offset == 3000
    assert len(host.shard.table) == 3000


# Time --------------------------------------------------------------------------------------------


def test_the_shard_is_called_at_its_deadline() -> None:
    clock = ManualClock()
    host = active_host(make_partition(LOCAL), clock)
    start = clock.now_ms()
    host.shard.deadline = start + 500
    note(host, b"a")
    clock.advance(0.4)
    assert host.shard.due == []
    clock.advance(0.1)
    assert host.shard.due == [start + 500]
    assert clock.pending == 0


def test_an_earlier_deadline_replaces_the_timer_and_a_later_one_does_not() -> None:
    clock = ManualClock()
    host = active_host(make_partition(LOCAL), clock)
    start = clock.now_ms()
    for delay in (500, 900, 200):
        host.shard.deadline = start + delay
        note(host, b"a")
    clock.advance(0.2)
    assert host.shard.due == [start + 200]


@pytest.mark.parametrize("hours", [-1, 1])
@pytest.mark.parametrize("busy", [True, False])
def test_a_clock_that_is_set_neither_ends_nor_prolongs_what_is_awaited(
    hours: int, busy: bool
) -> None:
    clock = SettableClock()
    host = active_host(make_partition(LOCAL), clock)
    host.shard.deadline = clock.now_ms() + 10_000
    note(host, b"a")
    clock.advance(5)
    clock.set_by(hours * 3_600_000)
    if busy:
        note(host, b"b")
    clock.advance(4.9)
    assert host.shard.due == []
    clock.advance(0.2)
    (due,) = host.shard.due
    assert 0 <= clock.now_ms() - due <= 200


def test_a_clock_that_drifts_a_little_is_followed() -> None:
    clock = SettableClock()
    host = active_host(make_partition(LOCAL), clock)
    deadline = host.shard.deadline = clock.now_ms() + 10_000
    note(host, b"a")
    clock.set_by(100)
    note(host, b"b")
    assert host.shard.deadline == deadline


class SettableClock(ManualClock):
    """One whose wall-clock time can be set, as an operator or NTP does."""

    def __init__(self) -> None:
        super().__init__()
        self._set_by_ms = 0

    def set_by(self, by_ms: int) -> None:
        self._set_by_ms += by_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._set_by_ms


def test_a_closed_host_has_no_timer() -> None:
    clock = ManualClock()
    host = active_host(make_partition(LOCAL), clock)
    host.shard.deadline = clock.now_ms() + 500
    note(host, b"a")
    host.close()
    assert clock.pending == 0


async def test_what_is_due_may_answer_parked_requests_and_write() -> None:
    clock = ManualClock()
    host = active_host(make_partition(LOCAL), clock)

    def park(shard: Notes, token: PendingRequest, now_ms: int) -> Outcome:
        shard.deadline = now_ms + 100
        shard.at_deadline = lambda _now: Outcome([Record(b"due", b"")], [Reply(token, "late")])
        return Outcome()

    answer = host.submit(park, error)
    clock.advance(0.1)
    assert await answer == "late"
    assert b"due" in host.shard.table


# Loading -----------------------------------------------------------------------------------------


def write(partition: Partition, *records: tuple[bytes, bytes | None], **settings: Any) -> None:
    batch = build_batch([LogRecord(0, 1, key, value) for key, value in records], **settings)
    partition.log.append_as_follower(
        memoryview(_at(partition, batch)), partition.log.log_end_offset
    )


def _at(partition: Partition, batch: bytearray) -> bytearray:
    batch[:8] = partition.log.log_end_offset.to_bytes(8, "big")
    return batch


async def test_requests_are_refused_until_the_log_is_replayed() -> None:
    partition = make_partition(LOCAL)
    for number in range(20):
        write(partition, (b"k%d" % number, b"v"))
    host = make_host(partition)
    assert note(host, b"a") == ("error", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    loading = asyncio.ensure_future(host.load(SLICE))
    await asyncio.sleep(0)
    assert host.state is HostState.LOADING
    assert note(host, b"a") == ("error", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    await loading
    assert host.shard.loaded
    assert host.shard.replayed == [b"k%d" % number for number in range(20)]
    assert note(host, b"a") == ("noted", b"a")


async def test_the_last_record_of_a_key_wins() -> None:
    partition = make_partition(LOCAL)
    write(partition, (b"a", b"1"), (b"b", b"1"))
    write(partition, (b"a", b"2"), (b"b", None))
    host = make_host(partition)
    await host.load(SLICE)
    assert host.shard.table == {b"a": b"2", b"b": None}


async def test_what_a_transaction_wrote_counts_from_its_commit_on() -> None:
    partition = make_partition(LOCAL)
    for producer_id, key in ((1, b"committed"), (2, b"aborted"), (3, b"undecided")):
        write(
            partition,
            (key, b"v"),
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
    write(partition, (b"plain", b"v"))
    for producer_id, decision in ((1, ControlType.COMMIT), (2, ControlType.ABORT)):
        marker = build_end_txn_marker(
            decision, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=1
        )
        partition.log.append_as_follower(memoryview(_at(partition, marker)), 1)
    host = make_host(partition)
    await host.load(SLICE)
    assert host.shard.replayed == [b"plain", b"committed"]


async def test_loading_stops_when_the_host_is_closed() -> None:
    partition = make_partition(LOCAL)
    for number in range(20):
        write(partition, (b"k%d" % number, b"v"))
    host = make_host(partition)
    loading = asyncio.ensure_future(host.load(SLICE))
    await asyncio.sleep(0)
    host.close()
    await loading
    assert len(host.shard.replayed) < 20
    assert not host.shard.loaded
    assert note(host, b"a") == ("error", ErrorCode.NOT_COORDINATOR)


async def test_a_log_that_cannot_be_read_closes_the_host() -> None:
    disk = MemoryDisk()
    partition = make_partition(LOCAL, disk=disk)
    append(partition, 1)
    partition.log.health.fail("disk on fire")
    host = make_host(partition)
    await host.load(SLICE)
    assert host.state is HostState.CLOSED


async def test_a_record_that_cannot_be_read_closes_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def replay(key: bytes, value: bytes | None) -> None:
        raise DecodeError("not what its version promises")

    partition = make_partition(LOCAL)
    write(partition, (b"a", b"1"))
    host = make_host(partition)
    monkeypatch.setattr(host.shard, "replay", replay)
    await host.load(SLICE)
    assert host.state is HostState.CLOSED


async def test_who_waits_is_given_up_in_the_order_in_which_they_came() -> None:
    host = active_host(make_partition(LOCAL))
    given_up: list[int] = []

    def give_up(number: int, _error: KafkaError) -> None:
        given_up.append(number)

    for number in range(20):
        host.submit(lambda _shard, _token, _now: Outcome(), partial(give_up, number))
    host.close()
    assert given_up == list(range(20))
