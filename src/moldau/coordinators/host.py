"""Runs one coordinator shard on the partition that holds its state.

The shard decides, the host acts: it appends the records of an outcome as one batch, replays them
into the shard, and sends the replies and starts the effects once the batch is committed. It keeps
one timer for all deadlines of the shard. A host lives as long as this broker leads the partition in
one leader epoch; then everything that waits is answered with NOT_COORDINATOR.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from enum import Enum, auto
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from moldau.coordinators.commit_queue import CommitQueue
from moldau.coordinators.loading import load
from moldau.coordinators.requests import Answer, ErrorAnswer, PendingRequest
from moldau.coordinators.shard import Shard
from moldau.errors import ErrorCode, KafkaError
from moldau.log import AppendOrigin
from moldau.machine.clock import Clock, Timer
from moldau.outcome import Effect, Outcome, Record, Reply, Transaction, append_error
from moldau.records.builder import BatchBuilder, record_size_bound
from moldau.records.compression import Compression
from moldau.records.control import TransactionMarker
from moldau.replication import Partition
from moldau.wire.errors import DecodeError

log = logging.getLogger(__name__)

ACKS_ALL = -1
BACKGROUND_BATCH_BYTES = 256 * 1024
CLOCK_TOLERANCE_MS = 1000
"""The wall clock and the steady one may drift apart by so much between two looks."""

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], None]
"""Runs something as a task of its own, whose failure is logged."""


class HostState(Enum):
    LOADING = auto()
    """The log is being replayed: COORDINATOR_LOAD_IN_PROGRESS."""
    ACTIVE = auto()
    """Requests are served."""
    CLOSED = auto()
    """Another broker leads, or the log cannot be read: NOT_COORDINATOR."""


S = TypeVar("S", bound=Shard)


class ShardHost(Generic[S]):
    """One shard, its partition, its timer and the requests that wait in it."""

    def __init__(
        self,
        partition: Partition,
        shard: S,
        clock: Clock,
        spawn: Spawn,
        *,
        compression: Compression,
        commit_timeout_ms: int,
    ) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.shard = shard
        self.state = HostState.LOADING
        self.load_begun = False
        self._clock = clock
        self._spawn = spawn
        self._compression = compression
        self._waiting: dict[PendingRequest, None] = {}
        """In the order in which they came: the order in which they are given up."""
        self._uncommitted = CommitQueue(partition, clock, self, timeout_ms=commit_timeout_ms)
        self._written = 0
        """The end of what this host appended: nobody hears of it before all of it is committed."""
        self._timer: Timer | None = None
        self._timer_at = 0
        self._looked_ms = clock.now_ms()
        self._looked_at = clock.monotonic()

    # Life ----------------------------------------------------------------------------------------

    async def load(self, slice_bytes: int) -> None:
        """Replay the log, then serve."""
        partition = self.partition
        try:
            count = await load(partition.log, self.shard, self._is_loading, slice_bytes)
        except Exception as error:
            # A fault in one shard must not keep those that are loaded after it from serving.
            says_why = isinstance(error, KafkaError | DecodeError | OSError)
            log.error(
                "cannot load %s: %s",
                partition.topic_partition,
                error,
                exc_info=None if says_why else error,
            )
            self.close()
            return
        if self._is_loading():
            if count:
                log.info("loaded %d records of %s", count, partition.topic_partition)
            self.activate()

    def activate(self) -> None:
        """Everything in the log is replayed: serve."""
        self.state = HostState.ACTIVE
        self._written = self.partition.log.log_end_offset
        self.run(lambda shard, now_ms: shard.on_loaded(now_ms))

    def close(self) -> None:
        """Serve no more; whoever waits is sent to look for the coordinator again."""
        self.state = HostState.CLOSED
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._uncommitted.close()
        waiting, self._waiting = self._waiting, {}
        for request in waiting:
            request.fail(ErrorCode.NOT_COORDINATOR)

    def _is_loading(self) -> bool:
        return self.state is HostState.LOADING

    @property
    def _leads(self) -> bool:
        """Whether the partition is still led as it was when its log was replayed. A host learns by
        itself that it is not, before it is closed: others may have written meanwhile.
        """
        partition = self.partition
        return partition.is_leader and partition.leader_epoch == self.leader_epoch

    @property
    def refusal(self) -> ErrorCode:
        """Why requests are not served now; NONE if they are."""
        if self.state is HostState.ACTIVE:
            return ErrorCode.NONE if self._leads else ErrorCode.NOT_COORDINATOR
        if self.state is HostState.LOADING:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR

    @property
    def waiting(self) -> int:
        """How many requests are not answered yet."""
        return len(self._waiting)

    # Work ----------------------------------------------------------------------------------------

    def submit(
        self, call: Callable[[S, PendingRequest, int], Outcome], error_answer: ErrorAnswer
    ) -> Answer:
        """Hand a request to the shard; returns the response, or a future of it."""
        refusal = self.refusal
        if refusal:
            return error_answer(KafkaError(refusal))
        request = PendingRequest(error_answer)
        self._waiting[request] = None
        try:
            self._act(call(self.shard, request, self._now_ms()))
        except Exception:
            # A fault in what one request touches must not take the others down with it.
            log.exception("a request to %s failed", self.partition.topic_partition)
            self._fail(request, ErrorCode.UNKNOWN_SERVER_ERROR)
        self._arm()
        return request.result()

    def end_transaction(self, marker: TransactionMarker) -> Answer:
        """Write the end of a producer's transaction, and let the shard know; returns an error code,
        when it is committed.
        """
        refusal = self.refusal
        if refusal:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        request = PendingRequest(_code_of)
        self._waiting[request] = None
        try:
            info = self.partition.append_marker(marker, self._clock.now_ms())
        except KafkaError as error:
            self._fail(request, error.code)
            return request.result()
        self._written = info.last_offset + 1
        self.shard.replay_end(marker.producer_id, commit=marker.commit)
        self._uncommitted.put(self._written, [Reply(request, ErrorCode.NONE)], ())
        return request.result()

    def run(self, call: Callable[[S, int], Outcome]) -> None:
        """Work that no request asked for: deadlines, changes of topics, ends of effects."""
        if self.state is not HostState.ACTIVE:
            return
        try:
            self._act_in_pieces(call(self.shard, self._now_ms()))
        except Exception:
            log.exception("work on %s failed", self.partition.topic_partition)
        self._arm()

    def _act_in_pieces(self, outcome: Outcome) -> None:
        """Removing what expired may take more records than fit into one batch.

        Where nothing hangs on the whole, and nothing has to be taken back, it need not be atomic.
        """
        if outcome.replies or outcome.effects or outcome.on_failure is not None:
            self._act(outcome)
            return
        piece: list[Record] = []
        size = 0
        for record in outcome.records:
            piece.append(record)
            size += record_size_bound(record.key, record.value)
            if size >= BACKGROUND_BATCH_BYTES:
                self._act(Outcome(piece))
                piece, size = [], 0
        self._act(Outcome(piece))

    def _act(self, outcome: Outcome) -> None:
        if outcome.records:
            try:
                self._append(outcome.records, outcome.transaction)
            except KafkaError as error:
                self._append_failed(outcome, error)
                return
            replay = self.shard.replay
            if outcome.transaction is not None:
                replay = partial(self.shard.replay_pending, outcome.transaction.producer_id)
            for key, value in outcome.records:
                replay(key, value)
        if outcome.replies or outcome.effects:
            self._uncommitted.put(self._written, outcome.replies, outcome.effects)

    def _append(self, records: Sequence[Record], transaction: Transaction | None) -> None:
        if not self._leads:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        now_ms = self._clock.now_ms()
        builder = BatchBuilder(compression=self._compression)
        for key, value in records:
            builder.append(now_ms, key, value)
        if transaction is None:
            batch = builder.build()
        else:
            batch = builder.build(
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                transactional=True,
            )
        info = self.partition.append(memoryview(batch), ACKS_ALL, now_ms, AppendOrigin.COORDINATOR)
        self._written = info.last_offset + 1

    def _append_failed(self, outcome: Outcome, error: KafkaError) -> None:
        log.warning("cannot write to %s: %s", self.partition.topic_partition, error)
        self.send(outcome.failed(append_error(error.code)))
        self.refuse(outcome.replies, error.code)

    # What the queue of uncommitted outcomes calls ------------------------------------------------

    def send(self, replies: Sequence[Reply]) -> None:
        for token, response in replies:
            if isinstance(token, PendingRequest):
                self._waiting.pop(token, None)
                token.answer(response)

    def refuse(self, replies: Sequence[Reply], code: ErrorCode) -> None:
        for token, _ in replies:
            self._fail(token, append_error(code))

    def start(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            try:
                work = effect()
            except Exception:
                log.exception("an effect of %s failed", self.partition.topic_partition)
                continue
            if work is not None:
                self._spawn(work)

    def _fail(self, token: object, code: ErrorCode) -> None:
        if isinstance(token, PendingRequest):
            self._waiting.pop(token, None)
            token.fail(code)

    # Time ----------------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        """Returns the wall-clock time, which is what records carry. If somebody has set the clock
        since the last look, deadlines move with it: no session may end, or last for ever, because
        of it.
        """
        now_ms, now = self._clock.now_ms(), self._clock.monotonic()
        set_by_ms = now_ms - self._looked_ms - int((now - self._looked_at) * 1000)
        self._looked_ms, self._looked_at = now_ms, now
        if abs(set_by_ms) >= CLOCK_TOLERANCE_MS:
            self.shard.clock_was_set(set_by_ms)
            self._timer_at += set_by_ms
        return now_ms

    def _arm(self) -> None:
        """Keep a timer for the earliest deadline; one that fires too early does no harm."""
        due = self.shard.next_deadline()
        if due is None or self.state is not HostState.ACTIVE:
            return
        if self._timer is not None:
            if self._timer_at <= due:
                return
            self._timer.cancel()
        self._timer_at = due
        delay_ms = max(due - self._looked_ms, 0)
        self._timer = self._clock.call_later(delay_ms / 1000, self._time_has_come)

    def _time_has_come(self) -> None:
        self._timer = None
        self.run(lambda shard, now_ms: shard.on_time(now_ms))


def _code_of(error: KafkaError) -> ErrorCode:
    """Who writes markers looks for the leader of a partition, not for a coordinator."""
    if error.code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return error.code
