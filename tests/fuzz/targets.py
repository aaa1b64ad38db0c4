"""The targets by their names."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

from tests.fuzz.target import Target

NAMES: Final = ("frames", "requests", "batches", "stores")
CORPUS: Final = Path(__file__).parent / "corpus"
"""A folder for each: inputs that reach much, and those that once were findings."""


def make_target(name: str) -> Target:
    """Imports what it is about, and makes it ready to be run."""
    module = import_module(f"tests.fuzz.{name}")
    made: Target = getattr(module, name.capitalize())()
    return made


def corpus_of(name: str) -> list[Path]:
    return sorted((CORPUS / name).iterdir())
