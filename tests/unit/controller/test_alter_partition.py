"""Changes of in-sync replicas: who may make which, and epochs that fence."""

from __future__ import annotations

from uuid import UUID

import pytest

from moldau.controller.alter_partition import check_broker_epoch, decide
from moldau.controller.elections import Circumstances
from moldau.controller.link import LeaderAndIsr
from moldau.controller.requests import AlterPartition
from moldau.coordination.znodes import RECOVERED, RECOVERING, BrokerRegistration
from moldau.errors import ErrorCode

BROKERS = {broker: BrokerRegistration(broker, (), None, 99 + broker, 1) for broker in (1, 2, 3)}
NOW = Circumstances(BROKERS, 7, lambda _topic, _leader: 2)
LIVE = (1, 2, 3)
CURRENT = LeaderAndIsr("t", UUID(int=1), 0, 1, 5, (1, 2), (1, 2, 3), 9, 1, broker_epochs=(100, 101))


def request(
    new_isr: tuple[int, ...] = (1, 2, 3),
    leader_epoch: int = 5,
    partition_epoch: int = 9,
    recovery: int = RECOVERED,
    epochs: tuple[int, ...] | None = None,
    topic_id: UUID = CURRENT.topic_id,
) -> AlterPartition:
    """As the leader asks; by default it knows of everybody that it names."""
    if epochs is None:
        epochs = tuple([BROKERS[broker].epoch if broker in BROKERS else 1 for broker in new_isr])
    return AlterPartition(
        topic="t",
        topic_id=topic_id,
        partition=0,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        new_isr=new_isr,
        new_isr_epochs=epochs,
        leader_recovery_state=recovery,
    )


@pytest.mark.parametrize("isr", [(1, 2, 3), (1,), (3, 1)])
def test_the_leader_may_change_its_isr(isr: tuple[int, ...]) -> None:
    new = decide(CURRENT, request(isr), 1, LIVE, NOW)
    assert isinstance(new, LeaderAndIsr)
    assert (new.isr, new.leader, new.leader_epoch) == (isr, 1, 5)
    assert (new.partition_epoch, new.controller_epoch) == (10, 7)


@pytest.mark.parametrize(
    ("asked", "broker", "error"),
    [
        (request(leader_epoch=6), 1, ErrorCode.NOT_CONTROLLER),
        (request(partition_epoch=10), 1, ErrorCode.NOT_CONTROLLER),
        (request(leader_epoch=4), 1, ErrorCode.FENCED_LEADER_EPOCH),
        (request(leader_epoch=4, partition_epoch=8), 1, ErrorCode.FENCED_LEADER_EPOCH),
        (request(partition_epoch=8), 1, ErrorCode.INVALID_UPDATE_VERSION),
        (request(), 2, ErrorCode.INVALID_REQUEST),
        (request((2, 3)), 1, ErrorCode.INVALID_REQUEST),
        (request((1, 4)), 1, ErrorCode.INVALID_REQUEST),
        (request((1, 1, 2)), 1, ErrorCode.INVALID_REQUEST),
        (request(()), 1, ErrorCode.INVALID_REQUEST),
        (request((1,), recovery=RECOVERING), 1, ErrorCode.INVALID_REQUEST),
        (request(topic_id=UUID(int=2)), 1, ErrorCode.UNKNOWN_TOPIC_ID),
        (request(topic_id=UUID(int=2), leader_epoch=6), 1, ErrorCode.UNKNOWN_TOPIC_ID),
        (request(epochs=(100, 101)), 1, ErrorCode.INVALID_REQUEST),
        (request(epochs=(100, 101, -1)), 1, ErrorCode.INVALID_REQUEST),
        (request(epochs=()), 1, ErrorCode.INVALID_REQUEST),
        (request(epochs=(100, 101, 99)), 1, ErrorCode.INELIGIBLE_REPLICA),
        (request(epochs=(100, 100, 102)), 1, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_what_is_refused(asked: AlterPartition, broker: int, error: ErrorCode) -> None:
    assert decide(CURRENT, asked, broker, LIVE, NOW) is error


def test_an_unknown_partition_is_refused() -> None:
    assert decide(None, request(), 1, LIVE, NOW) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_dead_broker_cannot_join_the_isr() -> None:
    assert decide(CURRENT, request(), 1, (1, 2), NOW) is ErrorCode.INELIGIBLE_REPLICA


def test_a_replica_joins_with_the_life_in_which_it_caught_up() -> None:
    for epochs in ((100, 101, 102), (-1, -1, 102)):
        new = decide(CURRENT, request(epochs=epochs), 1, LIVE, NOW)
        assert isinstance(new, LeaderAndIsr)
        assert new.broker_epochs == (100, 101, 102)


def test_who_leaves_an_isr_that_gets_too_small_could_still_lead() -> None:
    alone = decide(CURRENT, request((1,)), 1, LIVE, NOW)
    assert isinstance(alone, LeaderAndIsr)
    assert (alone.isr, alone.elr, alone.broker_epochs) == ((1,), (2,), (100, 101))
    grown = decide(alone, request((1, 3), partition_epoch=10), 1, LIVE, NOW)
    assert isinstance(grown, LeaderAndIsr)
    assert (grown.isr, grown.elr, grown.broker_epochs) == ((1, 3), (), (100, 102))


def test_asking_again_for_what_is_already_so_succeeds_even_with_the_old_epoch() -> None:
    assert decide(CURRENT, request((2, 1), partition_epoch=8), 1, LIVE, NOW) is CURRENT


def test_a_recovering_leader_grows_its_isr_only_once_it_has_recovered() -> None:
    recovering = LeaderAndIsr("t", UUID(int=1), 0, 1, 5, (1,), (1, 2), 9, 1, RECOVERING)
    both = request((1, 2), recovery=RECOVERING)
    assert decide(recovering, both, 1, LIVE, NOW) is ErrorCode.INVALID_REQUEST
    done = decide(recovering, request((1,)), 1, LIVE, NOW)
    assert isinstance(done, LeaderAndIsr)
    assert done.leader_recovery_state == RECOVERED


def test_requests_of_an_earlier_life_of_a_broker_are_stale() -> None:
    assert check_broker_epoch(BROKERS, 1, 100) is ErrorCode.NONE
    assert check_broker_epoch(BROKERS, 1, -1) is ErrorCode.STALE_BROKER_EPOCH
    assert check_broker_epoch(BROKERS, 1, 99) is ErrorCode.STALE_BROKER_EPOCH
    assert check_broker_epoch(BROKERS, 9, 100) is ErrorCode.STALE_BROKER_EPOCH
