"""A consumer at the head of a partition: one long poll after the other, each answer a wake-up."""

from __future__ import annotations

import struct
from collections.abc import Callable

from bench.requests import LoadError, connect, fetch_frame

PLACEHOLDER = 0x0123456789ABCDEF
MAX_WAIT_MS = 5000
RECEIVE_BYTES = 1 << 20

_memory = memoryview(bytearray(RECEIVE_BYTES))


class Follower:
    """Fetches a partition from ``offset`` on. Every batch in it has one size and number of records,
    so that the size of an answer says how far it has come.
    """

    def __init__(
        self,
        address: str,
        topic: str,
        *,
        offset: int,
        batch_size: int,
        records_per_batch: int = 1,
        max_bytes: int = RECEIVE_BYTES,
        on_batches: Callable[[int], None] = lambda _count: None,
    ) -> None:
        """``on_batches`` is told how many more batches have arrived, as soon as they are whole."""
        self.wake_ups = 0
        self.batches = 0
        self.offset = offset
        self._batch_size = batch_size
        self._records_per_batch = records_per_batch
        self._on_batches = on_batches
        self._frame = bytearray(fetch_frame(topic, PLACEHOLDER, max_bytes, max_wait_ms=MAX_WAIT_MS))
        self._offset_at = self._frame.index(struct.pack(">q", PLACEHOLDER))
        # Of an answer of version 11: size, correlation id, throttle time, error, session id; one
        # topic and its name; one partition, its index; error; three offsets, aborted transactions,
        # preferred replica; the size of the records.
        self._error_at = 4 + 4 + 4 + 2 + 4 + 4 + 2 + len(topic.encode()) + 4 + 4
        self._records_size_at = self._error_at + 2 + 3 * 8 + 4 + 4
        self._head = b""
        self._received = 0
        self._size = 0  # of an answer whose head has arrived
        self._connection = connect(address)

    def fileno(self) -> int:
        return self._connection.fileno()

    def begin(self) -> None:
        struct.pack_into(">q", self._frame, self._offset_at, self.offset)
        self._connection.sendall(self._frame)

    def receive(self) -> None:
        """Takes what has arrived; at the end of an answer the next poll begins."""
        received = self._connection.recv_into(_memory)
        if not received:
            raise LoadError("the broker closed the connection")
        self._received += received
        if not self._size:
            self._head += _memory[: min(received, self._records_size_at + 4 - len(self._head))]
            if len(self._head) < self._records_size_at + 4:
                return
            self._size = 4 + struct.unpack_from(">i", self._head)[0]
        if self._received == self._size:
            self._end_answer()

    def _end_answer(self) -> None:
        (code,) = struct.unpack_from(">h", self._head, self._error_at)
        if code:
            raise LoadError(f"fetch: error {code}")
        (records_size,) = struct.unpack_from(">i", self._head, self._records_size_at)
        batches = max(0, records_size) // self._batch_size
        self._head, self._received, self._size = b"", 0, 0
        if batches:
            self.wake_ups += 1
            self.batches += batches
            self.offset += batches * self._records_per_batch
            self._on_batches(batches)
        self.begin()

    def close(self) -> None:
        self._connection.close()
