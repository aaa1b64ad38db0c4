"""What a fuzzer drives: one input after another, each of which the product must withstand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable


class Target(ABC):
    """``run`` says by an exception that an input is a finding; a run that returns is none."""

    LONGEST_INPUT = 4096

    @abstractmethod
    def run(self, data: bytes) -> None: ...

    @abstractmethod
    def seeds(self) -> Iterable[bytes]:
        """Inputs that make sense, for the fuzzer to begin with."""

    @property
    def blamed(self) -> bytes | None:
        """What shows the last finding again, if it is more than the last input."""
        return None

    def close(self) -> None:  # noqa: B027 (most have nothing to close)
        """After the last input."""


class Choices:
    """Numbers and bytes as an input has them; where it ends, zeros."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_over(self) -> bool:
        return self._at >= len(self._data)

    def byte(self) -> int:
        if self.is_over:
            return 0
        self._at += 1
        return self._data[self._at - 1]

    def number(self) -> int:
        """Of two bytes."""
        return self.byte() << 8 | self.byte()

    def take(self, size: int) -> bytes:
        """The next bytes, fewer at the end."""
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken

    def rest(self) -> bytes:
        return self.take(len(self._data))
