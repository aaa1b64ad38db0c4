"""Numbers for people."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, NamedTuple


class Words(NamedTuple):
    """How the numbers of a chart are written, and in which units its axis is round."""

    show: Callable[[float], str]
    units: tuple[float, ...] = ()

    def unit(self, top: float) -> float:
        return max((one for one in self.units if one * 2 <= top), default=1.0)


def count(value: float) -> str:
    """``1,234``, ``12.3 k``, ``4.5 M``."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if value >= size:
            scaled = value / (1e3 if unit == " k" else size)
            return f"{scaled:.3g}{unit}" if scaled < 1000 else f"{scaled:,.0f}{unit}"
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:.3g}"


def duration(value: float) -> str:
    """Of seconds: ``250 ms``, ``4.2 s``, ``3 min``, ``5 h``, ``2 d``."""
    if value < 1:
        return f"{value * 1000:.0f} ms" if value else "0 s"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if value >= 2 * size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} s"


def size(value: float) -> str:
    """Of bytes."""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if value >= 1 << power:
            return f"{value / (1 << power):.3g} {unit}"
    return f"{value:.0f} B"


def moment(value: float) -> str:
    return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


COUNTS: Final = Words(count)
DURATIONS: Final = Words(duration, (60, 3600, 86400))
SIZES: Final = Words(size, (1 << 10, 1 << 20, 1 << 30))
