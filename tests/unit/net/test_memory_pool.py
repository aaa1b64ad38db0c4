"""Connections that share a little memory."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.limited_memory import Broker, EagerPeer, Peer
from tests.support.logs import records_of
from tests.support.memory_network import frame

from moldau.machine.network import Part
from moldau.net.connection import Pending, ServerConnection
from moldau.net.frames import (
    KIB,
    LARGE_STEP,
    MIB,
    SCRATCH_SIZE,
    SMALL_PART,
)
from moldau.net.memory_pool import HELD_SECONDS, STUCK_SECONDS, UNFINISHED_SECONDS

SMALL = SCRATCH_SIZE // SMALL_PART
UNFINISHED = frame(bytes(MIB))[: 2 * SMALL]


# What counts -------------------------------------------------------------------------------------


def test_requests_that_come_whole_take_no_memory() -> None:
    broker = Broker(MIB)
    peer = broker.connect()
    for size in (0, 10, SMALL, SCRATCH_SIZE - 4):
        peer.send(frame(bytes(size)))
        assert broker.memory.used == 0
    assert len(peer.answers) == 4


@pytest.mark.parametrize("sent", [1, 3, 4, 5, 100, 5000, SCRATCH_SIZE, 300 * KIB])
@pytest.mark.parametrize("size", [200, 6000, SCRATCH_SIZE, 400 * KIB])
def test_what_is_unfinished_counts_until_it_is_executed(sent: int, size: int) -> None:
    broker = Broker(100 * MIB)
    peer = broker.connect()
    request = frame(bytes(size))
    sent = min(sent, size)
    peer.send(frame(b"whole") + request[:sent])
    assert sent <= broker.memory.used <= max(4 * sent, SCRATCH_SIZE) + LARGE_STEP
    assert broker.memory.available == 100 * MIB - broker.memory.used
    peer.send(request[sent:])
    assert len(peer.answers) == 2
    assert broker.memory.used == 0


def test_what_waits_behind_a_parked_request_counts() -> None:
    parked = Pending()
    broker = Broker(MIB, handler=lambda *_: parked)
    peer = broker.connect()
    peer.send(frame(b"parked") + frame(bytes(1000)) * 3)
    assert broker.memory.used == 3 * 1004
    peer.receiver.connection_lost(None)
    assert broker.memory.used == 0


@pytest.mark.parametrize("end", ["lost", "finished", "refused", "aborted"])
@pytest.mark.parametrize("sent", [10_000, MIB])
def test_the_end_of_a_connection_gives_its_memory_back(end: str, sent: int) -> None:
    broker = Broker(sent)
    peer, other = broker.filled(), broker.connect()
    rest = other.send(frame(bytes(2 * MIB)))
    assert other.waits
    if end == "lost":
        peer.receiver.connection_lost(None)
    elif end == "finished":
        peer.receiver.finish()
    elif end == "refused":
        peer.receiver.refuse(RuntimeError("for this test"))
    else:
        peer.receiver.abort()
        peer.receiver.connection_lost(None)
    broker.run()
    assert other.send(rest) == b""
    assert other.answers == [bytes(2 * MIB)]
    assert broker.memory.used == 0


def test_a_handler_that_closes_the_connection_gives_back_the_frame_it_looks_at() -> None:
    seen: list[int] = []

    def close(connection: ServerConnection, request: memoryview) -> Sequence[Part] | None:
        connection.close()
        assert broker.memory.used
        seen.append(len(request))
        return None

    broker = Broker(10 * MIB, handler=close)
    broker.connect().send(frame(bytes(MIB)))
    assert seen == [MIB]
    assert broker.memory.used == 0


# Who waits ---------------------------------------------------------------------------------------


def test_who_finds_no_memory_waits_and_goes_on_in_order() -> None:
    broker = Broker(10_000)  # so little that each request goes over the limit
    done = broker.filled()
    others = [broker.connect() for _ in range(4)]
    rests = [peer.send(frame(bytes(200 * KIB))) for peer in others]
    assert broker.memory.waiting == 4
    assert not any(peer.reading for peer in others)
    done.receiver.connection_lost(None)
    for number, (peer, rest) in enumerate(zip(others, rests, strict=True)):
        broker.run()
        assert [other.waits for other in others] == [False] * (number + 1) + [True] * (3 - number)
        assert peer.send(rest) == b""
        assert peer.answers == [bytes(200 * KIB)]
    assert broker.memory.used == 0


def test_who_comes_later_does_not_overtake_who_waits() -> None:
    broker = Broker(MIB)
    broker.filled()
    large, little = broker.connect(), broker.connect()
    large.send(frame(bytes(MIB)))
    assert large.waits
    broker.memory.size = broker.memory.used + 100 * KIB
    little.send(frame(bytes(10_000)))
    assert little.waits


def test_who_needs_more_for_what_it_has_begun_goes_first() -> None:
    broker = Broker(100 * KIB)
    begun, over, later = (broker.connect() for _ in range(3))
    request = frame(bytes(300 * KIB))
    assert begun.send(request[: 20 * KIB]) == b""
    assert over.send(frame(bytes(200 * KIB))[:5000]) == b""
    later.send(frame(bytes(200 * KIB)))
    begun.send(request[20 * KIB :])
    assert later.waits
    assert begun.waits
    over.receiver.connection_lost(None)
    assert later.waits
    assert not begun.waits


@pytest.mark.parametrize("first", [2, 4])
def test_who_had_a_few_bytes_without_asking_has_not_begun(first: int) -> None:
    broker = Broker(10_000)
    done = broker.filled()
    others = [broker.connect() for _ in range(2)]
    request = frame(bytes(200 * KIB))
    others[0].send(request)
    others[1].send(request[:first])
    others[1].send(request[first:])
    done.receiver.connection_lost(None)
    assert [peer.waits for peer in others] == [False, True]


def test_who_goes_on_does_not_read_over_the_bytes_of_who_gives_memory_back() -> None:
    broker = Broker(MIB)
    broker.filled()
    giving, waiting = broker.connect(), broker.connect(EagerPeer)
    body = bytes(range(250)) * 12
    giving.send(frame(body)[:1000])
    waiting.unread = waiting.send(frame(bytes(60_000)))
    assert waiting.waits
    broker.memory.size = broker.memory.used + 60_000 - SMALL  # less than is missing
    giving.send(frame(body)[1000:] + frame(body)[:900])
    broker.run()
    assert waiting.answers == [bytes(60_000)]
    giving.send(frame(body)[900:])
    assert giving.answers == [body, body]


def test_one_request_larger_than_all_the_memory_gets_through() -> None:
    broker = Broker(10_000)
    peer = broker.connect()
    assert peer.send(frame(bytes(3 * MIB))) == b""
    assert peer.answers == [bytes(3 * MIB)]
    assert broker.memory.used == 0
    assert not broker.memory.is_depleted


def test_only_one_at_a_time_goes_over_the_limit() -> None:
    broker = Broker(MIB)
    request = frame(bytes(3 * MIB))
    within, over = broker.connect(), broker.connect()
    for peer in (within, over):
        assert peer.send(request[: 400 * KIB]) == b""
    rest = within.send(request[400 * KIB :])
    assert within.waits
    assert over.send(request[400 * KIB :]) == b""
    assert over.answers == [bytes(3 * MIB)]
    broker.run()
    assert within.send(rest) == b""
    assert within.answers == [bytes(3 * MIB)]


def test_nobody_goes_over_the_limit_while_what_threads_work_on_takes_all_of_it() -> None:
    working: list[tuple[Pending, int]] = []

    def work(_connection: ServerConnection, request: memoryview) -> Pending:
        working.append((Pending(), len(request)))
        broker.memory.count(len(request))
        return working[-1][0]

    broker = Broker(MIB, handler=work)
    for _ in range(20):
        broker.connect().unread = frame(bytes(300 * KIB))
    for done in range(20):
        for peer in broker.peers:
            peer.unread = peer.send(peer.unread)
            broker.run()
        assert broker.memory.used < 2 * MIB + 512 * KIB
        pending, size = working[done]
        broker.memory.count(-size)
        pending.complete([frame(b"done")])
        broker.run()
    assert all(peer.answers == [b"done"] for peer in broker.peers)
    assert broker.memory.used == 0


def test_small_requests_are_served_while_there_is_no_memory() -> None:
    broker = Broker(MIB)
    broker.filled()
    waiting = broker.connect()
    waiting.send(frame(bytes(MIB)))
    peer = broker.connect()
    for size in (0, 100, SMALL - 4):
        request = frame(bytes(size))
        for at in range(0, len(request), 1000):
            peer.send(request[at : at + 1000])
            assert not peer.waits
    peer.send(frame(b"whole") * 10)
    assert len(peer.answers) == 13
    assert waiting.waits


def test_while_there_is_no_memory_each_connection_takes_only_a_little() -> None:
    broker = Broker(MIB)
    broker.filled()
    waiting = broker.connect()
    waiting.send(frame(bytes(MIB)))
    for before in (b"", frame(b"small")):
        for size in (SMALL, SCRATCH_SIZE, MIB):
            peer = broker.connect()
            peer.send(before[:5])
            rest = peer.send(before[5:] + frame(bytes(size)))
            assert peer.waits
            assert peer.held <= SMALL
            assert len(rest) == 4 + size - peer.held


def test_the_time_without_memory_is_counted() -> None:
    broker = Broker(MIB)
    first = broker.filled()
    broker.pass_time(5)
    assert broker.memory.depleted_ms == 0, "nobody waits"
    other = broker.connect()
    other.send(frame(bytes(MIB)))
    broker.pass_time(3)
    assert broker.memory.depleted_ms == 3000
    first.receiver.connection_lost(None)
    broker.pass_time(3)
    assert broker.memory.depleted_ms == 3000
    assert broker.clock.pending == 0


sizes = st.one_of(
    st.integers(0, 200), st.sampled_from([1019, 1020, 1024, 5000]), st.integers(0, 600 * KIB)
)


@settings(deadline=None)
@given(
    st.lists(st.lists(sizes, min_size=1, max_size=5), min_size=2, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 100_000)), max_size=60),
    st.integers(1, MIB),
)
def test_all_who_send_are_served_in_the_end_and_memory_stays_bounded(
    sizes_of: list[list[int]], steps: list[tuple[int, int]], size: int
) -> None:
    broker = Broker(size, scratch_size=KIB)
    bodies = [
        [bytes([peer, index]) * (size // 2) for index, size in enumerate(sizes)]
        for peer, sizes in enumerate(sizes_of)
    ]
    largest = max(len(body) for peer in bodies for body in peer)
    bound = size + 4 + largest + LARGE_STEP + len(bodies) * KIB
    streams = [b"".join(map(frame, peer_bodies)) for peer_bodies in bodies]
    peers = [broker.connect() for _ in streams]

    def step(peer: int, nbytes: int) -> None:
        unread = peers[peer].send(streams[peer][:nbytes])
        streams[peer] = unread + streams[peer][nbytes:]
        assert broker.memory.used <= bound
        broker.run()
        assert broker.memory.used <= bound

    for peer, nbytes in steps:
        if peer < len(streams):
            step(peer, nbytes)
    while any(streams):
        left = sum(map(len, streams))
        for peer in range(len(streams)):
            step(peer, 50_000)
        assert sum(map(len, streams)) < left, "nobody goes on"
    assert [peer.answers for peer in peers] == bodies
    assert broker.memory.used == 0
    assert broker.memory.waiting == 0
    assert broker.clock.pending == 0


# Who lets memory lie -----------------------------------------------------------------------------


def drip(peer: Peer) -> None:
    assert peer.send(b"x") == b""


def test_who_drips_is_dropped_with_one_line_when_others_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = Broker(MIB)
    dripping, waiting = broker.filled(), broker.connect()
    rest = waiting.send(frame(bytes(MIB)))
    for _ in range(UNFINISHED_SECONDS):
        broker.pass_time(1)
        drip(dripping)
        assert waiting.waits
    broker.pass_time(1)
    assert dripping.aborted
    assert waiting.send(rest) == b""
    assert waiting.answers == [bytes(MIB)]
    assert broker.memory.used == 0
    (line,) = records_of(caplog, "moldau.net")
    assert dripping.peer in line.getMessage()
    assert "queued.max.request.bytes" in line.getMessage()


@pytest.mark.parametrize("size", [200, 60_000])
def test_bytes_that_drip_do_not_make_a_frame_younger(size: int) -> None:
    broker = Broker(100)
    dripping, *others = (broker.connect() for _ in range(3))
    dripping.send(frame(bytes(size))[:50])
    for peer in others:
        peer.send(UNFINISHED)
    assert broker.memory.waiting
    for _ in range(UNFINISHED_SECONDS):
        drip(dripping)
        broker.pass_time(1)
    assert not dripping.aborted
    drip(dripping)
    broker.pass_time(1)
    assert dripping.aborted


def test_without_anybody_who_waits_it_may_take_as_long_as_it_likes() -> None:
    broker = Broker(MIB)
    dripping = broker.filled()
    broker.pass_time(1000)
    assert not dripping.aborted
    waiting = broker.connect()
    waiting.send(frame(bytes(MIB)))
    broker.pass_time(UNFINISHED_SECONDS)
    assert not dripping.aborted, "the time counts from when others wait"
    broker.pass_time(1)
    assert dripping.aborted


def test_who_waits_does_not_grow_older() -> None:
    broker = Broker(MIB)
    dripping, waiting = broker.filled(), broker.connect()
    waiting.send(frame(bytes(MIB)))
    broker.pass_time(UNFINISHED_SECONDS + 1)
    assert dripping.aborted
    assert not waiting.waits
    broker.filled()
    broker.connect().send(frame(bytes(MIB)))
    assert broker.memory.waiting
    broker.pass_time(UNFINISHED_SECONDS)
    assert not waiting.aborted
    broker.pass_time(1)
    assert waiting.aborted


def test_no_more_are_dropped_than_need_be_and_the_oldest_first() -> None:
    broker = Broker(4 * MIB)
    dripping = [broker.connect() for _ in range(4)]
    for peer in dripping:
        peer.send(frame(bytes(3 * MIB))[: 256 * KIB])
    assert broker.memory.used == 4 * MIB
    over, waiting = broker.connect(), broker.connect()
    over.send(frame(bytes(10_000))[:5000])
    rest = waiting.send(frame(bytes(500 * KIB)))
    assert waiting.waits
    broker.pass_time(UNFINISHED_SECONDS + 1)
    assert [peer.aborted for peer in [*dripping, over]] == [True] + [False] * 4
    assert waiting.send(rest) == b""
    assert waiting.answers == [bytes(500 * KIB)]


def test_with_each_frame_the_time_begins_anew() -> None:
    broker = Broker(100)
    peer = broker.connect()
    request = frame(bytes(3000))
    peer.send(request[:1000])
    for _ in range(6):  # one after the other goes over the limit and is dropped
        broker.connect().send(UNFINISHED)
    for _ in range(4):
        broker.pass_time(UNFINISHED_SECONDS - 1)
        assert broker.memory.waiting
        assert peer.send(request[1000:] + request[:1000]) == b""
    assert len(peer.answers) == 4
    broker.pass_time(UNFINISHED_SECONDS + 1)
    assert peer.aborted


def test_whole_requests_may_lie_for_longer_since_the_broker_may_be_slow() -> None:
    parked = Pending()
    broker = Broker(10_000, handler=lambda _connection, _request: parked)
    unread = broker.connect()
    unread.send(frame(b"parked") + frame(bytes(3000)) * 10)
    for _ in range(HELD_SECONDS // UNFINISHED_SECONDS + 2):
        broker.connect().send(UNFINISHED)
    aborted = []
    for _ in range(HELD_SECONDS + 1):
        assert broker.memory.waiting
        broker.pass_time(1)
        aborted.append(unread.aborted)
    assert aborted == [False] * HELD_SECONDS + [True]
    assert parked.abandoned


def test_who_sends_steadily_is_not_dropped_however_large_the_request() -> None:
    broker = Broker(MIB)
    steady, waiting = broker.filled(), broker.connect()
    sent = broker.memory.size
    rest = waiting.send(frame(bytes(MIB)))
    while not steady.answers:
        broker.pass_time(1)
        assert not steady.aborted
        assert steady.send(bytes(min(MIB // 2, 4 + 10 * MIB - sent))) == b""
        sent += MIB // 2
    assert sent > 2 * UNFINISHED_SECONDS * MIB // 2, "it took longer than others may"
    broker.run()
    assert waiting.send(rest) == b""
    assert waiting.answers == [bytes(MIB)]


@pytest.mark.parametrize(("pause", "is_dropped"), [(4, False), (5, True)])
def test_who_sends_steadily_may_pause_a_little(pause: int, is_dropped: bool) -> None:
    broker = Broker(MIB)
    steady = broker.filled()
    broker.connect().send(frame(bytes(MIB)))
    for second in range(15):
        if not 3 <= second < 3 + pause:
            steady.send(bytes(MIB // 2))
        broker.pass_time(1)
    assert steady.aborted == is_dropped


def test_the_time_in_which_it_is_not_read_is_not_the_peers() -> None:
    broker = Broker(MIB)
    muted = broker.filled()
    broker.connect().send(frame(bytes(MIB)))
    muted.receiver.mute(2 * UNFINISHED_SECONDS + 0.5, broker.clock)
    broker.pass_time(3 * UNFINISHED_SECONDS)
    assert not muted.aborted
    broker.pass_time(1)
    assert muted.aborted


def test_those_who_all_wait_for_more_do_not_hold_up_others_for_ever() -> None:
    broker = Broker(8 * MIB)
    strangers = [broker.connect() for _ in range(128)]
    for part in (16 * KIB, 48 * KIB):
        for peer in strangers:
            peer.send(frame(bytes(MIB))[:part])
    assert broker.memory.waiting == len(strangers) - 1
    waiting = broker.connect()
    rest = waiting.send(frame(bytes(900 * KIB)))
    for _ in range(STUCK_SECONDS + UNFINISHED_SECONDS):
        broker.pass_time(1)
        rest = waiting.send(rest)
    assert waiting.answers == [bytes(900 * KIB)]


def test_of_those_who_wait_for_each_other_no_more_are_dropped_than_need_be() -> None:
    broker = Broker(1_250_000)
    large, little, over = (broker.connect() for _ in range(3))
    requests = [frame(bytes(size)) for size in (4 * MIB, 300 * KIB, 300 * KIB)]
    assert large.send(requests[0][: 256 * KIB]) == b""
    assert little.send(requests[1][: 20 * KIB]) == b""
    assert over.send(requests[2][: 100 * KIB]) == b""
    over.receiver.mute(HELD_SECONDS, broker.clock)
    large.send(requests[0][256 * KIB :])
    rest = little.send(requests[1][20 * KIB :])
    broker.pass_time(STUCK_SECONDS)
    assert broker.memory.waiting == 2
    broker.pass_time(1)
    assert large.aborted
    assert little.send(rest) == b""
    assert little.answers == [bytes(300 * KIB)]


def test_who_waits_for_more_is_not_dropped_while_another_one_sends() -> None:
    broker = Broker(MIB)
    begun = broker.connect()
    begun.send(frame(bytes(2 * MIB))[: 100 * KIB])
    steady = broker.filled()
    rest = begun.send(bytes(2 * MIB + 4 - 100 * KIB))
    assert begun.waits
    for _ in range(STUCK_SECONDS + 5):
        broker.pass_time(1)
        assert steady.send(bytes(MIB // 2)) == b""
    assert begun.waits
    steady.receiver.connection_lost(None)
    broker.run()
    assert begun.send(rest) == b""
    assert begun.answers == [bytes(2 * MIB)]
