"""Leaving in order: others lead what this broker led before it stops.

Whoever writes to it then meets a new leader that is there already, instead of nobody until the
session is over, and no acknowledged record depends on this broker's coming back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from moldau.broker.controller_port import SOON_S, ControllerClient
from moldau.config.values.broker import BrokerConfig
from moldau.errors import ErrorCode, KafkaError
from moldau.machine.clock import Clock

log = logging.getLogger(__name__)


async def hand_over(
    controller: ControllerClient,
    broker_id: int,
    broker_epoch: Callable[[], int],
    config: BrokerConfig,
    clock: Clock,
) -> None:
    """Ask the controller to have others lead, as often as ``controlled.shutdown.*`` say; returns
    when that is done, or when it cannot be.
    """
    controller = controller.within(SOON_S)
    for attempts_left in reversed(range(max(config.controlled_shutdown_max_retries, 1))):
        try:
            async with asyncio.timeout(2 * SOON_S):
                remaining = await controller.controlled_shutdown(broker_id, broker_epoch())
        except TimeoutError:
            log.warning("the controller does not answer: this broker stops without handing over")
            return
        except KafkaError as error:
            log.warning("the controller does not take over what this broker leads: %s", error)
            if error.code is ErrorCode.STALE_BROKER_EPOCH:
                return  # it is out of the cluster already
        else:
            if not remaining:
                log.info("other brokers lead what this one led")
                return
            log.warning("%d partitions have no other replica that could lead", len(remaining))
        if attempts_left:
            await _pause(clock, config.controlled_shutdown_retry_backoff_ms / 1000)


async def _pause(clock: Clock, seconds: float) -> None:
    over = asyncio.Event()
    clock.call_later(seconds, over.set)
    await over.wait()
