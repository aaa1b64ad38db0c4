"""A Spark session that can use the data source: Java found, workers with this very Python."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

_CONNECT_PORT: Final = 15002
_USUAL_PLACES: Final = (
    "/usr/lib/jvm/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)


class JavaNotFoundError(RuntimeError):
    """There is no Java to run Spark with."""


class ServerNotFoundError(RuntimeError):
    """There is no Spark Connect server, or nothing to talk to it with."""


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
    builder = SparkSession.builder.appName(app_name)
    if master.startswith("sc://"):
        _check_connect_server(master)
        builder = builder.remote(master)
    else:
        os.environ.setdefault("JAVA_HOME", str(find_java()))
        os.environ.update(python_of(master, os.environ))
        builder = builder.master(master)
    for name, value in (config or {}).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def python_of(master: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Which Python the workers run, if nobody has said so: this one.

    Pods have another file system, in which it is ``python3`` of the image; so it has to be here.
    """
    in_pods = master.startswith("k8s://")
    names = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    found = {
        name: environment.get(name, "python3" if in_pods else sys.executable) for name in names
    }
    if in_pods:
        here = str(Path(sys.executable).parent)
        found["PATH"] = os.pathsep.join((here, environment.get("PATH", "")))
    return found


def _check_connect_server(url: str) -> None:
    """Spark's client would go on trying for ten minutes."""
    for module in ("grpc", "grpc_status", "zstandard"):
        if find_spec(module) is None:
            raise ServerNotFoundError(
                f"Spark Connect ({url}) needs {module}: pip install 'pyspark[connect]'"
            )
    place = urlsplit(url)
    host, port = place.hostname or "localhost", place.port or _CONNECT_PORT
    try:
        socket.create_connection((host, port), timeout=10).close()
    except OSError as error:
        raise ServerNotFoundError(
            f"No Spark Connect server answers at {host}:{port}: {error.strerror or error}"
        ) from None


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
