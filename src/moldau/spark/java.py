"""A Java that Spark can run on: ``JAVA_HOME``, the one on ``PATH``, or in one of the usual places.

One that is too old, or not there, is passed over; which was taken is told then.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

NEEDED: Final = 17

_USUAL_PLACES: Final = (
    "/usr/lib/jvm/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)
_VERSION: Final = re.compile(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)')


class JavaNotFoundError(RuntimeError):
    """There is no Java to run Spark with."""


@dataclass(frozen=True)
class Java:
    home: Path
    version: int | None
    """None if it does not tell: Spark will."""
    passed_over: tuple[str, ...] = ()
    """What is wrong with those that come before it."""

    @property
    def remark(self) -> str | None:
        """What to tell if it is not the one that was asked for."""
        if not self.passed_over:
            return None
        version = "" if self.version is None else f" (Java {self.version})"
        return (
            f"Spark needs Java {NEEDED} or later; {'; '.join(self.passed_over)}: "
            f"{self.home}{version} is taken"
        )


def find_java() -> Java:
    """The first one that will do; ``JavaNotFoundError`` says what to install."""
    passed_over: list[str] = []
    for home, what in _homes():
        if not os.access(home / "bin" / "java", os.X_OK):
            if what is not None:
                passed_over.append(f"{what} has no bin/java")
            continue
        version = _version(home)
        if version is None or version >= NEEDED:
            return Java(home, version, tuple(passed_over))
        passed_over.append(f"{what or home} is Java {version}")
    there = f", and {'; '.join(passed_over)}" if passed_over else ", and there is none here"
    raise JavaNotFoundError(f"Spark needs Java {NEEDED} or later{there}: {_advice()}")


def _version(home: Path) -> int | None:
    """From the file that comes with it, which costs nothing, or else by asking."""
    try:
        text = (home / "release").read_text("utf-8", "replace")
    except OSError:
        text = ""
    if (found := _VERSION.search(text)) is None:
        try:
            asked = subprocess.run(  # noqa: S603 - the user's own Java
                [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=10
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        found = _VERSION.search(asked.stderr)
    return None if found is None else int(found[1])


def _homes() -> Iterable[tuple[Path, str | None]]:
    """Homes, and what those are called that somebody has chosen."""
    if given := os.environ.get("JAVA_HOME"):
        yield Path(given), f"JAVA_HOME={given}"
    if found := shutil.which("java"):
        yield Path(found).resolve().parents[1], None
    for pattern in _USUAL_PLACES:
        place = Path(pattern)
        for home in sorted(Path("/").glob(str(place.relative_to("/"))), reverse=True):
            yield home, None


def _advice() -> str:
    if platform.system() == "Darwin":
        return "brew install openjdk@21, then set JAVA_HOME to its home"
    for tool, command in (
        ("apt-get", "apt-get install openjdk-21-jre-headless"),
        ("dnf", "dnf install java-21-openjdk-headless"),
        ("apk", "apk add openjdk21-jre-headless"),
        ("pacman", "pacman -S jre21-openjdk-headless"),
    ):
        if shutil.which(tool):
            return f"install one with {command}, or set JAVA_HOME"
    return "install one, such as OpenJDK 21, and set JAVA_HOME"
