"""The coordinator state of one ``__transaction_state`` partition: its transactional ids.

Requests become steps (``rules``), steps become records, and records, replayed, become the state.
A decision is told to the partitions by an effect, so only once it is committed; whoever finds one
that is not noted as done, after a change of coordinators, tells it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from moldau.errors import ErrorCode, KafkaError
from moldau.machine.clock_watch import JUMP_MS
from moldau.model import TopicPartition
from moldau.outcome import Effect, Outcome, Reply
from moldau.transactions import rules
from moldau.transactions.listing import TransactionFilter
from moldau.transactions.markers import Decision, Markers
from moldau.transactions.metadata import TransactionMetadata, TransactionVersion
from moldau.transactions.records import from_record, to_record, tombstone
from moldau.transactions.rules import Producer, ProducerIdNeededError
from moldau.transactions.settings import TransactionSettings
from moldau.transactions.states import PREVIOUS, TransactionState
from moldau.wire.stored.transaction_records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

_EXPIRE_AT_ONCE: Final = 1000
"""Ids that are removed together; the rest is left for the next look."""
_ABORT_AT_ONCE: Final = 20
"""Transactions that are aborted by one batch."""
_ABORT_BYTES: Final = 256 * 1024
"""What their records may take together: each may have many partitions."""
_ABORT_PAUSE_MS: Final = 100
"""Between such batches, which may fail one after the other."""


class ProducerIdResult(NamedTuple):
    """What InitProducerId and EndTxn answer."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class NewProducerIdWanted:
    """The answer to a request that needs a producer id which nobody has had: it is to come again
    with one. Where they come from is not known here.
    """


PRODUCER_ID_WANTED: Final = NewProducerIdWanted()

PartitionErrors: TypeAlias = dict[TopicPartition, ErrorCode]


class TransactionShard:
    """First ``replay`` what is stored, then ``on_loaded``, then requests and deadlines."""

    def __init__(self, settings: TransactionSettings, markers: Markers) -> None:
        self._settings = settings
        self._markers = markers
        self._transactions: dict[str, TransactionMetadata] = {}
        self._deadlines: dict[str, int] = {}
        """Of open transactions: by this coordinator's clock, which may be set."""
        self._next_look_ms = 0
        self._next_expiry_ms = 0
        self._skips_expiry = False

    # Requests ------------------------------------------------------------------------------------

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: Producer | None,
        token: object,
        now_ms: int,
        new_producer_id: int | None = None,
    ) -> Outcome:
        if not 0 < timeout_ms <= self._settings.max_timeout_ms:
            return _refused(token, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        known = self._transactions.get(transactional_id)
        try:
            step = rules.init_producer_id(
                known, transactional_id, timeout_ms, expected, new_producer_id, now_ms
            )
        except ProducerIdNeededError:
            return Outcome.reply(token, PRODUCER_ID_WANTED)
        except KafkaError as error:
            return _refused(token, error.code)
        if step.state.is_decided:
            # Somebody else's transaction was open; when that has ended the producer may come.
            outcome = self._decide(step)
            outcome.replies.append(
                Reply(token, ProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS))
            )
            return outcome
        result = ProducerIdResult(ErrorCode.NONE, step.producer_id, step.producer_epoch)
        return Outcome([to_record(step)], [Reply(token, result)])

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        version: TransactionVersion,
        token: object,
        now_ms: int,
    ) -> Outcome:
        """Replies with the error of each partition, which is the same for all."""
        known = self._transactions.get(transactional_id)
        try:
            step = rules.add_partitions(known, producer, partitions, version, now_ms)
        except KafkaError as error:
            return Outcome.reply(token, dict.fromkeys(partitions, error.code))
        reply = Reply(token, dict.fromkeys(partitions, ErrorCode.NONE))
        return Outcome([] if step is None else [to_record(step)], [reply])

    def verify_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Iterable[TopicPartition],
        token: object,
    ) -> Outcome:
        """Replies with the error of each partition that is not in the open transaction."""
        known = self._transactions.get(transactional_id)
        try:
            errors = rules.verify_partitions(known, producer, partitions)
        except KafkaError as error:
            errors = dict.fromkeys(partitions, error.code)
        return Outcome.reply(token, errors)

    def end_transaction(
        self,
        transactional_id: str,
        producer: Producer,
        token: object,
        now_ms: int,
        *,
        commit: bool,
        version: TransactionVersion,
        new_producer_id: int | None = None,
    ) -> Outcome:
        """Replies when the decision is committed; the markers come after that."""
        try:
            end = rules.end_transaction(
                self._transactions.get(transactional_id),
                producer,
                commit=commit,
                version=version,
                new_producer_id=new_producer_id,
                now_ms=now_ms,
            )
        except ProducerIdNeededError:
            return Outcome.reply(token, PRODUCER_ID_WANTED)
        except KafkaError as error:
            return _refused(token, error.code)
        outcome = self._decide(end.metadata) if end.is_new else Outcome()
        result = ProducerIdResult(ErrorCode.NONE, *end.metadata.producer_after_end)
        outcome.replies.append(Reply(token, result))
        return outcome

    # Decisions -----------------------------------------------------------------------------------

    def _decide(self, step: TransactionMetadata) -> Outcome:
        return Outcome([to_record(step)], effects=[self._telling(step)])

    def _telling(self, decided: TransactionMetadata) -> Effect:
        decision = Decision.of(decided)
        return lambda: self._markers.write(decision)

    def is_pending(self, decision: Decision) -> bool:
        """Whether this is the present decision of its transactional id, and not noted as done."""
        known = self._transactions.get(decision.transactional_id)
        return known is not None and known.state.is_decided and Decision.of(known) == decision

    def markers_written(self, decision: Decision, now_ms: int) -> Outcome:
        """All partitions have their markers, as far as they still exist."""
        if not self.is_pending(decision):
            return Outcome()
        known = self._transactions[decision.transactional_id]
        return Outcome([to_record(known.completed(now_ms))])

    # Administration ------------------------------------------------------------------------------

    def get(self, transactional_id: str) -> TransactionMetadata | None:
        return self._transactions.get(transactional_id)

    def list_transactions(
        self, wanted: TransactionFilter, now_ms: int
    ) -> list[TransactionMetadata]:
        return [each for each in self._transactions.values() if wanted.accepts(each, now_ms)]

    def counts(self) -> Counter[TransactionState]:
        """How many transactional ids are in each state."""
        return Counter(each.state for each in self._transactions.values())

    # Time ----------------------------------------------------------------------------------------

    def next_deadline(self) -> int | None:
        if self._deadlines:
            return min(self._next_look_ms, self._next_expiry_ms)
        return self._next_expiry_ms if self._transactions else None

    def clock_was_set(self, by_ms: int) -> None:
        """A transaction takes as long as it takes, whatever the wall clock does.

        After a jump ahead the next look removes no id: by a clock that is wrong all of them may be
        too old.
        """
        self._deadlines = {name: due + by_ms for name, due in self._deadlines.items()}
        self._next_look_ms += by_ms
        self._next_expiry_ms += by_ms
        if abs(by_ms) >= JUMP_MS:
            self._skips_expiry = by_ms > 0

    def on_time(self, now_ms: int) -> Outcome:
        """Abort what takes too long; forget who is gone."""
        outcome = Outcome()
        if now_ms >= self._next_look_ms:
            outcome.extend(self._abort_late(now_ms))
        if now_ms >= self._next_expiry_ms:
            self._next_expiry_ms = now_ms + self._settings.expiry_interval_ms
            if not self._skips_expiry:
                outcome.records += [tombstone(name) for name in self._expired(now_ms)]
            self._skips_expiry = False
        return outcome

    def _abort_late(self, now_ms: int) -> Outcome:
        late = [name for name, due in self._deadlines.items() if due < now_ms]
        outcome = Outcome()
        size = aborted = 0
        for name in late[:_ABORT_AT_ONCE]:
            abort = self._decide(rules.fenced(self._transactions[name], now_ms))
            size += sum(len(key) + len(value or b"") for key, value in abort.records)
            if aborted and size > _ABORT_BYTES:
                break
            outcome.extend(abort)
            aborted += 1
        rest = aborted < len(late)
        self._next_look_ms = now_ms + (
            _ABORT_PAUSE_MS if rest else self._settings.abort_interval_ms
        )
        return outcome

    def _expired(self, now_ms: int) -> list[str]:
        oldest_ms = now_ms - self._settings.id_expiration_ms
        expired = [
            each.transactional_id
            for each in self._transactions.values()
            if each.updated_ms <= oldest_ms and each.state in PREVIOUS[TransactionState.DEAD]
        ]
        return expired[:_EXPIRE_AT_ONCE]

    # The log -------------------------------------------------------------------------------------

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Bring the state up to one record; kinds of records that are not known are skipped."""
        decoded = from_record(key, value)
        if decoded is None:
            return
        transactional_id, metadata = decoded
        if metadata is None:
            self._transactions.pop(transactional_id, None)
        else:
            self._transactions[transactional_id] = metadata
        deadline_ms = None if metadata is None else metadata.deadline_ms
        if deadline_ms is None:
            self._deadlines.pop(transactional_id, None)
        else:
            # Partitions that join later do not give it more time, whatever was done to the clock.
            self._deadlines.setdefault(transactional_id, deadline_ms)

    def replay_pending(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        """No transaction has records here: that is what this topic is about."""

    def replay_end(self, producer_id: int, *, commit: bool) -> None: ...

    def on_loaded(self, now_ms: int) -> Outcome:
        """The whole log is replayed: tell again what was decided and is not noted as done."""
        self._next_look_ms = now_ms + self._settings.abort_interval_ms
        self._next_expiry_ms = now_ms + self._settings.expiry_interval_ms
        undone = [each for each in self._transactions.values() if each.state.is_decided]
        return Outcome(effects=[self._telling(each) for each in undone])


def _refused(token: object, code: ErrorCode) -> Outcome:
    return Outcome.reply(token, ProducerIdResult(code))


Call: TypeAlias = Callable[[TransactionShard, object, int, int | None], Outcome]
"""A request to a shard that may want a new producer id, its last argument."""
