"""How the JVMs of Spark run in tests."""

from __future__ import annotations

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Tests end before a better compiler pays: half the processor time."""
