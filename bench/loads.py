"""Closed loops: connections that keep so many requests on their way until their time is over.

What they send was encoded beforehand, what they receive is counted and thrown away, so that the
broker is the limit; how much of a core the loop itself took is part of its outcome.
"""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import cycle, islice
from typing import NamedTuple

from bench.requests import LoadError, connect

RECEIVE_BYTES = 1 << 20
UNLIMITED = 2**62

_size_at = struct.Struct(">i").unpack_from
_memory = memoryview(bytearray(RECEIVE_BYTES + 4))
"""One for all loads: nothing that is received is kept."""


class Outcome(NamedTuple):
    requests: int
    received: int
    """Bytes."""
    seconds: float
    cpu_seconds: float
    """Of this process, the generator of the load."""


class Answers:
    """Counts the answers on a connection without keeping them."""

    __slots__ = ("_head", "_left")

    def __init__(self) -> None:
        self._left = 0  # of an answer that has begun
        self._head = b""  # of a size that has not arrived as a whole

    def count(self, received: int) -> int:
        """Returns how many answers end within so many bytes of the memory, after its first 4."""
        position, end, answers = 4, 4 + received, 0
        if self._head:
            position -= len(self._head)
            _memory[position:4] = self._head
            self._head = b""
        left = self._left
        while True:
            if left > end - position:
                self._left = left - (end - position)
                return answers
            if left:
                position += left
                answers += 1
            if end - position < 4:
                self._left, self._head = 0, bytes(_memory[position:end])
                return answers
            left = 4 + _size_at(_memory, position)[0]


class Load:
    """One connection with ``in_flight`` requests on their way, of the frames in turn."""

    def __init__(
        self, address: str, frames: Sequence[bytes], *, in_flight: int, most: int = UNLIMITED
    ) -> None:
        """``most``: no more requests than this, however much time there is."""
        self.requests = 0
        self.received = 0
        self.on_their_way = 0
        self.still_to_send = most
        self._in_flight = in_flight
        self._frames = cycle(frames)
        self._connection = connect(address)
        self._answers = Answers()

    def fileno(self) -> int:
        return self._connection.fileno()

    def begin(self) -> None:
        self._send(self._in_flight)

    def finish(self) -> None:
        """Sends nothing any more."""
        self.still_to_send = 0

    def receive(self) -> None:
        """Takes what has arrived and sends a request for each answer."""
        received = self._connection.recv_into(_memory[4:])
        if not received:
            raise LoadError("the broker closed the connection")
        self.received += received
        answers = self._answers.count(received)
        if answers:
            self.requests += answers
            self.on_their_way -= answers
            self._send(answers)

    def _send(self, count: int) -> None:
        count = min(count, self.still_to_send)
        if count == 1:
            self._connection.sendall(next(self._frames))
        elif count:
            self._connection.sendall(b"".join(islice(self._frames, count)))
        self.still_to_send -= count
        self.on_their_way += count

    def close(self) -> None:
        self._connection.close()


def run(loads: Sequence[Load], seconds: float) -> Outcome:
    """Runs the loads for so long, or until none of them has anything left to send."""
    with ExitStack() as stack:
        for load in loads:
            stack.callback(load.close)
        cpu, started = time.process_time(), time.perf_counter()
        deadline = started + seconds
        for load in loads:
            load.begin()
        if len(loads) == 1:
            _run_one(loads[0], deadline)
        else:
            _run_many(loads, deadline)
        ended = time.perf_counter()
        return Outcome(
            sum(load.requests for load in loads),
            sum(load.received for load in loads),
            ended - started,
            time.process_time() - cpu,
        )


def _run_one(load: Load, deadline: float) -> None:
    """Waits in the call that receives: there is nothing else to do."""
    clock, receive = time.perf_counter, load.receive
    while load.on_their_way:
        receive()
        if clock() >= deadline:
            load.finish()


def _run_many(loads: Sequence[Load], deadline: float) -> None:
    by_descriptor = {load.fileno(): load for load in loads}
    with select.epoll(len(loads)) as poll:
        for descriptor in by_descriptor:
            poll.register(descriptor, select.EPOLLIN)
        while by_descriptor:
            for descriptor, _ in poll.poll(1.0, 256):
                load = by_descriptor[descriptor]
                load.receive()
                if not load.on_their_way:
                    poll.unregister(descriptor)
                    del by_descriptor[descriptor]
            if time.perf_counter() >= deadline:
                for load in by_descriptor.values():
                    load.finish()
