"""Which process is meant: a number is given to another one as soon as it is free."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_START_TIME: Final = 19
"""Its place in ``/proc/PID/stat``, counted after the name, which may have blanks in it."""


def identity(pid: int) -> str | None:
    """What is the same for as long as this process lives, and of no other; None if it has ended."""
    if _BOOT_ID.exists():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2]
        except OSError:
            return None
        state, *_ = after = fields.split()
        return None if state in "ZX" else f"{_BOOT_ID.read_text().strip()}/{after[_START_TIME]}"
    asked = subprocess.run(  # noqa: S603
        ["ps", "-o", "lstart=", "-p", str(pid)],  # noqa: S607 - wherever the system has it
        capture_output=True,
        text=True,
        env={"LC_ALL": "C", "PATH": "/bin:/usr/bin"},
    )
    return asked.stdout.strip() or None
