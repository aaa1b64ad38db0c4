"""Which of Kafka's tests are meant: names from the lists, or classes and methods by hand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LISTS = Path(__file__).parent / "lists"


def class_of(test: str) -> str:
    return test.partition("#")[0]


def method_of(test: str) -> str:
    """``Class#method``, whatever form it runs in."""
    return re.split(r"[\[~]", test, maxsplit=1)[0]


def read_list(name: str) -> list[str]:
    """The tests of a list, by their full names (``Class#method[form]``)."""
    return (LISTS / f"{name}.txt").read_text().split("\n")[:-1]


def list_names() -> list[str]:
    return sorted(path.stem for path in LISTS.glob("*.txt"))


@dataclass(frozen=True)
class Selection:
    """Tests by full name, and classes (``Class``) or methods (``Class#method``) in all forms."""

    tests: frozenset[str] = frozenset()
    patterns: frozenset[str] = field(default=frozenset())

    @classmethod
    def of(cls, words: Iterable[str]) -> Selection:
        """Of words that are names of lists, classes, methods or tests."""
        tests: set[str] = set()
        patterns: set[str] = set()
        lists = list_names()
        for word in words:
            if word in lists:
                tests.update(read_list(word))
            elif word == method_of(word):
                patterns.add(word)
            else:
                tests.add(word)
        return cls(frozenset(tests), frozenset(patterns))

    def __contains__(self, test: str) -> bool:
        return test in self.tests or not self.patterns.isdisjoint((class_of(test), method_of(test)))

    def classes(self) -> list[str]:
        return sorted({class_of(name) for name in self.tests | self.patterns})

    def methods(self, class_name: str) -> Sequence[str]:
        """Those to run of a class; none means all of them."""
        if class_name in self.patterns:
            return ()
        names = {name for name in self.tests | self.patterns if class_of(name) == class_name}
        return sorted({method_of(name).partition("#")[2] for name in names})
