"""Lets the plain Python of the compiled modules run although their machine code is installed.

Python prefers ``reader.cpython-….so`` to ``reader.py`` beside it. With ``MOLDAU_PURE_PYTHON=1`` in
the environment a finder goes before Python's own and knows only the sources: to debug, to profile,
and for the tests, which run both ways.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType

VARIABLE = "MOLDAU_PURE_PYTHON"


class SourceOnlyFinder:
    """Finds the modules of one package as source files, never as extension modules."""

    def __init__(self, package: str) -> None:
        self._prefix = package + "."
        self._finders: dict[str, FileFinder] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is None or not fullname.startswith(self._prefix):
            return None
        for directory in path:
            finder = self._finders.get(directory)
            if finder is None:
                finder = FileFinder(directory, (SourceFileLoader, SOURCE_SUFFIXES))
                self._finders[directory] = finder
            spec = finder.find_spec(fullname, target)
            if spec is not None:
                return spec
        return None


def prefer_source_if_asked(package: str) -> None:
    """Called by the package before any of its compiled modules is imported."""
    if os.environ.get(VARIABLE, "0") not in ("", "0"):
        sys.meta_path.insert(0, SourceOnlyFinder(package))
