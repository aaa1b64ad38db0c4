"""Options and reports that all kinds of tests share."""

from __future__ import annotations

import gc
import json
import logging
import signal
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from tests.support.soak import SOAK

# Examples are the same in every run, so that a change is judged by itself and not by its luck; the
# long run (``make soak``) looks for new ones. No example is too slow: that would test the machine.
settings.register_profile(
    "moldau",
    deadline=None,
    derandomize=not SOAK,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("moldau")
if not SOAK:
    # Hypothesis also draws constants out of the modules that happen to be loaded, and which those
    # are depends on the tests that ran before in the same process: not the same in every run.
    providers.is_local_module_file = lambda _path: False  # type: ignore[assignment, attr-defined]


RESULTS: dict[tuple[str, str], bool] = {}
"""Feature and client of the compatibility table, and whether all of their tests passed."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("moldau")
    group.addoption(
        "--target",
        choices=("moldau", "cluster", "kafka"),
        default="moldau",
        help="what the compatibility tests talk to: one broker, three of them, or Apache Kafka, "
        "which proves the tests themselves",
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
        "one_broker: looks into the directory of the only broker, or at what it answers for all; "
        "not for --target=cluster",
    )
    config.addinivalue_line(
        "markers",
        "compat(feature, client): the cell of the compatibility table that this test fills; "
        "both may name parameters of the test in braces",
    )


SLOWEST_FIRST = (
    "spark",
    "kafka_suite",
    "client",
    "cluster",
    "compat",
    "simulation",
    "benchmarks",
    "fuzz",
    "unit",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--target") == "cluster":
        alone = [item for item in items if item.get_closest_marker("one_broker") is not None]
        config.hook.pytest_deselected(items=alone)
        items[:] = [item for item in items if item not in alone]
    # Files are handed to processes in this order: the quick ones fill what the slow ones leave,
    # so that no process waits for another's last long file. Within a kind the order stays random.
    ranks = {kind: rank for rank, kind in enumerate(SLOWEST_FIRST)}
    items.sort(key=lambda item: ranks.get(item.nodeid.split("/")[1], len(ranks)))


def pytest_collection_finish() -> None:
    # Thousands of tests and all that they have imported stay: the collector need not look at them
    # again and again.
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # or what is left at the end of the process is called leaked


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # pytest hangs its handlers on every logger that does not propagate, and PySpark's loggers give
    # each handler they get their own JSON format: all later tests would read their logs as JSON.
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        if name in logging.root.manager.loggerDict:
            logging.getLogger(name).propagate = True
    # Reports come here from all processes when tests run in several.
    for name, cell in report.user_properties:
        if name == "compat":
            feature, client = cast("tuple[str, str]", cell)
            RESULTS[feature, client] = RESULTS.get((feature, client), True) and report.passed


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = session.config.getoption("--compat-report")
    if not path or not RESULTS or hasattr(session.config, "workerinput"):
        return
    from tests.compat.kinds import KINDS

    report = {
        "clients": {client.name: client.version() for client in KINDS},
        "results": [
            {"feature": feature, "client": client, "passed": passed}
            for (feature, client), passed in sorted(RESULTS.items())
        ],
    }
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(report, indent=1) + "\n")
