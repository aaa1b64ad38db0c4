"""How long a broker tries to hand over before it stops."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from moldau.broker.controlled_shutdown import hand_over
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


async def stop(controller: Any, **settings: str) -> float:
    """Returns the seconds that it took."""
    clock = ManualClock()
    config = BrokerConfig.load({name.replace("_", "."): value for name, value in settings.items()})
    handing_over = asyncio.ensure_future(hand_over(controller, 3, lambda: 7, config, clock))
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


async def test_it_waits_for_others_to_come_into_sync() -> None:
    assert await stop(Controller(REMAINS, KafkaError(ErrorCode.NOT_CONTROLLER), [])) == 10


async def test_it_stops_in_the_end_all_the_same() -> None:
    controller = Controller(*[REMAINS] * 9)
    settings = {
        "controlled_shutdown_max_retries": "2",
        "controlled_shutdown_retry_backoff_ms": "1000",
    }
    assert await stop(controller, **settings) == 1
    assert len(controller.asked) == 2


async def test_who_is_out_of_the_cluster_has_nothing_to_hand_over() -> None:
    assert await stop(Controller(KafkaError(ErrorCode.STALE_BROKER_EPOCH))) == 0
