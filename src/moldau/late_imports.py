"""Imports that wait until they are needed, one at a time.

A broker imports handlers when their first request comes, and the rest in a thread while it serves.
Two threads that import modules of one package at the same time may wait for each other: Python sees
that, and gives one of them a module that is not complete, whose names are missing for ever.
"""

from __future__ import annotations

from importlib import import_module
from threading import RLock  # noqa: TID251 - it guards the interpreter, not the machine
from types import ModuleType
from typing import Final

_one_at_a_time: Final = RLock()


def late_import(name: str) -> ModuleType:
    """Import a module. All imports that two threads may begin at the same time go this way."""
    with _one_at_a_time:
        return import_module(name)
