"""Notices when the event loop stands still, for whom everybody has to wait.

A timer that comes late tells how long a turn of the loop was. Requests pay nothing for that. The
cause is a guess: of the APIs that were asked in the meantime the one whose requests may cost most,
and of those the rarest.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from moldau.broker.apis import APIS, CostClass
from moldau.machine.clock import Clock, Timer
from moldau.net.log_limiter import LogLimiter
from moldau.wire.api import ApiKey

log = logging.getLogger(__name__)

INTERVAL_S: Final = 0.1
LOGGED_FROM_S: Final = 0.1
OTHER: Final = "other"
"""No request came in the meantime: upkeep, a timer, or a machine that was busy elsewhere."""

_COSTS: Final = tuple(CostClass)


class Stalls:
    def __init__(self, clock: Clock, requests: Mapping[int, int]) -> None:
        """``requests`` counts the requests by API key."""
        self.longest_ms: dict[str, float] = {}
        """By the name of the API that is the likely cause."""
        self._clock = clock
        self._requests = requests
        self._counted: dict[int, int] = {}
        self._due = 0.0
        self._timer: Timer | None = None
        self._limiter = LogLimiter(log, clock.monotonic, lines=1, interval=60.0)

    def watch(self) -> None:
        """Look from now on."""
        self._counted = dict(self._requests)
        self._due = self._clock.monotonic() + INTERVAL_S
        self._timer = self._clock.call_later(INTERVAL_S, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        late = self._clock.monotonic() - self._due
        asked = [
            (key, count - self._counted.get(key, 0))
            for key, count in self._requests.items()
            if count != self._counted.get(key, 0)
        ]
        asked.sort(key=lambda each: (-_COSTS.index(APIS[ApiKey(each[0])].cost.of), each[1]))
        cause = kafka_name(ApiKey(asked[0][0])) if asked else OTHER
        if late * 1000 > self.longest_ms.get(cause, 0):
            self.longest_ms[cause] = late * 1000
        if late > LOGGED_FROM_S:
            told = ", ".join(f"{kafka_name(ApiKey(key))} ({count})" for key, count in asked)
            self._limiter.warning(
                cause,
                f"the event loop stood still for {late * 1000:.0f} ms, and everybody waited; "
                f"requests in the meantime: {told or 'none'}",
            )
        self.watch()


def kafka_name(api_key: ApiKey) -> str:
    """The API as Kafka's metrics call it."""
    return api_key.name.title().replace("_", "")
