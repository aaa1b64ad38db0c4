"""The broker that a compatibility test talks to: Moldau, or Kafka to prove the test."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Target(Protocol):
    """A broker process on a data directory, which outlives it."""

    name: str
    data_dir: Path
    """Of the first broker, where there are several."""
    node_ids: frozenset[int]

    @property
    def bootstrap(self) -> str: ...

    def start(self) -> None: ...

    def stop(self) -> None:
        """Clean shutdown."""

    def kill(self) -> None:
        """kill -9."""
