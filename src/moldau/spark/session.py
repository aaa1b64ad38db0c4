"""A Spark session that can use the data source: Java found, workers with this very Python."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

_USUAL_PLACES: Final = (
    "/usr/lib/jvm/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)


class JavaNotFoundError(RuntimeError):
    """There is no Java to run Spark with."""


def find_java() -> Path:
    """The home of a Java: ``JAVA_HOME``, the one on ``PATH``, or in one of the usual places."""
    for home in _java_homes():
        if os.access(home / "bin" / "java", os.X_OK):
            return home
    raise JavaNotFoundError(f"Spark needs Java 17 or later, and there is none here: {_advice()}")


def spark_session(
    app_name: str, *, master: str = "local[*]", config: Mapping[str, str] | None = None
) -> SparkSession:
    """A session with ``format("moldau")``; the workers run this Python, with all that it has."""
    if not master.startswith("sc://"):
        os.environ.setdefault("JAVA_HOME", str(find_java()))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    for name, value in (config or {}).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _java_homes() -> Iterable[Path]:
    if given := os.environ.get("JAVA_HOME"):
        yield Path(given)
    if found := shutil.which("java"):
        yield Path(found).resolve().parents[1]
    for pattern in _USUAL_PLACES:
        place = Path(pattern)
        yield from sorted(Path("/").glob(str(place.relative_to("/"))), reverse=True)


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
