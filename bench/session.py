"""What every benchmark program is handed: how much to do, on which brokers, whom to tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench.targets import Kafka, Kind, PlainMoldau


class Session(NamedTuple):
    kinds: Sequence[Kind]
    say: Callable[[str], None]
    quick: bool = False
    """Small loads and one round: whether the programs work, not how fast a broker is."""

    @property
    def both(self) -> list[Kind]:
        """Moldau as it is installed, and Kafka: for programs where a third would say no more."""
        return [kind for kind in self.kinds if kind is not PlainMoldau]

    @property
    def has_kafka(self) -> bool:
        return Kafka in self.kinds
