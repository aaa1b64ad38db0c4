"""The life of a transactional producer: every pair of states, and what each error leads to."""

from __future__ import annotations

from itertools import product

import pytest

from moldau.client.errors import (
    ProducerFencedError,
    TransactionAbortableError,
    TransactionStateError,
)
from moldau.client.producer.transactions import LEGAL, Transactions, TransactionState
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition

S = TransactionState

# As in Kafka's client, but for leaving an initialized state for UNINITIALIZED, and for PREPARED.
ALLOWED = {
    (S.UNINITIALIZED, S.INITIALIZING),
    (S.ABORTING, S.INITIALIZING),
    (S.INITIALIZING, S.READY),
    (S.COMMITTING, S.READY),
    (S.ABORTING, S.READY),
    (S.READY, S.IN_TRANSACTION),
    (S.IN_TRANSACTION, S.COMMITTING),
    (S.IN_TRANSACTION, S.ABORTING),
    (S.COMMITTING, S.PREPARED),
    (S.ABORTABLE_ERROR, S.ABORTING),
    (S.INITIALIZING, S.ABORTABLE_ERROR),
    (S.IN_TRANSACTION, S.ABORTABLE_ERROR),
    (S.COMMITTING, S.ABORTABLE_ERROR),
    (S.ABORTABLE_ERROR, S.ABORTABLE_ERROR),
    *((state, S.FATAL_ERROR) for state in S),
}


@pytest.mark.parametrize(("source", "target"), list(product(S, S)))
def test_every_pair_of_states(source: TransactionState, target: TransactionState) -> None:
    machine = Transactions("tx")
    machine.state = source
    if (source, target) in ALLOWED:
        machine.move(target)
        assert machine.state is target
    else:
        with pytest.raises(TransactionStateError, match="cannot become"):
            machine.move(target)
        assert machine.state is source


def test_every_state_is_in_the_table_and_documented() -> None:
    assert set(LEGAL) == set(S)


def in_transaction() -> Transactions:
    machine = Transactions("tx")
    machine.state = S.READY
    machine.begin()
    return machine


def test_an_abortable_error_can_be_left_by_aborting() -> None:
    machine = in_transaction()
    machine.failed(KafkaError(ErrorCode.INVALID_RECORD, "first"))
    machine.failed(KafkaError(ErrorCode.INVALID_RECORD, "second"))
    state, refusal = machine.state, machine.refusal
    assert state is S.ABORTABLE_ERROR
    assert isinstance(refusal, TransactionAbortableError)
    assert "has to be aborted: first" in refusal.message
    machine.move(S.ABORTING)
    machine.ended()
    assert machine.state is S.READY
    assert machine.error is None


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TXN_STATE,
    ],
)
def test_fatal_errors_cannot_be_left(code: ErrorCode) -> None:
    machine = in_transaction()
    machine.failed(KafkaError(code, "the end"))
    machine.failed(KafkaError(ErrorCode.INVALID_RECORD, "later"))
    assert machine.state is S.FATAL_ERROR
    for call in (machine.begin, lambda: machine.expect(S.IN_TRANSACTION, what="send()")):
        with pytest.raises(KafkaError, match="the end"):
            call()


def test_a_fenced_producer_is_fenced_in_every_state() -> None:
    for state in S:
        machine = Transactions("tx")
        machine.state = state
        machine.failed(ProducerFencedError(ErrorCode.PRODUCER_FENCED))
        assert machine.state is S.FATAL_ERROR


def test_an_error_while_nothing_is_open_changes_nothing() -> None:
    machine = Transactions("tx")
    machine.state = S.READY
    machine.failed(KafkaError(ErrorCode.INVALID_RECORD))
    assert machine.state is S.READY


def test_partitions_are_announced_before_batches_go() -> None:
    machine = in_transaction()
    where = TopicPartition("t", 0)
    assert not machine.admits(where)
    assert list(machine.pending) == [where]
    before = machine.started
    machine.added([where])
    assert machine.admits(where)
    assert (before, machine.started) == (False, True)
    machine.move(S.COMMITTING)
    assert machine.admits(where)  # what was sent before the commit still goes
    machine.ended()
    assert not machine.admits(where)
    assert not machine.started


def test_with_version_2_the_brokers_announce_them() -> None:
    machine = in_transaction()
    machine.implicit = True
    assert machine.admits(TopicPartition("t", 0))
    assert machine.started


def test_records_are_refused_outside_of_a_transaction() -> None:
    machine = Transactions("tx")
    assert "call init_transactions() first" in str(machine.refusal)
    machine.state = S.READY
    assert "call begin_transaction() first" in str(machine.refusal)
    machine.begin()
    assert machine.refusal is None
