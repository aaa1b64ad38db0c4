"""The cleaner process: ``python -m moldau.log.cleaner.worker``. What it does is in ``work``."""

from __future__ import annotations

from functools import partial
from typing import Final

from moldau.log.cleaner.work import clean
from moldau.machine.real.child import run_child
from moldau.machine.real.clock import SystemClock
from moldau.machine.real.disk import OsDisk

_NICE: Final = 10
"""Computing and, as Linux derives one from the other, disk access come after the broker's."""

if __name__ == "__main__":
    run_child(partial(clean, OsDisk(), SystemClock()), nice=_NICE)
