"""What the code under test logged, and nobody else."""

from __future__ import annotations

import logging

import pytest


def records_of(caplog: pytest.LogCaptureFixture, package: str) -> list[logging.LogRecord]:
    """Those of a package. Others may speak up at any time: threads of libraries that earlier tests
    started, and asyncio about what the garbage collector finds of theirs.
    """
    return [record for record in caplog.records if f"{record.name}.".startswith(f"{package}.")]
