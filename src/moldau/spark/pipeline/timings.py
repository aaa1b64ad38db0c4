"""Where the time of a run goes, from the command to its end."""

from __future__ import annotations

import time


class Timings:
    """Seconds by what they were spent on, one after the other."""

    def __init__(self) -> None:
        self.begin = self._last = time.time()
        self.found: dict[str, float] = {}

    def mark(self, name: str, moment: float | None = None) -> None:
        """What comes to its end now, or did then."""
        moment = time.time() if moment is None else moment
        self.found[name] = self.found.get(name, 0.0) + max(0.0, moment - self._last)
        self._last = max(self._last, moment)

    def lines(self) -> list[str]:
        widest = max(map(len, self.found), default=0)
        rows = [*self.found.items(), ("in all", self._last - self.begin)]
        return [f"{name:<{widest}}  {seconds:6.2f} s" for name, seconds in rows]
