"""The inside of a child process: messages on standard input, its own on standard output.

It ends when its input does, so it cannot outlive its parent, not even one that was killed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from queue import SimpleQueue
from threading import Thread
from typing import BinaryIO, NoReturn

from moldau.machine.processes import LENGTH_BYTES, ChildProgram, Pause


def run_child(program: ChildProgram, *, nice: int) -> NoReturn:
    """Run ``program`` for one message after the other, with a lower priority by ``nice``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this
    os.nice(nice)
    messages: SimpleQueue[bytes] = SimpleQueue()

    def listen() -> None:
        while message := _receive(sys.stdin.buffer):
            messages.put(message)
        os._exit(0)  # also in the middle of the work: nobody is left to hear of it

    Thread(target=listen, daemon=True).start()
    while True:
        for step in program(messages.get()):
            if isinstance(step, Pause):
                time.sleep(step.seconds)
            else:
                _send(sys.stdout.buffer, step)


def _receive(source: BinaryIO) -> bytes:
    """Returns the next message, or nothing at the end."""
    head = source.read(LENGTH_BYTES)
    size = int.from_bytes(head, "big")
    message = source.read(size) if len(head) == LENGTH_BYTES else b""
    return message if len(message) == size else b""


def _send(output: BinaryIO, message: bytes) -> None:
    output.write(len(message).to_bytes(LENGTH_BYTES, "big") + message)
    output.flush()
