"""What is wrong with a pipeline's file: all of it at once, each with its line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from moldau.toml_places import Path


@dataclass(frozen=True)
class Problem:
    """A mistake and where it is."""

    line: int
    message: str


class PipelineError(ValueError):
    """A pipeline cannot run as it is declared."""

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        self.file = file
        self.problems = tuple(sorted(problems, key=lambda one: one.line))
        super().__init__("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """As compilers say it, so that editors find the place."""
        return [f"{self.file}:{one.line}: {one.message}" for one in self.problems]


class Problems:
    """Collects mistakes by path; lines are looked up at the end."""

    def __init__(self) -> None:
        self.found: list[tuple[Path, str, str | None]] = []

    def add(self, path: Path, message: str, word: str | None = None) -> None:
        """``word``: what to look for from the path's line on, in values of many lines."""
        self.found.append((path, message, word))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """What was meant, or what there is."""
    names = sorted(known)
    folded = {name.lower(): name for name in names}
    close = get_close_matches(word.lower(), folded, n=1, cutoff=0.6)
    if close:
        return f"did you mean {folded[close[0]]}?"
    return f"there is {', '.join(names)}" if names else "there is none"
