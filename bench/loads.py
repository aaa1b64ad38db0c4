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
from typing import NamedTuple, Protocol

from bench.requests import LoadError, connect

RECEIVE_BYTES = 1 << 20
UNLIMITED = 2**62
EVENTS_AT_ONCE = 256

_size_at = struct.Struct(">i").unpack_from
memory = memoryview(bytearray(RECEIVE_BYTES + 4))
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
            memory[position:4] = self._head
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
                self._left, self._head = 0, bytes(memory[position:end])
                return answers
            left = 4 + _size_at(memory, position)[0]


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
        received = self._connection.recv_into(memory[4:])
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


class Connection(Protocol):
    def fileno(self) -> int: ...
    def begin(self) -> None: ...
    def receive(self) -> None: ...
    def close(self) -> None: ...


class Follows(Connection, Protocol):
    """Reads what the loads produce, and is done when it has read as many batches as were sent."""

    batches: int


def run(loads: Sequence[Load], seconds: float, followers: Sequence[Follows] = ()) -> Outcome:
    """Runs the loads for so long, or until none of them has anything left to send; followers until
    they have read everything.
    """
    with ExitStack() as stack:
        everybody: list[Connection] = [*loads, *followers]
        for each in everybody:
            stack.callback(each.close)
        cpu, started = time.process_time(), time.perf_counter()
        deadline = started + seconds
        for each in everybody:
            each.begin()
        if len(loads) == 1 and not followers:
            _run_one(loads[0], deadline)
        else:
            _run_many(loads, followers, deadline)
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


def _run_many(loads: Sequence[Load], followers: Sequence[Follows], deadline: float) -> None:
    connections: list[Connection] = [*loads, *followers]
    everybody = {each.fileno(): each for each in connections}
    with select.epoll(len(everybody)) as poll:
        for descriptor in everybody:
            poll.register(descriptor, select.EPOLLIN)
        busy = True
        while busy:
            for descriptor, _ in poll.poll(1.0, EVENTS_AT_ONCE):
                everybody[descriptor].receive()
            if time.perf_counter() >= deadline:
                for load in loads:
                    load.finish()
            busy = any(load.on_their_way for load in loads) or _is_behind(loads, followers)


def _is_behind(loads: Sequence[Load], followers: Sequence[Follows]) -> bool:
    sent = sum(load.requests for load in loads)
    return any(follower.batches < sent for follower in followers)
