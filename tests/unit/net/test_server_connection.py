from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.connections import echo, no_log
from tests.support.logs import records_of
from tests.support.memory_network import MemoryTransport, frame

from moldau.machine.network import Part
from moldau.net.connection import Blocked, ConnectionLimits, Handler, Pending, ServerConnection
from moldau.net.frames import MIB, BufferPool
from moldau.testing.clock import ManualClock
from moldau.wire.errors import DecodeError, EncodeError, UnsupportedVersionError


class ServedTransport(MemoryTransport):
    receiver: ServerConnection


def connect(
    handler: Handler,
    *,
    limits: ConnectionLimits | None = None,
    on_close: Callable[[ServerConnection], object] | None = None,
) -> ServedTransport:
    return ServedTransport(
        ServerConnection(
            handler, pool=BufferPool(), log_limiter=no_log(), limits=limits, on_close=on_close
        )
    )


class Parking:
    """Parks requests that begin with ``wait`` or ``park``, does not answer those with ``none`` in
    them, echoes the others. What begins with ``pa`` may follow what is parked.
    """

    def __init__(self) -> None:
        self.executed: list[bytes] = []
        self.parked: dict[bytes, Pending] = {}

    def __call__(
        self, connection: ServerConnection, request: memoryview
    ) -> Sequence[Part] | Pending | None:
        body = bytes(request)
        self.executed.append(body)
        if body.startswith(b"wait"):
            self.parked[body] = Pending()
            return self.parked[body]
        if body.startswith(b"park"):
            self.parked[body] = Pending(follower=int.from_bytes(b"pa", "big"))
            return self.parked[body]
        return None if b"none" in body else [frame(body)]

    def complete(self, body: bytes) -> None:
        self.parked.pop(body).complete([frame(body)])


def requests(*bodies: bytes) -> bytes:
    return b"".join(map(frame, bodies))


def test_a_request_is_answered() -> None:
    transport = connect(echo)
    transport.receive(frame(b"hello"))
    assert transport.answers == [b"hello"]
    assert transport.receiver.in_flight == 0


def test_an_empty_frame_reaches_the_handler() -> None:
    transport = connect(echo)
    transport.receive(frame(b""))
    assert transport.answers == [b""]


def test_pipelined_requests_are_answered_in_order_with_one_write() -> None:
    transport = connect(echo)
    transport.receive(requests(b"a", b"b", b"c"))
    assert transport.answers == [b"a", b"b", b"c"]
    assert len(transport.writes) == 1


def test_the_handlers_own_sequence_is_not_changed_by_joining() -> None:
    cached = [frame(b"cached")]
    transport = connect(lambda _connection, _request: cached)
    transport.receive(requests(b"a", b"b"))
    assert transport.answers == [b"cached", b"cached"]
    assert cached == [frame(b"cached")]


def test_a_request_without_an_answer_leaves_no_trace() -> None:
    transport = connect(Parking())
    transport.receive(requests(b"none 1", b"a", b"none 2"))
    assert transport.answers == [b"a"]
    transport.receive(requests(b"none 3"))
    assert len(transport.writes) == 1


def test_what_may_follow_is_executed_and_its_answer_waits_for_the_parked_one() -> None:
    handler = Parking()
    transport = connect(handler)
    transport.receive(requests(b"a", b"park", b"pa b", b"pa none"))
    transport.receive(requests(b"pa c"))
    assert handler.executed == [b"a", b"park", b"pa b", b"pa none", b"pa c"]
    assert transport.answers == [b"a"]
    assert transport.receiver.in_flight == 3
    handler.complete(b"park")
    transport.run()
    assert transport.answers == [b"a", b"park", b"pa b", b"pa c"]
    assert len(transport.writes) == 2
    assert transport.receiver.in_flight == 0


def test_what_is_done_but_not_answered_may_be_followed_from_then_on() -> None:
    handler = Parking()
    transport = connect(handler)
    transport.receive(requests(b"wait", b"pa b", b"c", b"pa d"))
    assert handler.executed == [b"wait"]
    handler.parked[b"wait"].let_follow(int.from_bytes(b"pa", "big"))
    transport.run()
    assert handler.executed == [b"wait", b"pa b"]
    assert transport.receiver.blocked == Blocked.BEHIND
    assert transport.answers == []
    handler.complete(b"wait")
    transport.run()
    assert transport.answers == [b"wait", b"pa b", b"c", b"pa d"]
    assert transport.reading


def test_to_be_followed_while_nothing_is_held_back_changes_nothing_yet() -> None:
    handler = Parking()
    transport = connect(handler)
    transport.receive(requests(b"wait"))
    handler.parked[b"wait"].let_follow(int.from_bytes(b"pa", "big"))
    transport.receive(requests(b"pa b"))
    assert handler.executed == [b"wait", b"pa b"]
    handler.complete(b"wait")
    transport.run()
    assert transport.answers == [b"wait", b"pa b"]


def test_no_request_overtakes_one_that_waits() -> None:
    handler = Parking()
    transport = connect(handler)
    transport.receive(requests(b"wait 1", b"a", b"wait 2", b"b"))
    assert handler.executed == [b"wait 1"]
    assert transport.receiver.blocked == Blocked.BEHIND
    assert not transport.reading
    handler.complete(b"wait 1")
    transport.run()
    assert handler.executed == [b"wait 1", b"a", b"wait 2"]
    handler.complete(b"wait 2")
    transport.run()
    assert transport.answers == [b"wait 1", b"a", b"wait 2", b"b"]
    assert transport.reading


def test_only_its_own_kind_follows_a_parked_request() -> None:
    handler = Parking()
    transport = connect(handler)
    transport.receive(requests(b"park 1", b"pass", b"park 2", b"a", b"pass too"))
    assert handler.executed == [b"park 1", b"pass", b"park 2"]
    handler.complete(b"park 1")
    transport.run()
    assert transport.answers == [b"park 1", b"pass"]
    assert b"a" not in handler.executed
    handler.complete(b"park 2")
    transport.run()
    assert transport.answers == [b"park 1", b"pass", b"park 2", b"a", b"pass too"]


def test_a_request_too_short_for_a_key_waits_like_the_others() -> None:
    handler = Parking()
    transport = connect(handler)
    transport.receive(requests(b"park", b"", b"p"))
    assert handler.executed == [b"park"]
    handler.complete(b"park")
    transport.run()
    assert transport.answers == [b"park", b"", b"p"]


def test_a_large_request_behind_one_that_waits_is_kept() -> None:
    handler = Parking()
    transport = connect(handler)
    large = b"L" * (2 * MIB)
    transport.receive(requests(b"wait"))
    for start in range(0, len(large) + 4, 50_000):
        transport.receive(frame(large)[start : start + 50_000])
    assert handler.executed == [b"wait"]
    handler.complete(b"wait")
    transport.run()
    assert transport.answers == [b"wait", large]


def test_while_one_waits_and_nothing_is_behind_it_the_end_of_the_peer_is_noticed() -> None:
    handler = Parking()
    transport = connect(handler)
    transport.receive(requests(b"wait"))
    assert transport.reading


def test_a_parked_answer_alone_goes_out_at_once() -> None:
    handler = Parking()
    transport = connect(handler)
    transport.receive(requests(b"wait"))
    handler.complete(b"wait")
    assert transport.answers == [b"wait"]


def test_answers_completed_in_any_order_go_out_in_the_order_of_requests() -> None:
    handler = Parking()
    transport = connect(handler)
    bodies = [b"park 1", b"park 2", b"park 3", b"pa d"]
    transport.receive(requests(*bodies))
    handler.complete(b"park 2")
    handler.complete(b"park 3")
    transport.run()
    assert transport.writes == []
    handler.complete(b"park 1")
    transport.run()
    assert transport.answers == bodies
    assert len(transport.writes) == 1


def test_a_pending_completed_before_it_is_returned_is_an_ordinary_answer() -> None:
    def handler(_connection: ServerConnection, request: memoryview) -> Pending:
        pending = Pending()
        pending.complete([frame(bytes(request))])
        return pending

    transport = connect(handler)
    transport.receive(requests(b"a", b"b"))
    transport.run()
    assert transport.answers == [b"a", b"b"]


def test_thousands_of_pendings_that_are_done_at_once_do_not_pile_up_on_the_stack() -> None:
    def handler(_connection: ServerConnection, _request: memoryview) -> Pending:
        pending = Pending()
        pending.complete([frame(b"")])
        return pending

    transport = connect(
        handler, limits=ConnectionLimits(max_in_flight=1, requests_per_turn=1_000_000)
    )
    transport.receive(frame(b"") * 10_000)
    transport.run()
    assert transport.sent == frame(b"") * 10_000


def test_a_request_may_complete_the_one_before_it_on_the_same_connection() -> None:
    handler = Parking()

    def completing(connection: ServerConnection, request: memoryview) -> object:
        if bytes(request) == b"pa now":
            handler.complete(b"park")
        return handler(connection, request)

    transport = connect(completing)  # type: ignore[arg-type]
    transport.receive(requests(b"park", b"pa now", b"pa later"))
    assert transport.answers == [b"park", b"pa now", b"pa later"]
    assert len(transport.writes) == 1


def test_a_pending_without_an_answer_only_gives_up_its_place() -> None:
    handler = Parking()
    transport = connect(handler)
    transport.receive(requests(b"wait", b"b"))
    handler.parked[b"wait"].complete(None)
    transport.run()
    assert transport.answers == [b"b"]


def test_only_the_first_completion_counts() -> None:
    handler = Parking()
    transport = connect(handler)
    transport.receive(requests(b"wait"))
    pending = handler.parked[b"wait"]
    pending.complete([frame(b"first")])
    pending.complete([frame(b"second")])
    assert transport.answers == [b"first"]


def test_completing_after_the_connection_is_lost_does_nothing() -> None:
    handler = Parking()
    transport = connect(handler)
    transport.receive(requests(b"park 1", b"park 2"))
    transport.receiver.connection_lost(None)
    handler.complete(b"park 2")
    handler.complete(b"park 1")
    transport.run()
    assert transport.writes == []


def test_an_answer_scheduled_when_the_connection_is_lost_is_dropped() -> None:
    handler = Parking()
    transport = connect(handler)
    transport.receive(requests(b"park 1", b"park 2"))
    handler.complete(b"park 1")
    transport.receiver.connection_lost(ConnectionResetError())
    transport.run()
    assert transport.writes == []


def test_the_end_is_told_once_with_the_connection() -> None:
    ended: list[ServerConnection] = []
    transport = connect(echo, on_close=ended.append)
    transport.receiver.connection_lost(None)
    assert ended == [transport.receiver]
    assert ended[0].closed


def test_too_many_unanswered_requests_stop_the_reading() -> None:
    handler = Parking()
    transport = connect(handler, limits=ConnectionLimits(max_in_flight=3))
    bodies = [b"park %d" % number for number in range(5)]
    transport.receive(requests(*bodies))
    assert handler.executed == bodies[:3]
    assert transport.receiver.blocked == Blocked.FULL
    assert not transport.reading
    for number, body in enumerate(bodies):
        handler.complete(body)
        transport.run()
        assert handler.executed == bodies[: number + 4]
    assert transport.answers == bodies
    assert transport.reading


def test_too_many_bytes_behind_a_parked_answer_stop_the_reading() -> None:
    handler = Parking()
    transport = connect(handler, limits=ConnectionLimits(max_waiting_bytes=1000))
    transport.receive(requests(b"park", b"pa" * 300, b"pa" * 301, b"pa z"))
    assert handler.executed[-1] == b"pa" * 301
    assert not transport.reading
    handler.complete(b"park")
    transport.run()
    assert transport.answers == [b"park", b"pa" * 300, b"pa" * 301, b"pa z"]
    assert transport.reading


def test_large_answers_completed_out_of_turn_stop_the_reading_too() -> None:
    handler = Parking()
    transport = connect(handler, limits=ConnectionLimits(max_waiting_bytes=1000))
    transport.receive(requests(b"park 1", b"park 2"))
    handler.parked[b"park 2"].complete([frame(b"x" * 2000)])
    assert not transport.reading
    handler.complete(b"park 1")
    transport.run()
    assert transport.answers == [b"park 1", b"x" * 2000]
    assert transport.reading


def test_no_request_is_executed_while_the_peer_does_not_take_its_answers() -> None:
    handler = Parking()
    transport = connect(handler)
    transport.receiver.pause_writing()
    assert not transport.reading
    transport.reading = True  # bytes that were on their way
    transport.receive(requests(b"a", b"b"))
    assert handler.executed == []
    transport.receiver.resume_writing()
    assert transport.answers == [b"a", b"b"]
    assert transport.reading


def test_requests_beyond_the_turn_wait_for_the_next_one() -> None:
    handler = Parking()
    transport = connect(handler, limits=ConnectionLimits(requests_per_turn=2))
    bodies = [b"a", b"b", b"c", b"d", b"e"]
    transport.receive(requests(*bodies))
    assert handler.executed == [b"a", b"b"]
    assert not transport.reading
    transport.run_soon()
    assert handler.executed == [b"a", b"b", b"c", b"d"]
    transport.run_soon()
    assert handler.executed == bodies
    assert transport.answers == bodies
    assert transport.reading


def test_requests_that_wait_for_their_turn_survive_other_connections_traffic() -> None:
    pool = BufferPool()
    limits = ConnectionLimits(requests_per_turn=1)
    transports = [
        MemoryTransport(ServerConnection(echo, pool=pool, log_limiter=no_log(), limits=limits))
        for _ in range(3)
    ]
    for index, transport in enumerate(transports):
        transport.receive(requests(*[b"%d-%d" % (index, number) for number in range(4)]))
    while any(transport.scheduled for transport in transports):
        for transport in transports:
            transport.run_soon()
    for index, transport in enumerate(transports):
        assert transport.answers == [b"%d-%d" % (index, number) for number in range(4)]


def test_a_muted_connection_is_answered_and_executes_nothing_more() -> None:
    executed: list[bytes] = []
    clock = ManualClock()

    def mute(connection: ServerConnection, request: memoryview) -> Sequence[Part]:
        executed.append(bytes(request))
        if bytes(request) == b"slow":
            connection.mute(1, clock)
        return [frame(bytes(request))]

    transport = connect(mute)
    transport.receive(requests(b"a", b"slow", b"b"))
    assert transport.answers == [b"a", b"slow"]
    assert transport.receiver.blocked is Blocked.MUTED
    clock.advance(1)
    assert executed == [b"a", b"slow", b"b"]
    assert transport.answers == [b"a", b"slow", b"b"]
    assert not transport.receiver.blocked


def test_a_connection_muted_again_waits_for_what_ends_last() -> None:
    clock = ManualClock()
    transport = connect(echo)
    for seconds in (2, 5, 3):
        transport.receiver.mute(seconds, clock)
    assert clock.pending == 1
    clock.advance(4)
    assert not transport.reading
    clock.advance(1)
    transport.receive(requests(b"a"))
    assert transport.answers == [b"a"]


def test_the_end_of_a_muted_connection_is_not_held_up_by_its_timer() -> None:
    clock = ManualClock()
    transport = connect(echo)
    transport.receiver.mute(60, clock)
    transport.receiver.finish()
    assert transport.is_closing
    transport.receiver.connection_lost(None)
    assert clock.pending == 0
    transport.receiver.mute(60, clock)
    assert clock.pending == 0
    assert transport.answers == []


def test_a_peer_that_ends_without_open_requests_is_closed() -> None:
    transport = connect(echo)
    transport.receive(frame(b"a"))
    assert transport.receiver.eof_received() is False


def test_a_peer_that_sends_no_more_still_gets_its_answers() -> None:
    handler = Parking()
    transport = connect(handler)
    transport.receive(requests(b"wait 1", b"wait 2"))
    assert transport.receiver.eof_received() is True
    handler.complete(b"wait 1")
    transport.run()
    assert not transport.is_closing
    handler.complete(b"wait 2")
    transport.run()
    assert transport.answers == [b"wait 1", b"wait 2"]
    assert transport.is_closing


def test_requests_that_wait_for_their_turn_are_executed_after_the_end_of_input() -> None:
    transport = connect(echo, limits=ConnectionLimits(requests_per_turn=1))
    transport.receive(requests(b"a", b"b", b"c"))
    assert transport.receiver.eof_received() is True
    transport.run()
    assert transport.answers == [b"a", b"b", b"c"]
    assert transport.is_closing


def test_requests_held_back_by_a_full_connection_are_executed_after_the_end_of_input() -> None:
    handler = Parking()
    transport = connect(handler, limits=ConnectionLimits(max_in_flight=1))
    transport.receive(requests(b"park 1", b"park 2"))
    assert transport.receiver.eof_received() is True
    handler.complete(b"park 1")
    transport.run()
    assert not transport.is_closing
    handler.complete(b"park 2")
    transport.run()
    assert transport.answers == [b"park 1", b"park 2"]
    assert transport.is_closing


def test_half_a_request_at_the_end_of_input_is_forgotten() -> None:
    transport = connect(echo)
    transport.receive(frame(b"abc")[:5])
    assert transport.receiver.eof_received() is False
    assert transport.writes == []


def test_finish_executes_nothing_more_and_closes_after_the_last_answer() -> None:
    handler = Parking()
    transport = connect(handler)
    transport.receive(requests(b"wait"))
    transport.receiver.finish()
    assert not transport.reading
    assert not transport.is_closing
    handler.complete(b"wait")
    transport.run()
    assert transport.answers == [b"wait"]
    assert transport.is_closing


def test_finish_closes_an_idle_connection_at_once() -> None:
    transport = connect(echo)
    transport.receiver.finish()
    assert transport.is_closing


def test_close_from_within_the_handler_sends_the_answers_before_it() -> None:
    def handler(connection: ServerConnection, request: memoryview) -> list[bytes]:
        if bytes(request) == b"bye":
            connection.close()
        return [frame(bytes(request))]

    transport = connect(handler)
    transport.receive(requests(b"a", b"bye", b"never"))
    assert transport.answers == [b"a", b"bye"]
    assert transport.is_closing


def test_close_drops_parked_requests() -> None:
    handler = Parking()
    transport = connect(handler)
    transport.receive(requests(b"wait"))
    transport.receiver.close()
    assert transport.is_closing
    handler.complete(b"wait")
    assert transport.writes == []


def test_abort_ends_without_answers() -> None:
    handler = Parking()
    transport = connect(handler)
    transport.receive(requests(b"wait"))
    transport.receiver.abort()
    handler.complete(b"wait")
    assert transport.aborted
    assert transport.writes == []


@pytest.mark.parametrize(
    "error", [DecodeError("no such field"), UnsupportedVersionError("Fetch 99")]
)
def test_a_request_that_cannot_be_read_closes_the_connection_with_one_line(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def handler(_connection: ServerConnection, request: memoryview) -> list[bytes]:
        if bytes(request) == b"bad":
            raise error
        return [frame(bytes(request))]

    transport = connect(handler)
    transport.receive(requests(b"good", b"bad", b"never"))
    assert transport.answers == [b"good"]
    assert transport.is_closing
    (record,) = records_of(caplog, "moldau.net")
    assert record.getMessage() == f"closing 10.0.0.7:5123 on listener PLAINTEXT: {error}"
    assert record.levelno == logging.WARNING


@pytest.mark.parametrize("error", [ZeroDivisionError("a bug"), EncodeError("also a bug")])
def test_a_failing_handler_is_logged_with_its_traceback_and_closes_the_connection(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def handler(_connection: ServerConnection, _request: memoryview) -> None:
        raise error

    transport = connect(handler)
    transport.receive(requests(b"a", b"b"))
    assert transport.is_closing
    (record,) = records_of(caplog, "moldau.net")
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert record.exc_info[1] is error


@pytest.mark.parametrize("parked", [False, True])
def test_an_answer_that_cannot_be_written_closes_the_connection(
    parked: bool, caplog: pytest.LogCaptureFixture
) -> None:
    pending = Pending()
    transport = connect(lambda _connection, _request: pending if parked else [frame(b"")])

    def broken(_parts: object) -> None:
        raise TypeError("not a part")

    transport.write = broken  # type: ignore[assignment]
    transport.receive(frame(b"a"))
    pending.complete([frame(b"")])
    transport.run()
    assert transport.is_closing
    assert "a request failed" in caplog.text


TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(190)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (TLS_HELLO, "looks like a TLS hello; this listener speaks plaintext"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "looks like an HTTP request; "),
        (b"POST /topics HTTP/1.1\r\n", "looks like an HTTP request; "),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "looks like an HTTP request; "),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "looks like an SSH client; "),
        (struct.pack(">i", -5), "a negative frame size (-5); the bytes began with ff ff ff fb"),
        (
            struct.pack(">i", 100 * MIB + 1),
            "a frame of 104857601 bytes was announced, above socket.request.max.bytes=104857600; ",
        ),
    ],
)
def test_garbage_is_named_in_one_line_and_the_connection_closed(
    data: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    handler = Parking()
    transport = connect(handler)
    transport.receive(data)
    assert transport.is_closing
    assert handler.executed == []
    (record,) = records_of(caplog, "moldau.net")
    assert record.getMessage().startswith(f"closing 10.0.0.7:5123 on listener PLAINTEXT: {reason}")
    assert record.levelno == logging.WARNING


def test_garbage_after_good_requests_keeps_their_answers() -> None:
    transport = connect(echo)
    transport.receive(frame(b"good") + b"\xff" * 20)
    assert transport.answers == [b"good"]
    assert transport.is_closing


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(
                st.just("request"),
                st.sampled_from(["plain", "wait", "park", "pass", "none", "pa none"]),
            ),
            st.tuples(st.just("complete"), st.integers(0, 5)),
            st.tuples(st.just("loop"), st.none()),
            st.tuples(st.just("pause"), st.booleans()),
        ),
        max_size=40,
    )
)
def test_whatever_happens_each_request_is_executed_and_answered_in_order(
    steps: list[tuple[str, object]],
) -> None:
    handler = Parking()
    limits = ConnectionLimits(max_in_flight=3, max_waiting_bytes=60, requests_per_turn=2)
    transport = connect(handler, limits=limits)
    connection = transport.receiver
    unsent = b""
    expected: list[bytes] = []
    count = 0
    for kind, argument in steps:
        if kind == "request":
            body = b"%s %d" % (str(argument).encode(), count)
            count += 1
            unsent += frame(body)
            if "none" not in str(argument):
                expected.append(body)
        elif kind == "complete" and handler.parked:
            bodies = list(handler.parked)
            handler.complete(bodies[int(str(argument)) % len(bodies)])
        elif kind == "loop":
            transport.run_soon()
        elif kind == "pause":
            connection.pause_writing() if argument else connection.resume_writing()
        if transport.reading and unsent:
            transport.receive(unsent)
            unsent = b""
        assert connection.in_flight <= limits.max_in_flight
    connection.resume_writing()
    while unsent or handler.parked or transport.scheduled or connection.in_flight:
        if transport.reading and unsent:
            transport.receive(unsent)
            unsent = b""
        for body in list(handler.parked):
            handler.complete(body)
        transport.run()
    assert transport.answers == expected
    assert len(handler.executed) == count
    assert transport.reading
