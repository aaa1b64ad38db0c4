"""The garbage collector, kept from looking at everything while there is very much that is none."""

from __future__ import annotations

import gc
from typing import ClassVar, Final

NEVER: Final = 1_000_000_000


class YoungObjectsOnly:
    """While one of these is entered the collector looks at young objects only: the hundred
    thousands of a request are no garbage, and everybody would wait while it finds that out.
    """

    entered: ClassVar[int] = 0
    """By all brokers of this process: they have one collector."""
    thresholds: ClassVar[tuple[int, int, int]] = gc.get_threshold()

    def __enter__(self) -> None:
        if not YoungObjectsOnly.entered:
            YoungObjectsOnly.thresholds = young, middle, _ = gc.get_threshold()
            gc.set_threshold(young, middle, NEVER)
        YoungObjectsOnly.entered += 1

    def __exit__(self, *_: object) -> None:
        YoungObjectsOnly.entered -= 1
        if not YoungObjectsOnly.entered:
            gc.set_threshold(*YoungObjectsOnly.thresholds)
