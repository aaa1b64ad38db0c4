"""How the JVMs of Spark run in tests."""

from __future__ import annotations

from pathlib import Path

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Tests end before a better compiler pays: half the processor time."""
ARCHIVE = Path(__file__).parents[2] / ".cache" / "spark-classes.jsa"
"""Spark's classes as a JVM has them in memory (``class_archive``)."""


def _java_options() -> str:
    usable = ARCHIVE.exists() and ARCHIVE.stat().st_size and " " not in str(ARCHIVE)
    # A JVM with other classes, or of another release, goes without it, and need not say so.
    return f"{QUICK} -XX:SharedArchiveFile={ARCHIVE} -Xlog:disable" if usable else QUICK


JAVA_OPTIONS = _java_options()
