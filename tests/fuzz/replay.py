"""Runs inputs again, without a fuzzer: ``python -m tests.fuzz.replay TARGET FILE_OR_FOLDER …``.

Compiled modules or plain ones, as the environment says.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from tests.fuzz.targets import make_target


def replay(name: str, paths: Iterable[Path]) -> int:
    """Returns how many inputs were run; a finding is an exception with the file's name."""
    target = make_target(name)
    number = 0
    try:
        for path in paths:
            number += 1
            try:
                target.run(path.read_bytes())
            except BaseException as error:
                error.add_note(f"the input is {path}")
                raise
    finally:
        target.close()
    return number


def files_in(places: Iterable[Path]) -> list[Path]:
    found = []
    for place in places:
        found += sorted(place.iterdir()) if place.is_dir() else [place]
    return [path for path in found if path.suffix != ".txt"]


if __name__ == "__main__":
    name, *places = sys.argv[1:]
    print(f"{name}: {replay(name, files_in(map(Path, places)))} inputs are withstood")
