"""How the commands put things into words."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Returns ``1 record``, ``2 records``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
