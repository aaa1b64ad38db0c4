"""Which start of the machine this is."""

from __future__ import annotations

from pathlib import Path
from typing import Final

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str | None:
    """Returns an id that the kernel has from its start to its end; None where it tells none."""
    try:
        return BOOT_ID.read_text().strip() or None
    except OSError:  # no Linux
        return None
