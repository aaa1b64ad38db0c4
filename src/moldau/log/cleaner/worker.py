"""The cleaner process: tasks on standard input, reports on standard output, messages on stderr.

It ends when its input does, so it cannot outlive a broker, not even one that was killed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import BinaryIO, Final

import msgspec

from moldau.log.cleaner.compaction import Compaction
from moldau.log.cleaner.messages import CleanDone, CleanFailed, CleanTask, Progress, Report
from moldau.machine.processes import LENGTH_BYTES
from moldau.machine.real.disk import OsDisk
from moldau.records.errors import CorruptRecordError, InvalidRecordError

_NICE: Final = 10
"""Computing and, as Linux derives one from the other, disk access come after the broker's."""
_REPORT_S: Final = 1.0

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(CleanTask)


class Pace:
    """Says once a second that work goes on, and sleeps where it went too fast."""

    def __init__(
        self,
        bytes_per_second: float,
        output: BinaryIO,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = bytes_per_second
        self._output = output
        self._monotonic = monotonic
        self._sleep = sleep
        self._started = self._reported = monotonic()
        self._bytes = 0
        self._look_after = 0

    def tick(self, size: int) -> None:
        self._bytes += size
        if self._bytes < self._look_after:
            return
        self._look_after = self._bytes + 65_536
        while True:
            now = self._monotonic()
            if now - self._reported >= _REPORT_S:
                self._reported = now
                send(self._output, Progress())
            ahead = self._started + self._bytes / self._rate - now
            if ahead <= 0:
                return
            self._sleep(min(ahead, _REPORT_S))


def send(output: BinaryIO, report: Report) -> None:
    data = _encoder.encode(report)
    output.write(len(data).to_bytes(LENGTH_BYTES, "big") + data)
    output.flush()


def receive(source: BinaryIO) -> CleanTask | None:
    """The next task; None at the end."""
    head = source.read(LENGTH_BYTES)
    size = int.from_bytes(head, "big")
    data = source.read(size) if len(head) == LENGTH_BYTES else b""
    return _decoder.decode(data) if size and len(data) == size else None


def perform(task: CleanTask, output: BinaryIO) -> None:
    compaction = Compaction(OsDisk(), task, Pace(task.max_bytes_per_second, output).tick)
    try:
        for group in compaction.run():
            send(output, group)
    except (CorruptRecordError, InvalidRecordError) as error:
        send(output, CleanFailed(str(error), corrupt=True))
    except OSError as error:
        send(output, CleanFailed(str(error), corrupt=False))
    else:
        send(output, CleanDone(compaction.end_offset, compaction.stats))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the broker, which ends this
    os.nice(_NICE)
    tasks: SimpleQueue[CleanTask] = SimpleQueue()

    def listen() -> None:
        while (task := receive(sys.stdin.buffer)) is not None:
            tasks.put(task)
        os._exit(0)  # also in the middle of a task: nobody is left to swap anything in

    Thread(target=listen, daemon=True).start()
    while True:
        perform(tasks.get(), sys.stdout.buffer)


if __name__ == "__main__":
    main()
