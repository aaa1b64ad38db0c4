"""From the topic into the database: a consumer, a bounded queue, one thread that stores.

The consumer never waits for the database: when the queue is full its partitions are paused and it
keeps polling, so that its group does not give it up. An offset is committed only when everything
before it is in the database.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final, Protocol

from sqlalchemy.exc import DataError, DBAPIError, SQLAlchemyError, StatementError

from moldau.client.errors import KafkaError
from moldau.mailalert.alert import Alert, InvalidAlertError, decode_alert, is_time
from moldau.mailalert.store import AlertStore, Incoming, fingerprint
from moldau.model import OffsetAndMetadata, TopicPartition

_log = logging.getLogger(__name__)

STORE_AT_ONCE: Final = 2_000
_LONGEST_REASON: Final = 500
_COMMIT_EVERY: Final = 1.0
_POLL: Final = 0.2


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Consuming(Protocol):
    """What this module needs of ``moldau.Consumer``."""

    def poll(self, timeout: float = ..., max_records: int | None = ...) -> Any: ...
    def assignment(self) -> Iterable[TopicPartition]: ...
    def pause(self, *partitions: TopicPartition) -> None: ...
    def resume(self, *partitions: TopicPartition) -> None: ...
    def commit(self, offsets: Any = ...) -> Any: ...
    def close(self) -> None: ...


class Progress:
    """The offsets before which everything is stored, of the partitions that are ours.

    Alerts of a partition that was taken away may still be in the queue. They are stored, but they
    say nothing about how far its next owner is.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owned: set[TopicPartition] = set()
        self._stored: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}

    def own(self, partitions: Iterable[TopicPartition]) -> None:
        with self._lock:
            self._owned.update(partitions)

    def stored(self, batch: Iterable[Incoming]) -> None:
        """They come in the order of reading: a smaller offset is that of a topic made anew."""
        with self._lock:
            for incoming in batch:
                place = TopicPartition(incoming.topic, incoming.partition)
                if place in self._owned:
                    self._stored[place] = incoming.offset + 1

    def to_commit(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        with self._lock:
            return {
                place: self._stored[place]
                for place in partitions
                if place in self._stored and self._stored[place] != self._committed.get(place)
            }

    def committed(self, offsets: dict[TopicPartition, int]) -> None:
        with self._lock:
            self._committed.update(offsets)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """They belong to somebody else now."""
        with self._lock:
            for place in partitions:
                self._owned.discard(place)
                self._stored.pop(place, None)
                self._committed.pop(place, None)


class Intake:
    """Thread of the consumer."""

    def __init__(self, consumer: Consuming, alerts: queue.Queue[Incoming]) -> None:
        self._consumer = consumer
        self._queue = alerts
        self._waiting: deque[Incoming] = deque()
        self._paused = False
        self._stop = threading.Event()
        self._drained = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mailalert intake", daemon=True)
        self._last_commit = 0.0
        self.progress = Progress()
        self.received = 0
        self.failure: Exception | None = None

    @property
    def paused(self) -> bool:
        return self._paused

    def start(self) -> None:
        self._thread.start()

    def stop_polling(self) -> None:
        """Take nothing more; ``finish`` commits what was stored."""
        self._stop.set()

    def finish(self, timeout: float = 30.0) -> None:
        self._drained.set()
        self._thread.join(timeout)

    def on_message(self, record: Any) -> None:
        """Put one record's alert into the queue, behind those that wait for room."""
        alert: Alert | InvalidAlertError
        written_ms = record.timestamp if is_time(record.timestamp) else _now_ms()
        try:
            alert = decode_alert(record.value, written_ms)
        except InvalidAlertError as error:
            alert = error
            _log.warning(
                "%s-%d offset %d is no alert: %s",
                record.topic,
                record.partition,
                record.offset,
                error,
            )
        value = record.value or b""
        raw = value if isinstance(alert, InvalidAlertError) else b""
        mark = fingerprint(record.timestamp, value)
        self._waiting.append(
            Incoming(record.topic, record.partition, record.offset, alert, raw, mark)
        )
        self.received += 1

    def on_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        self.progress.own(partitions)

    def on_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """Commit for the next owner, who then starts where this process really is."""
        partitions = list(partitions)
        self._commit(partitions)
        self.progress.forget(partitions)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._turn()
            while not self._drained.wait(_POLL):
                self._consumer.poll(timeout=0.0)  # stay a member while the rest is stored
            self._commit(self._consumer.assignment())
        except Exception as error:
            _log.exception("reading alerts has failed")
            self.failure = error
        finally:
            self._consumer.close()

    def _turn(self) -> None:
        for records in self._consumer.poll(timeout=0.0 if self._waiting else _POLL).values():
            for record in records:
                self.on_message(record)
        self._move()
        now = time.monotonic()
        if now - self._last_commit >= _COMMIT_EVERY:
            self._last_commit = now
            self._commit(self._consumer.assignment())

    def _move(self) -> None:
        """From the waiting ones into the queue, and pause or resume as there is room."""
        waiting = self._waiting
        try:
            while waiting:
                self._queue.put(waiting[0], timeout=_POLL if self._paused else 0.0)
                waiting.popleft()
        except queue.Full:
            # Again in every turn: partitions that were assigned meanwhile are not paused.
            self._consumer.pause(*self._consumer.assignment())
            self._paused = True
            return
        if self._paused:
            self._consumer.resume(*self._consumer.assignment())
            self._paused = False

    def _commit(self, partitions: Iterable[TopicPartition]) -> None:
        offsets = self.progress.to_commit(partitions)
        if not offsets:
            return
        try:
            self._consumer.commit(
                {place: OffsetAndMetadata(offset) for place, offset in offsets.items()}
            )
        except KafkaError as error:
            # Nothing is lost: what is read again is found in the database.
            _log.warning("offsets could not be committed: %s", error)
        else:
            self.progress.committed(offsets)


class Drain:
    """The thread that takes alerts out of the queue and stores them, grouped by subject."""

    def __init__(
        self,
        alerts: queue.Queue[Incoming],
        store: AlertStore,
        progress: Progress,
        now_ms: Callable[[], int] = _now_ms,
    ) -> None:
        self._queue = alerts
        self._store = store
        self._progress = progress
        self._now_ms = now_ms
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mailalert drain", daemon=True)
        self.stored = 0
        self.failure: Exception | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 30.0) -> None:
        """Store what is in the queue, then end."""
        self._stop.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            while True:
                batch = self._take()
                if batch:
                    if not self._write(batch):
                        # Nothing behind a batch that was not stored may be: its offset would be
                        # committed over the gap.
                        return
                elif self._stop.is_set():
                    return
        except Exception as error:
            _log.exception("storing alerts has failed")
            self.failure = error

    def _take(self) -> list[Incoming]:
        batch: list[Incoming] = []
        try:
            batch.append(self._queue.get(timeout=_POLL))
            while len(batch) < STORE_AT_ONCE:
                batch.append(self._queue.get_nowait())
        except queue.Empty:
            pass
        return batch

    def _write(self, batch: list[Incoming]) -> bool:
        delay = 0.1
        while True:
            try:
                self._store_all(batch)
                self._progress.stored(batch)
                return True
            except SQLAlchemyError as error:
                _log.warning("the database does not answer; alerts wait: %s", error)
                # Not stored means not committed: ending here loses nothing.
                if self._stop.wait(delay):
                    return False
                delay = min(delay * 2, 5.0)

    def _store_all(self, batch: list[Incoming]) -> None:
        """Store a batch; an alert that no database takes is kept as a record that is none."""
        try:
            self.stored += self._store.store(batch, self._now_ms())
        except Exception as error:
            if not _is_to_blame(error):
                raise
            if len(batch) > 1:
                for incoming in batch:
                    self._store_all([incoming])
                return
            [incoming] = batch
            if isinstance(incoming.alert, InvalidAlertError):
                raise
            reason = InvalidAlertError(f"it cannot be stored: {error}"[:_LONGEST_REASON])
            self._store_all([replace(incoming, alert=reason)])


def _is_to_blame(error: Exception) -> bool:
    """Returns whether what was to be stored is at fault, and not the state of the database."""
    if isinstance(error, DBAPIError):
        return isinstance(error, DataError)
    return isinstance(error, StatementError) or not isinstance(error, SQLAlchemyError)
