"""Since which of its lives a broker has lost no record, as its log directories tell.

Each directory has a small file with the start of the machine in which it was last used, and the
broker epoch since which nothing was lost. What a process has written outlives the process, in the
machine's memory, but not the machine: a directory that was neither closed cleanly nor used since
the machine last started may lack the latest records. So may one that is new, or not there, or that
has failed since: what it had not synced may be gone when it is back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress

import msgspec

from moldau.log.files.names import BROKER_LIFE
from moldau.machine import Machine

UNKNOWN = -1
"""Nothing is known to be there; at best what is written from now on."""


class _Life(msgspec.Struct):
    boot_id: str | None
    intact_since: int
    version: int = 1


def read_intact_since(
    machine: Machine, log_dirs: Iterable[str], closed_cleanly: Collection[str]
) -> int:
    """Returns the broker epoch since which nothing in these directories was lost, or UNKNOWN."""
    lives: list[int] = []
    for path in log_dirs:
        try:
            life = msgspec.json.decode(machine.disk.read(f"{path}/{BROKER_LIFE}"), type=_Life)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return UNKNOWN
        is_same_boot = life.boot_id is not None and life.boot_id == machine.boot_id
        if not is_same_boot and path not in closed_cleanly:
            return UNKNOWN
        lives.append(life.intact_since)
    return max(lives, default=UNKNOWN)


def keep_intact_since(machine: Machine, log_dirs: Iterable[str], epoch: int) -> None:
    """Write it down, durably, for the present start of the machine."""
    data = msgspec.json.encode(_Life(machine.boot_id, epoch))
    for path in log_dirs:
        machine.disk.write_atomic(f"{path}/{BROKER_LIFE}", data)


def forget_intact_since(machine: Machine, log_dirs: Iterable[str]) -> None:
    """One of these directories has failed: where it can be told, the next life is told so."""
    for path in log_dirs:
        with suppress(OSError):
            machine.disk.remove(f"{path}/{BROKER_LIFE}")
