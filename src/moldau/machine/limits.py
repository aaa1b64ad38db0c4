"""What the system lets a process have, as an interface."""

from __future__ import annotations

from typing import Protocol


class Limits(Protocol):
    def raise_open_files(self) -> int:
        """Take as many open files as the system allows; returns how many that are."""
        ...

    def memory(self) -> int:
        """Returns how many bytes of memory this process may use: what the machine has, or what its
        container is allowed, if that is less.
        """
        ...
