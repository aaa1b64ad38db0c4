"""A small coordinator, and hosts that run it on a partition in memory."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from moldau.coordinators import ShardHost
from moldau.errors import ErrorCode, KafkaError
from moldau.outcome import Effect, Outcome, Record, Reply
from moldau.records.compression import Compression
from moldau.replication import Partition
from moldau.testing.clock import ManualClock

COMMIT_TIMEOUT_MS = 5000


class Notes:
    """A shard that keeps a table of notes and can let requests wait."""

    def __init__(self) -> None:
        self.table: dict[bytes, bytes | None] = {}
        self.replayed: list[bytes] = []
        self.pending: dict[int, list[tuple[bytes, bytes | None]]] = {}
        self.deadline: int | None = None
        self.due: list[int] = []
        self.undone: list[ErrorCode] = []
        self.loaded = False
        self.at_deadline: Callable[[int], Outcome] = lambda _now_ms: Outcome()
        self.when_loaded: Callable[[], Outcome] = Outcome

    def replay(self, key: bytes, value: bytes | None) -> None:
        self.replayed.append(key)
        self.table[key] = value

    def replay_pending(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        self.pending.setdefault(producer_id, []).append((key, value))

    def replay_end(self, producer_id: int, *, commit: bool) -> None:
        for key, value in self.pending.pop(producer_id, []) if commit else ():
            self.replay(key, value)

    def on_loaded(self, _now_ms: int) -> Outcome:
        self.loaded = True
        return self.when_loaded()

    def next_deadline(self) -> int | None:
        return self.deadline

    def clock_was_set(self, by_ms: int) -> None:
        if self.deadline is not None:
            self.deadline += by_ms

    def on_time(self, now_ms: int) -> Outcome:
        self.due.append(now_ms)
        self.deadline = None
        return self.at_deadline(now_ms)

    def note(self, key: bytes, token: object, *effects: Effect) -> Outcome:
        def undo(code: ErrorCode) -> list[Reply]:
            self.undone.append(code)
            return [Reply(token, ("undone", code))]

        return Outcome([Record(key, b"v")], [Reply(token, ("noted", key))], undo, [*effects])


def error(failure: KafkaError) -> Any:
    return "error", failure.code


def no_tasks(_work: Coroutine[Any, Any, None]) -> None:
    raise AssertionError("nothing here runs as a task")


def make_host(
    partition: Partition, clock: ManualClock | None = None, **settings: Any
) -> ShardHost[Notes]:
    defaults: dict[str, Any] = {
        "spawn": no_tasks,
        "compression": Compression.NONE,
        "commit_timeout_ms": COMMIT_TIMEOUT_MS,
    }
    return ShardHost(partition, Notes(), clock or ManualClock(), **(defaults | settings))


def active_host(
    partition: Partition, clock: ManualClock | None = None, **settings: Any
) -> ShardHost[Notes]:
    host = make_host(partition, clock, **settings)
    host.activate()
    return host


def note(host: ShardHost[Notes], key: bytes, *effects: Effect) -> Any:
    return host.submit(lambda shard, token, _now: shard.note(key, token, *effects), error)
