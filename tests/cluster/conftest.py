"""Fixtures for tests that run real processes."""

from __future__ import annotations

import pytest
from tests.support.cli import CommandLine

from moldau.testing.broker import MoldauProcess


@pytest.fixture
def moldau(
    moldau_broker: MoldauProcess,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> CommandLine:
    """The ``moldau`` command, talking to the session's broker."""
    monkeypatch.setenv("MOLDAU_BOOTSTRAP", moldau_broker.bootstrap_servers)
    return CommandLine(moldau_broker.bootstrap_servers, capfd)
