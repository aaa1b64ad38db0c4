"""Two peers that share the buffers of a listener: bytes in any pieces, answers at any time.

An input is a list of steps: a peer writes, some of what it wrote arrives, an answer is completed, a
peer stops to read, goes away. The buffers and limits are small, so that a few bytes reach what
takes megabytes otherwise. Afterwards everything that can still happen happens.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable, Sequence

from tests.fuzz.target import Choices, Target
from tests.support.connections import no_log
from tests.support.memory_network import MemoryTransport, frame

from moldau.machine.network import Part
from moldau.net.connection import ConnectionLimits, Pending, ServerConnection
from moldau.net.errors import FrameSizeError
from moldau.net.frames import BufferPool, FrameReader
from moldau.wire.errors import DecodeError

SCRATCH_SIZE = 64
LARGEST = 2000
KEPT_BYTES = 1 << 20
LIMITS = ConnectionLimits(
    max_request_bytes=LARGEST, max_in_flight=4, max_waiting_bytes=300, requests_per_turn=3
)

# What a request wants, by its first byte. The second is the rest of an API key.
ECHO, SILENT, PARKED, FOLLOWED, DONE_ALREADY, COMPLETES, MALFORMED, FAILING = range(8)


class Peer:
    """One end of a connection, the broker's other end, and what is expected of it."""

    def __init__(self, pool: BufferPool) -> None:
        self.connection = ServerConnection(
            self._handle, pool=pool, log_limiter=no_log(), limits=LIMITS
        )
        self.transport = MemoryTransport(self.connection)
        self.others: Sequence[Peer] = ()
        self.parked: list[tuple[Pending, bytes]] = []
        self.executed: list[bytes] = []
        self.answered: list[bytes] = []
        """What has to be answered, in this order."""
        self._written = bytearray()
        self._arrived = 0
        self._has_ended = False
        self._eof_seen = False
        self._is_lost = False
        self._was_told_to_end = False
        self._is_deaf = False
        self._has_failed = False

    def _handle(
        self, connection: ServerConnection, request: memoryview
    ) -> Sequence[Part] | Pending | None:
        assert connection is self.connection
        assert not self._has_failed, "a request is executed after one that ended the connection"
        body = bytes(request)
        self.executed.append(body)
        kind = body[0] % 8 if body else ECHO
        if kind == MALFORMED:
            self._has_failed = True
            raise DecodeError
        if kind == FAILING:
            self._has_failed = True
            raise ValueError
        if kind == SILENT:
            return None
        self.answered.append(body)
        if kind in (PARKED, FOLLOWED):
            follower = None
            if kind == FOLLOWED and len(body) > 1:
                (follower,) = struct.unpack_from(">h", body)
            pending = Pending(follower)
            self.parked.append((pending, body))
            return pending
        if kind == DONE_ALREADY:
            pending = Pending()
            pending.complete([frame(body)])
            return pending
        if kind == COMPLETES:
            for other in (self, *self.others):
                other.complete(0)
        return [frame(body)]

    # What happens

    def write(self, data: bytes) -> None:
        if not self._has_ended:
            self._written += data

    def end(self) -> None:
        self._has_ended = True

    def arrive(self, most: int) -> None:
        """Some bytes reach the broker, if it wants any."""
        transport, connection = self.transport, self.connection
        while most and self._arrived < len(self._written) and self._reads:
            view = connection.get_buffer(-1)
            assert len(view) > 0
            piece = self._written[self._arrived : self._arrived + min(most, len(view))]
            view[: len(piece)] = piece
            self._arrived += len(piece)
            most -= len(piece)
            connection.buffer_updated(len(piece))
        if self._has_ended and self._arrived == len(self._written) and self._reads:
            self._eof_seen = True
            transport.reading = False
            if not connection.eof_received():
                transport.close()

    @property
    def _reads(self) -> bool:
        return self.transport.reading and not self._eof_seen and not self._is_lost

    def complete(self, number: int) -> None:
        if self.parked:
            pending, body = self.parked.pop(number % len(self.parked))
            pending.complete([frame(body)])

    def let_follow(self, number: int) -> None:
        if self.parked:
            pending, body = self.parked[number % len(self.parked)]
            if len(body) > 1:
                pending.let_follow(struct.unpack_from(">h", body)[0])

    def be_deaf(self, is_deaf: bool) -> None:
        if not self._is_lost and is_deaf is not self._is_deaf:
            self._is_deaf = is_deaf
            if is_deaf:
                self.connection.pause_writing()
            else:
                self.connection.resume_writing()

    def be_lost(self) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._was_told_to_end = True
            self.transport.close()
            self.connection.connection_lost(None)

    def be_told(self, how: int) -> None:
        """The broker ends it."""
        self._was_told_to_end = True
        (self.connection.finish, self.connection.close, self.connection.abort)[how % 3]()

    # What must hold

    def check(self) -> None:
        expected, _, _ = cut(bytes(self._written[: self._arrived]))
        assert self.executed == expected[: len(self.executed)], "requests are those that were sent"
        sent = self.transport.answers
        assert sent == self.answered[: len(sent)], "answers are in the order of requests"
        assert self.connection.in_flight <= LIMITS.max_in_flight

    def check_end(self) -> None:
        """Nothing more will happen."""
        self.check()
        expected, rest, is_bad = cut(bytes(self._written))
        ended = self._was_told_to_end or self._has_failed
        if not ended:
            assert self.executed == expected, "every request is executed"
            if not is_bad:
                assert self.transport.answers == self.answered, "every request is answered"
                assert self._arrived == len(self._written)
            assert self.connection.in_flight == 0 or is_bad
        if ended or is_bad or self._has_ended:
            assert self.transport.is_closing, "the connection is closed"
        else:
            assert self.transport.reading
            assert not self.connection.blocked
            assert self.connection._reader.buffered == len(rest)


def cut(stream: bytes) -> tuple[list[bytes], bytes, bool]:
    """The frames in a stream, what is left, and whether that can be no frame."""
    bodies: list[bytes] = []
    while len(stream) >= 4:
        (size,) = struct.unpack_from(">i", stream)
        if not 0 <= size <= LARGEST:
            return bodies, stream, True
        if len(stream) < 4 + size:
            break
        bodies.append(stream[4 : 4 + size])
        stream = stream[4 + size :]
    return bodies, stream, False


def read_alone(choices: Choices) -> None:
    """A reader whose frames are kept, put back, or left for later."""
    pool = BufferPool(scratch_size=SCRATCH_SIZE, keep_bytes=KEPT_BYTES)
    reader = FrameReader(pool, LARGEST)
    stream = b""
    found: list[memoryview | bytes] = []
    is_bad = False
    while not choices.is_over and not is_bad:
        how, size = choices.byte(), choices.byte()
        piece = frame(bytes([size]) * (8 * how)) if how & 1 else choices.take(size)
        stream += piece
        while piece and not is_bad:
            view = reader.get_buffer()
            taken = min(len(view), len(piece))
            view[:taken] = piece[:taken]
            piece = piece[taken:]
            reader.received(taken)
            is_bad = _read_some(reader, found, how)
            pool.scratch[:] = b"\xee" * SCRATCH_SIZE  # others read into it
    expected, rest, claimed_bad = cut(stream)
    assert [bytes(body) for body in found] == expected
    assert is_bad == claimed_bad
    assert is_bad or reader.buffered == len(rest)
    assert pool.kept_bytes <= KEPT_BYTES


def _read_some(reader: FrameReader, found: list[memoryview | bytes], how: int) -> bool:
    """Takes all frames that are there; returns whether what follows is none."""
    try:
        while (body := reader.next_frame()) is not None:
            if how & 2:
                reader.put_back(body)
                body = reader.next_frame()
                assert body is not None
            found.append(reader.keep_frame(body) if how & 4 else bytes(body))
            if how & 8:
                reader.park()
    except FrameSizeError:
        return True
    return False


class Frames(Target):
    def __init__(self) -> None:
        self._logger = logging.getLogger("moldau.net")
        self._level = self._logger.level
        self._logger.setLevel(logging.CRITICAL)

    def close(self) -> None:
        self._logger.setLevel(self._level)

    def run(self, data: bytes) -> None:
        choices = Choices(data)
        if choices.byte() & 1:
            read_alone(choices)
        else:
            self._run_peers(choices)

    def _run_peers(self, choices: Choices) -> None:
        pool = BufferPool(scratch_size=SCRATCH_SIZE, keep_bytes=KEPT_BYTES)
        peers = [Peer(pool), Peer(pool)]
        peers[0].others, peers[1].others = peers[1:], peers[:1]
        while not choices.is_over:
            self._step(peers, choices)
            for peer in peers:
                peer.check()
        for _ in range(2):  # what one does may let the other go on
            for peer in peers:
                peer.be_deaf(False)
        self._settle(peers)
        for peer in peers:
            peer.check_end()
            peer.be_lost()
        assert pool.kept_bytes <= KEPT_BYTES

    def _step(self, peers: list[Peer], choices: Choices) -> None:
        step = choices.byte()
        peer = peers[step >> 7]
        match step & 0x0F:
            case 0 | 1 | 2 | 3:
                kind, size = choices.byte(), choices.number() % (LARGEST + 10)
                peer.write(frame((bytes([kind]) * 2 + bytes(range(256)) * 8)[:size]))
            case 4:
                peer.write(choices.take(choices.byte()))
            case 5 | 6:
                peer.arrive(choices.byte())
            case 7 | 8:
                peer.arrive(choices.number())
            case 9:
                peer.complete(choices.byte())
            case 10:
                peer.transport.run_soon()
            case 11:
                peer.be_deaf(bool(choices.byte() & 1))
            case 12:
                peer.end()
            case 13:
                peer.be_lost()
            case 14:
                peer.let_follow(choices.byte())
            case 15:
                peer.be_told(choices.byte())

    def _settle(self, peers: list[Peer]) -> None:
        for _ in range(10_000):
            before = [(peer._arrived, len(peer.executed)) for peer in peers]
            is_busy = False
            for peer in peers:
                peer.arrive(LARGEST)
                peer.complete(0)
                is_busy |= bool(peer.transport.scheduled or peer.parked)
                peer.transport.run()
            if not is_busy and before == [(peer._arrived, len(peer.executed)) for peer in peers]:
                return
        raise AssertionError("it never ends")

    def seeds(self) -> Iterable[bytes]:
        for kind in range(8):
            for size in (0, 1, 2, 60, 64, 200, LARGEST, LARGEST + 1):
                one = bytes([0, kind, size >> 8, size & 0xFF])
                yield b"\0" + one + b"\x07\x0f\xff"
                yield b"\0" + 3 * one + b"\x05\x09" * 20 + b"\x0a\x0a"
                yield b"\0" + one + bytes([0x80]) + one[1:] + b"\x05\x03\x85\x07" * 9
        for after in (
            b"\x0b\x01",
            b"\x0c",
            b"\x0d",
            b"\x0e\0",
            b"\x0f\0",
            b"\x0f\x01",
            b"\x0f\x02",
        ):
            for kind in (ECHO, PARKED, FOLLOWED):
                one = bytes([0, kind, 0, 20])
                yield b"\0" + 6 * one + b"\x05\x50" + after + b"\x09\0\x0a\x05\xff\x0b\0"
        for how in range(16):
            yield b"\x01" + bytes([how | 0x10, 7, how & 14, 9]) + bytes(9) + bytes([how | 0xF0, 1])
