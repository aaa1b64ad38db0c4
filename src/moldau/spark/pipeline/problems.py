"""What is wrong with a pipeline's file: all of it at once, each with its line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Literal

from moldau.toml_places import Path, line_of, places

Kind = Literal["wrong", "unreachable", "missing", "late", "lost"]
"""Wrong by itself; or no broker answers, a topic is not there, a broker does not answer in time;
Spark itself is gone."""


@dataclass(frozen=True)
class Problem:
    """A mistake and where it is; on no line (0) if the file is not to blame."""

    line: int
    message: str
    kind: Kind = "wrong"


class Lines:
    """On which line of a file a value stands."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _known(self) -> dict[Path, int]:
        return places(self._text)

    def has(self, path: Path) -> bool:
        """Whether the file itself has a value there."""
        return path in self._known

    def of(self, path: Path, word: str | None = None) -> int:
        """``word``: what to look for from the path's line on, in values of many lines."""
        line = line_of(path, self._known)
        if word is None:
            return line
        pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
        lines = self._text.splitlines()
        others = (at for other, at in self._known.items() if other[: len(path)] != path)
        end = min((at - 1 for at in others if at > line), default=len(lines))
        below = range(line - 1, end)
        return next((index + 1 for index in below if pattern.search(lines[index])), line)

    def inside(self, path: Path, line: int) -> int:
        """The line of the file that is this one, from 1, of a text."""
        first = self.of(path)
        opening = self._text.splitlines()[first - 1 : first]
        begins_below = any(text.rstrip().endswith(('"""', "'''")) for text in opening)
        return first + line - 1 + begins_below


class PipelineError(ValueError):
    """A pipeline cannot run as it is declared."""

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        self.file = file
        self.problems = tuple(sorted(problems, key=lambda one: one.line))
        super().__init__("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """As compilers say it, so that editors find the place."""
        return [
            f"{self.file}:{one.line}: {one.message}" if one.line else one.message
            for one in self.problems
        ]


class Problems:
    """Collects mistakes by path; lines are looked up at the end."""

    def __init__(self) -> None:
        self.found: list[tuple[Path, str, str | None]] = []

    def add(self, path: Path, message: str, word: str | None = None) -> None:
        """``word``: what to look for from the path's line on, in values of many lines."""
        self.found.append((path, message, word))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """What was meant, or what there is."""
    names = sorted(set(known))
    folded = {name.lower(): name for name in names}
    close = get_close_matches(word.lower(), folded, n=1, cutoff=0.6)
    if close:
        return f"did you mean {folded[close[0]]}?"
    return f"there is {', '.join(names)}" if names else "there is none"
