"""How what a command needs and what is not installed can be had."""

from __future__ import annotations


def from_clone(extra: str) -> str:
    """No index has Moldau yet."""
    return f"pip install '.[{extra}]' in a clone of Moldau"
