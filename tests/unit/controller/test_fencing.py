from __future__ import annotations

import pytest

from moldau.controller import BrokerUpdate, ControllerFence
from moldau.controller.fencing import check_epochs
from moldau.errors import ErrorCode, KafkaError


def test_a_stale_controller_is_refused() -> None:
    fence = ControllerFence(broker_epoch=10)
    fence.admit(BrokerUpdate(1, 4, 10))
    fence.admit(BrokerUpdate(2, 5, 10))
    with pytest.raises(KafkaError) as caught:
        fence.admit(BrokerUpdate(1, 4, 10))
    assert caught.value.code is ErrorCode.STALE_CONTROLLER_EPOCH
    fence.admit(BrokerUpdate(2, 5, 10))
    assert fence.controller_epoch == 5


def test_a_message_for_an_earlier_life_of_the_broker_is_refused() -> None:
    fence = ControllerFence(broker_epoch=10)
    with pytest.raises(KafkaError) as caught:
        fence.admit(BrokerUpdate(1, 4, 9))
    assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH
    assert fence.controller_epoch == 0, "a refused message teaches nothing"


@pytest.mark.parametrize(
    ("known", "received", "broker", "received_broker", "error"),
    [
        (3, 3, 7, 7, ErrorCode.NONE),
        (3, 4, 7, 8, ErrorCode.NONE),
        (3, 2, 7, 7, ErrorCode.STALE_CONTROLLER_EPOCH),
        (3, 3, 7, 6, ErrorCode.STALE_BROKER_EPOCH),
        (3, 2, 7, 6, ErrorCode.STALE_CONTROLLER_EPOCH),
    ],
)
def test_epochs_are_compared(
    known: int, received: int, broker: int, received_broker: int, error: ErrorCode
) -> None:
    assert check_epochs(known, received, broker, received_broker) is error
