"""Requests by schedule: they are sent when they are due, whether or not there is an answer to those
before, and latency counts from when they were due. A broker that stalls is seen to stall.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench.follower import Follower
from bench.loads import Answers, memory
from bench.requests import LoadError, connect

LEAD_S = 0.01
SILENCE_LIMIT_S = 60


class Sender:
    """One connection, and when the requests on their way were due."""

    def __init__(self, address: str, frame: bytes) -> None:
        self._connection = connect(address)
        self._frame = frame
        self._answers = Answers()
        self._due: deque[float] = deque()
        self.latencies: list[float] = []

    def fileno(self) -> int:
        return self._connection.fileno()

    def send(self, due: float) -> None:
        self._due.append(due)
        self._connection.sendall(self._frame)

    def receive(self) -> None:
        received = self._connection.recv_into(memory[4:])
        if not received:
            raise LoadError("the broker closed the connection")
        now = time.perf_counter()
        for _ in range(self._answers.count(received)):
            self.latencies.append(now - self._due.popleft())

    def close(self) -> None:
        self._connection.close()


class Outcome(NamedTuple):
    answered: list[float]
    """Seconds from when a request was due to its answer."""
    consumed: list[float]
    """Seconds from when a record was due to its arrival at a consumer."""
    wake_ups: int
    seconds: float
    cpu_seconds: float
    """Of this process, the generator of the load."""


def run(
    address: str,
    topic: str,
    frame: bytes,
    *,
    rate: float,
    seconds: float,
    connections: int = 1,
    consumers: int = 0,
    offset: int = 0,
    batch_size: int = 0,
) -> Outcome:
    """Sends ``rate`` requests a second, to the connections in turn, while consumers follow."""
    # So that the schedule is kept to some microseconds rather than to fifty.
    Path("/proc/self/timerslack_ns").write_text("1")
    count = max(1, int(rate * seconds))
    due = [0.0] * count
    with ExitStack() as stack:
        senders = [Sender(address, frame) for _ in range(connections)]
        readers = [_Reader(address, topic, due, offset, batch_size) for _ in range(consumers)]
        everybody: list[Sender | _Reader] = [*senders, *readers]
        for each in everybody:
            stack.callback(each.close)
        cpu, started = time.process_time(), time.perf_counter()
        due[:] = [started + LEAD_S + number / rate for number in range(count)]
        for reader in readers:
            reader.begin()
        _run(senders, readers, due)
        return Outcome(
            [latency for sender in senders for latency in sender.latencies],
            [latency for reader in readers for latency in reader.latencies],
            sum(reader.wake_ups for reader in readers),
            time.perf_counter() - started,
            time.process_time() - cpu,
        )


class _Reader(Follower):
    """Knows when what it reads was due."""

    def __init__(
        self, address: str, topic: str, due: Sequence[float], offset: int, batch_size: int
    ) -> None:
        super().__init__(
            address, topic, offset=offset, batch_size=batch_size, on_batches=self._arrived
        )
        self._due_times = due
        self.latencies: list[float] = []

    def _arrived(self, batches: int) -> None:
        now, first = time.perf_counter(), len(self.latencies)
        self.latencies += [now - due for due in self._due_times[first : first + batches]]


def _run(senders: Sequence[Sender], readers: Sequence[_Reader], due: Sequence[float]) -> None:
    clock = time.perf_counter
    everybody: list[Sender | _Reader] = [*senders, *readers]
    sent = 0
    heard = clock()
    while True:
        now = clock()
        while sent < len(due) and due[sent] <= now:
            senders[sent % len(senders)].send(due[sent])
            sent += 1
        if sent < len(due):
            wait = due[sent] - clock()
        else:
            wait = SILENCE_LIMIT_S
            answered = sum(len(sender.latencies) for sender in senders)
            if answered == sent and all(len(reader.latencies) >= sent for reader in readers):
                return
        # Not epoll, whose time is in milliseconds.
        readable = select.select(everybody, (), (), max(0.0, wait))[0]
        for each in readable:
            each.receive()
        if readable:
            heard = clock()
        elif clock() - heard > SILENCE_LIMIT_S:
            raise LoadError("the broker has fallen silent")
