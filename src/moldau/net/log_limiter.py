"""Keeps a peer that fails in a loop from filling the log with one and the same line."""

from __future__ import annotations

import logging
from collections.abc import Callable


class LogLimiter:
    """Lets a few lines of each kind through per interval, then counts, and says how many it
    swallowed.
    """

    def __init__(
        self,
        logger: logging.Logger,
        monotonic: Callable[[], float],
        *,
        lines: int = 5,
        interval: float = 10.0,
    ) -> None:
        self._logger = logger
        self._lines = lines
        self._interval = interval
        self._monotonic = monotonic
        # kind -> [start of its interval, lines asked for in it]
        self._kinds: dict[str, list[float]] = {}

    def warning(self, kind: str, message: str) -> None:
        """Log ``message`` unless enough lines of this ``kind`` were logged just now."""
        now = self._monotonic()
        state = self._kinds.get(kind)
        if state is None or now - state[0] >= self._interval:
            swallowed = int(state[1]) - self._lines if state is not None else 0
            if swallowed > 0:
                message = f"{message} ({swallowed} similar lines were left out before this one)"
            if len(self._kinds) >= 1000:
                self._kinds.clear()
            self._kinds[kind] = [now, 1]
        else:
            state[1] += 1
            if state[1] > self._lines:
                return
        self._logger.warning("%s", message)
