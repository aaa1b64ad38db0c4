"""Leaving in order: others lead what this broker led before it stops.

Whoever writes to it then meets a new leader that is there already, instead of nobody until the
session is over, and no acknowledged record depends on this broker's coming back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from moldau.broker.controller_port import SOON_S, ControllerClient
from moldau.config.values.broker import BrokerConfig
from moldau.errors import ErrorCode, KafkaError
from moldau.machine.clock import Clock, pause

log = logging.getLogger(__name__)


UNHEARD_S: Final = SOON_S
"""For how long nobody need answer before the broker stops without handing over: a controller that
stops, too, is replaced in less."""
ASK_AGAIN_S: Final = 0.5


async def hand_over(
    controller: ControllerClient,
    broker_id: int,
    broker_epoch: Callable[[], int],
    reaches_store: Callable[[], bool],
    config: BrokerConfig,
    clock: Clock,
) -> None:
    """Ask the controller to have others lead, for as long as ``controlled.shutdown.*`` give them to
    come into sync; returns when that is done, or when it cannot be.
    """
    began = heard_at = clock.monotonic()
    tries = max(config.controlled_shutdown_max_retries, 1)
    patience_s = (tries - 1) * config.controlled_shutdown_retry_backoff_ms / 1000
    while True:
        if not reaches_store():
            log.warning("the coordination store is out of reach, so that nobody can take over")
            return
        left_s = max(UNHEARD_S - (clock.monotonic() - heard_at), ASK_AGAIN_S)
        try:
            async with asyncio.timeout(left_s):
                remaining = await controller.within(left_s).controlled_shutdown(
                    broker_id, broker_epoch()
                )
        except (TimeoutError, KafkaError) as error:
            if isinstance(error, KafkaError) and error.code is ErrorCode.STALE_BROKER_EPOCH:
                log.warning("this broker is out of the cluster already")
                return
            if clock.monotonic() + ASK_AGAIN_S > heard_at + UNHEARD_S:
                why = str(error) or "it does not answer"
                log.warning("the controller does not take over what this broker leads: %s", why)
                return
        else:
            heard_at = clock.monotonic()
            if not remaining:
                log.info("other brokers lead what this one led")
                return
            if heard_at + ASK_AGAIN_S > began + patience_s:
                log.warning("%d partitions have no other replica that could lead", len(remaining))
                return
        await pause(clock, ASK_AGAIN_S)
