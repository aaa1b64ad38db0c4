"""How long a broker tries to hand over before it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self

import pytest

from moldau.broker.controlled_shutdown import UNHEARD_S, hand_over
from moldau.config.values.broker import BrokerConfig
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition
from moldau.testing.clock import ManualClock

REMAINS = [TopicPartition("t", 0)]


class Controller:
    """Answers as it is told, once for each time it is asked."""

    def __init__(self, *answers: list[TopicPartition] | KafkaError) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[int, int]] = []

    def within(self, _seconds: float) -> Self:
        return self

    async def controlled_shutdown(self, broker: int, epoch: int) -> list[TopicPartition]:
        self.asked.append((broker, epoch))
        answer = self.answers.pop(0)
        if isinstance(answer, KafkaError):
            raise answer
        return answer


async def stop(
    controller: Any, reaches_store: Callable[[], bool] = lambda: True, **settings: str
) -> float:
    """Returns the seconds that it took."""
    clock = ManualClock()
    config = BrokerConfig.load({name.replace("_", "."): value for name, value in settings.items()})
    handing_over = asyncio.ensure_future(
        hand_over(controller, 3, lambda: 7, reaches_store, config, clock)
    )
    while not handing_over.done():
        for _ in range(5):
            await asyncio.sleep(0)
        if not handing_over.done():
            clock.advance(0.5)
    await handing_over
    return clock.monotonic()


async def test_a_broker_stops_when_others_lead() -> None:
    controller = Controller([])
    assert await stop(controller) == 0
    assert controller.asked == [(3, 7)]


async def test_it_waits_for_others_to_come_into_sync_and_no_longer() -> None:
    assert await stop(Controller(REMAINS, KafkaError(ErrorCode.NOT_CONTROLLER), [])) == 1


async def test_it_stops_in_the_end_all_the_same() -> None:
    controller = Controller(*[REMAINS] * 99)
    assert await stop(controller) == 10
    controller = Controller(*[REMAINS] * 9)
    settings = {
        "controlled_shutdown_max_retries": "2",
        "controlled_shutdown_retry_backoff_ms": "1000",
    }
    assert await stop(controller, lambda: True, **settings) == 1
    assert len(controller.asked) == 3


@pytest.mark.parametrize("code", ["NOT_CONTROLLER", "REQUEST_TIMED_OUT", "KAFKA_STORAGE_ERROR"])
async def test_a_controller_that_refuses_is_not_asked_for_long(code: str) -> None:
    refusing = Controller(*[KafkaError(ErrorCode[code])] * 99)
    assert await stop(refusing) == UNHEARD_S


async def test_nobody_is_asked_without_the_store() -> None:
    controller = Controller([])
    assert await stop(controller, lambda: False) == 0
    assert controller.asked == []
    refusing = Controller(*[KafkaError(ErrorCode.REQUEST_TIMED_OUT)] * 99)
    assert await stop(refusing, lambda: len(refusing.asked) < 2) == 1


async def test_who_is_out_of_the_cluster_has_nothing_to_hand_over() -> None:
    assert await stop(Controller(KafkaError(ErrorCode.STALE_BROKER_EPOCH))) == 0
