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
        kinds: int = 100,
    ) -> None:
        """What comes while there are as many ``kinds`` as that in one interval counts as one."""
        self._logger = logger
        self._lines = lines
        self._interval = interval
        self._most_kinds = kinds
        self._monotonic = monotonic
        # kind -> [start of its interval, lines asked for in it]
        self._kinds: dict[str, list[float]] = {}

    def warning(self, kind: str, message: str) -> None:
        """Log ``message`` unless enough lines of this ``kind`` were logged just now.

        A kind says what happened and to whom, in words of this program: bytes that a peer may
        choose would make a kind of every line.
        """
        now = self._monotonic()
        if kind not in self._kinds and len(self._kinds) >= self._most_kinds:
            self._forget_old(now)
            if len(self._kinds) >= self._most_kinds:
                kind = "others"
        state = self._kinds.get(kind)
        if state is None or now - state[0] >= self._interval:
            swallowed = int(state[1]) - self._lines if state is not None else 0
            if swallowed > 0:
                message = f"{message} ({swallowed} similar lines were left out before this one)"
            self._kinds[kind] = [now, 1]
        else:
            state[1] += 1
            if state[1] > self._lines:
                return
        self._logger.warning("%s", message)

    def _forget_old(self, now: float) -> None:
        self._kinds = {
            kind: state for kind, state in self._kinds.items() if now - state[0] < self._interval
        }
