"""A disk in memory and batches, for the tests of the log."""

from __future__ import annotations

import random

import pytest

from moldau.testing.disk import MemoryDisk

DIRECTORY = "/data/t-0"


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk(random.Random(1))
    disk.makedirs(DIRECTORY)
    return disk
