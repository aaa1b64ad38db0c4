"""Options and reports that all kinds of tests share."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# Examples are the same in every run, so that a change is judged by itself and not by its luck; the
# long run (``make soak``) looks for new ones. No example is too slow: that would test the machine.
settings.register_profile(
    "moldau",
    deadline=None,
    derandomize="MOLDAU_SOAK" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("moldau")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("moldau")
    group.addoption(
        "--target",
        choices=("moldau", "kafka"),
        default="moldau",
        help="what the compatibility tests talk to; kafka proves the tests themselves",
    )
    group.addoption(
        "--compat-report",
        metavar="FILE",
        help="write the results of the compatibility tests as JSON, for tools/compat_table.py",
    )


def pytest_configure(config: pytest.Config) -> None:
    # A shell ignores SIGINT for what it starts in the background, and children inherit that; tests
    # that press Ctrl-C on a command need it to be heard.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line(
        "markers",
        "compat(feature, client): the cell of the compatibility table that this test fills; "
        "both may name parameters of the test in braces",
    )
