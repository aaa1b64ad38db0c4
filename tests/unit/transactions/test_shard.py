"""The life of transactions: who may begin, join and end one, what markers say, what survives."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.transactions.harness import (
    FIRST,
    ID,
    NOW_MS,
    SECOND,
    TIMEOUT_MS,
    TV_0,
    TV_2,
    Coordinator,
)

from moldau.errors import ErrorCode
from moldau.model import TopicPartition
from moldau.transactions.listing import TransactionFilter, known_states, unknown_states
from moldau.transactions.metadata import LARGEST_EPOCH, ImpossibleStepError, TransactionVersion
from moldau.transactions.rules import Producer
from moldau.transactions.settings import TransactionSettings
from moldau.transactions.shard import PRODUCER_ID_WANTED
from moldau.transactions.states import TransactionState

NONE = ErrorCode.NONE
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.PRODUCER_FENCED
S = TransactionState
VERSIONS = pytest.mark.parametrize("version", [TV_0, TV_2])


def state_of(coordinator: Coordinator) -> TransactionState:
    return coordinator.metadata.state


def ended(coordinator: Coordinator, *, commit: bool = True) -> Producer:
    """A producer whose first transaction, of version 2, has ended; as it was in it."""
    producer = coordinator.started()
    coordinator.add(producer, FIRST)
    coordinator.end(producer, commit=commit)
    coordinator.complete()
    return producer


# InitProducerId ----------------------------------------------------------------------------------


def test_a_new_id_wants_a_producer_id_and_begins_with_epoch_0() -> None:
    coordinator = Coordinator()
    outcome = coordinator.shard.init_producer_id(ID, TIMEOUT_MS, None, "token", NOW_MS)
    assert outcome.replies[0].response is PRODUCER_ID_WANTED
    assert not outcome.records
    assert coordinator.init() == (NONE, 1001, 0)
    assert coordinator.init() == (NONE, 1001, 1)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_that_is_none_or_too_long_is_refused(timeout_ms: int) -> None:
    outcome = Coordinator().shard.init_producer_id(ID, timeout_ms, None, None, NOW_MS, 1)
    assert outcome.replies[0].response.error is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_an_open_transaction_is_aborted_first_and_the_epoch_rises_once() -> None:
    coordinator = Coordinator()
    old = coordinator.started()
    coordinator.add(old, FIRST)
    assert coordinator.init().error is CONCURRENT
    (decision,) = coordinator.told
    assert (decision.commit, decision.producer_epoch) == (False, old.epoch + 1)
    assert coordinator.init().error is CONCURRENT, "its markers are on their way"
    assert len(coordinator.told) == 1
    coordinator.complete()
    assert coordinator.init() == (NONE, old.producer_id, old.epoch + 2)
    assert coordinator.add(old, FIRST) is FENCED
    assert coordinator.end(old).error is FENCED


def test_a_producer_that_goes_on_after_an_error_may_ask_again() -> None:
    coordinator = Coordinator()
    producer = coordinator.started()
    assert coordinator.init(producer) == (NONE, producer.producer_id, 1)
    assert coordinator.init(producer) == (NONE, producer.producer_id, 1)
    coordinator.fail_over()
    assert coordinator.init(producer) == (NONE, producer.producer_id, 1)
    coordinator.init()
    assert coordinator.init(producer).error is FENCED
    assert coordinator.init(Producer(7, 0)).error is FENCED


def test_used_up_epochs_bring_a_new_id_which_may_be_asked_for_again() -> None:
    coordinator = Coordinator()
    producer = coordinator.with_epoch(LARGEST_EPOCH - 1)
    given = coordinator.init(producer)
    assert given.producer_id != producer.producer_id
    assert given.producer_epoch == 0
    assert coordinator.init(producer) == given
    coordinator = Coordinator()
    producer = coordinator.with_epoch(LARGEST_EPOCH - 1)
    coordinator.add(producer, FIRST)
    assert coordinator.init().error is CONCURRENT
    assert coordinator.told[0].producer_epoch == LARGEST_EPOCH
    coordinator.complete()
    assert coordinator.init().producer_epoch == 0
    assert coordinator.metadata.producer_id != producer.producer_id


def test_the_epoch_that_fenced_a_producer_of_the_last_epoch_is_given_to_nobody() -> None:
    coordinator = Coordinator()
    producer = coordinator.with_epoch(LARGEST_EPOCH - 1)
    coordinator.add(producer, FIRST)
    assert coordinator.init(producer).error is CONCURRENT
    coordinator.complete()
    assert coordinator.metadata.producer_epoch == LARGEST_EPOCH
    given = coordinator.init(producer)
    assert (given.error, given.producer_epoch) == (NONE, 0)
    assert given.producer_id != producer.producer_id
    assert coordinator.init(producer) == given, "it asks again"


def test_a_late_init_producer_id_does_not_abort_the_next_transaction() -> None:
    coordinator = Coordinator()
    late = ended(coordinator)
    present = Producer(late.producer_id, late.epoch + 1)
    coordinator.add(present, FIRST)
    assert coordinator.init(late).error is FENCED
    assert state_of(coordinator) is S.ONGOING
    assert coordinator.init(present).error is CONCURRENT, "its own it may"
    assert state_of(coordinator) is S.PREPARE_ABORT


# AddPartitionsToTxn ------------------------------------------------------------------------------


def test_partitions_join_the_transaction() -> None:
    coordinator = Coordinator()
    producer = coordinator.started()
    assert coordinator.add(producer, FIRST) is NONE
    coordinator.now_ms += 5
    assert coordinator.add(producer, SECOND) is NONE
    assert coordinator.metadata.partitions == {FIRST, SECOND}
    assert coordinator.metadata.start_ms == NOW_MS
    stored = len(coordinator.log)
    assert coordinator.add(producer, FIRST, SECOND) is NONE
    assert len(coordinator.log) == stored, "nothing new, nothing stored"


def test_who_is_not_the_producer_may_add_nothing() -> None:
    coordinator = Coordinator()
    assert coordinator.add(Producer(1, 0), FIRST) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    producer = coordinator.started()
    other = Producer(producer.producer_id + 1, 0)
    assert coordinator.add(other, FIRST) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.add(Producer(producer.producer_id, 1), FIRST) is FENCED


def test_verifying_changes_nothing() -> None:
    coordinator = Coordinator()
    producer = coordinator.started()
    coordinator.add(producer, FIRST)

    def verified(producer: Producer) -> object:
        outcome = coordinator.shard.verify_partitions(ID, producer, [FIRST, SECOND], None)
        assert not outcome.records
        return outcome.replies[0].response

    assert verified(producer) == {FIRST: NONE, SECOND: ErrorCode.TRANSACTION_ABORTABLE}
    assert verified(Producer(producer.producer_id, 5)) == {FIRST: FENCED, SECOND: FENCED}
    coordinator.end(producer)
    assert verified(producer) == {FIRST: CONCURRENT, SECOND: CONCURRENT}


# EndTxn ------------------------------------------------------------------------------------------


@VERSIONS
@pytest.mark.parametrize("commit", [True, False])
def test_a_decision_is_told_and_noted_as_done(version: TransactionVersion, commit: bool) -> None:
    coordinator = Coordinator()
    producer = coordinator.started()
    coordinator.add(producer, FIRST, SECOND, version=version)
    bumped = producer.epoch + 1 if version is TV_2 else producer.epoch
    assert coordinator.end(producer, commit=commit, version=version) == (
        NONE,
        producer.producer_id,
        bumped,
    )
    (decision,) = coordinator.told
    assert decision == (
        ID,
        producer.producer_id,
        bumped,
        commit,
        version,
        frozenset({FIRST, SECOND}),
    )
    assert state_of(coordinator) is (S.PREPARE_COMMIT if commit else S.PREPARE_ABORT)
    assert coordinator.end(producer, commit=commit, version=version).error is CONCURRENT
    coordinator.complete()
    assert state_of(coordinator) is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)
    assert not coordinator.metadata.partitions
    again = coordinator.end(producer, commit=commit, version=version)
    assert again == (NONE, producer.producer_id, bumped)
    other = coordinator.end(producer, commit=not commit, version=version)
    assert other.error is ErrorCode.INVALID_TXN_STATE
    assert len(coordinator.told) == 1


def test_the_next_transaction_waits_for_the_markers_of_the_last() -> None:
    coordinator = Coordinator()
    producer = coordinator.started()
    coordinator.add(producer, FIRST)
    after = Producer(*coordinator.end(producer)[1:])
    assert coordinator.add(after, SECOND) is CONCURRENT
    assert coordinator.add(producer, SECOND) is CONCURRENT
    coordinator.complete()
    assert coordinator.add(after, SECOND) is NONE
    assert coordinator.add(producer, SECOND) is FENCED


@VERSIONS
def test_nothing_is_committed_without_partitions(version: TransactionVersion) -> None:
    coordinator = Coordinator()
    producer = coordinator.started()
    assert coordinator.end(producer, version=version).error is ErrorCode.INVALID_TXN_STATE
    assert coordinator.end(Producer(1, 0), version=version).error is (
        ErrorCode.INVALID_PRODUCER_ID_MAPPING
    )


def test_an_abort_without_partitions_raises_the_epoch_too() -> None:
    coordinator = Coordinator()
    producer = coordinator.started()
    for epoch in (1, 2, 3):
        assert coordinator.end(producer, commit=False) == (NONE, producer.producer_id, epoch)
        assert coordinator.told[-1].partitions == frozenset()
        coordinator.complete()
        assert coordinator.end(producer, commit=False) == (NONE, producer.producer_id, epoch)
        producer = Producer(producer.producer_id, epoch)
    refused = coordinator.end(producer, commit=False, version=TV_0)
    assert refused.error is NONE, "a retry, as far as the older protocol can tell"


def test_a_late_end_does_not_hit_the_next_transaction() -> None:
    coordinator = Coordinator()
    late = ended(coordinator)
    present = Producer(late.producer_id, late.epoch + 1)
    coordinator.add(present, FIRST)
    assert coordinator.end(late).error is FENCED
    assert coordinator.end(late, commit=False).error is FENCED
    assert state_of(coordinator) is S.ONGOING


@pytest.mark.parametrize("commit", [True, False])
def test_a_fenced_producer_does_not_take_the_end_of_an_older_protocol_for_its_own(
    commit: bool,
) -> None:
    coordinator = Coordinator()
    zombie = coordinator.started()
    present = coordinator.started()
    coordinator.add(present, FIRST, version=TV_0)
    coordinator.end(present, commit=commit, version=TV_0)
    coordinator.complete()
    assert present.epoch == zombie.epoch + 1 == coordinator.metadata.producer_epoch
    assert coordinator.end(zombie, commit=commit).error is FENCED


def test_the_last_epoch_ends_with_a_new_id_that_holds_when_the_markers_are_written() -> None:
    coordinator = Coordinator()
    producer = coordinator.with_epoch(LARGEST_EPOCH - 1)
    coordinator.add(producer, FIRST)
    error, new_id, epoch = coordinator.end(producer)
    assert (error, epoch) == (NONE, 0)
    assert new_id != producer.producer_id
    decision = coordinator.told[0]
    assert (decision.producer_id, decision.producer_epoch) == (producer.producer_id, LARGEST_EPOCH)
    # The new id is known to the producer and not in force: it has to wait, and is not fenced.
    assert coordinator.add(Producer(new_id, 0), FIRST) is CONCURRENT
    assert coordinator.end(Producer(new_id, 0)).error is CONCURRENT
    coordinator.fail_over()
    coordinator.complete()
    assert coordinator.metadata.last_producer_epoch == LARGEST_EPOCH - 1
    assert coordinator.end(producer) == (NONE, new_id, 0), "it asks again"
    assert coordinator.add(Producer(new_id, 0), FIRST) is NONE


# Failover, time ----------------------------------------------------------------------------------


def test_a_decision_that_is_not_noted_as_done_is_told_again_and_no_other() -> None:
    coordinator = Coordinator()
    producer = coordinator.started()
    coordinator.add(producer, FIRST)
    coordinator.fail_over()
    assert coordinator.told == []
    coordinator.end(producer)
    told = coordinator.told
    coordinator.fail_over()
    assert coordinator.told == told
    coordinator.complete()
    coordinator.fail_over()
    assert coordinator.told == []


def test_markers_that_were_written_for_an_older_decision_end_nothing() -> None:
    coordinator = Coordinator()
    producer = coordinator.started()
    coordinator.add(producer, FIRST)
    coordinator.end(producer)
    late = coordinator.told[0]
    coordinator.complete()
    after = Producer(producer.producer_id, producer.epoch + 1)
    coordinator.add(after, SECOND)
    coordinator.end(after)
    assert not coordinator.shard.is_pending(late)
    assert coordinator.shard.markers_written(late, NOW_MS).is_empty
    assert state_of(coordinator) is S.PREPARE_COMMIT


def test_what_takes_too_long_is_aborted_and_its_producer_fenced() -> None:
    coordinator = Coordinator()
    producer = coordinator.started()
    coordinator.add(producer, FIRST)
    coordinator.act(coordinator.shard.on_time(NOW_MS + TIMEOUT_MS))
    assert coordinator.told == []
    coordinator.act(coordinator.shard.on_time(NOW_MS + TIMEOUT_MS + 10_001))
    assert not coordinator.told[0].commit
    coordinator.complete()
    assert coordinator.add(producer, FIRST) is FENCED
    assert coordinator.metadata.producer_epoch == producer.epoch + 1


def late_transactions(coordinator: Coordinator, count: int, partitions: int) -> int:
    """So many transactions that take too long; returns when they are aborted."""
    wanted = frozenset(TopicPartition("t" * 200 + str(number), 0) for number in range(partitions))
    for number in range(count):
        shard, name = coordinator.shard, f"t{number}"
        coordinator.act(shard.init_producer_id(name, TIMEOUT_MS, None, None, NOW_MS, number))
        producer = Producer(number, 0)
        coordinator.act(shard.add_partitions(name, producer, wanted, TV_2, None, NOW_MS))
    return NOW_MS + TIMEOUT_MS + 10_001


def test_aborts_that_cannot_be_written_are_not_tried_again_at_once() -> None:
    coordinator = Coordinator()
    now_ms = late_transactions(coordinator, 30, 1)
    assert len(coordinator.shard.on_time(now_ms).records) == 20  # which nobody writes
    due = coordinator.shard.next_deadline()
    assert due is not None
    assert due > now_ms
    for _ in range(2):
        coordinator.act(coordinator.shard.on_time(due))
        due += 1000
    assert len(coordinator.told) == 30
    assert len({decision.transactional_id for decision in coordinator.told}) == 30


def test_aborts_of_many_partitions_fit_into_a_batch() -> None:
    coordinator = Coordinator()
    now_ms = late_transactions(coordinator, 5, 700)
    batches = 0
    while len(coordinator.told) < 5:
        outcome = coordinator.shard.on_time(now_ms)
        assert sum(len(key) + len(value or b"") for key, value in outcome.records) < 500_000
        coordinator.act(outcome)
        now_ms += 1000
        batches += 1
    assert batches > 1


def test_a_clock_that_is_set_aborts_nothing() -> None:
    coordinator = Coordinator()
    producer = coordinator.started()
    coordinator.add(producer, FIRST)
    day_ms = 86_400_000
    coordinator.shard.clock_was_set(day_ms)
    coordinator.act(coordinator.shard.on_time(NOW_MS + day_ms + TIMEOUT_MS - 1))
    assert coordinator.told == []
    due = coordinator.shard.next_deadline()
    assert due is not None
    coordinator.act(coordinator.shard.on_time(NOW_MS + day_ms + TIMEOUT_MS + 10_001))
    assert len(coordinator.told) == 1


def test_an_id_that_nobody_uses_is_forgotten_but_never_with_an_open_transaction() -> None:
    settings = TransactionSettings(id_expiration_ms=1000, expiry_interval_ms=10)
    coordinator = Coordinator(settings)
    assert coordinator.shard.next_deadline() is None
    producer = coordinator.started()
    coordinator.add(producer, FIRST)
    coordinator.act(coordinator.shard.on_time(NOW_MS + 5000))
    assert coordinator.shard.get(ID) is not None
    coordinator.end(producer)
    coordinator.complete()
    coordinator.act(coordinator.shard.on_time(NOW_MS + 10_000))
    assert coordinator.shard.get(ID) is None
    coordinator.fail_over()
    assert coordinator.shard.get(ID) is None


def test_impossible_steps_are_faults() -> None:
    coordinator = Coordinator()
    coordinator.started()
    with pytest.raises(ImpossibleStepError):
        coordinator.metadata.completed(NOW_MS)
    with pytest.raises(ImpossibleStepError):
        coordinator.metadata.decided(commit=True, version=TV_2, now_ms=NOW_MS)


# Listing -----------------------------------------------------------------------------------------


def test_filters() -> None:
    coordinator = Coordinator()
    producer = coordinator.started()
    coordinator.add(producer, FIRST)

    def listed(**restrictions: object) -> bool:
        wanted = replace_filter(**restrictions)
        return bool(coordinator.shard.list_transactions(wanted, NOW_MS + 100))

    def replace_filter(**restrictions: object) -> TransactionFilter:
        return TransactionFilter()._replace(**restrictions)  # type: ignore[arg-type]

    assert listed()
    assert listed(states=known_states(["Ongoing", "Empty"]))
    assert not listed(states=known_states(["Empty"]))
    assert not listed(states=known_states(["Nonsense"]))
    assert unknown_states(["Nonsense", "Dead"]) == ("Nonsense",)
    assert listed(producer_ids=frozenset({producer.producer_id, 5}))
    assert not listed(producer_ids=frozenset({5}))
    assert listed(running_for_ms=99)
    assert not listed(running_for_ms=100)
    assert coordinator.shard.counts() == {S.ONGOING: 1}
    assert replace(coordinator.metadata, timeout_ms=2**31 - 1).deadline_ms is None
