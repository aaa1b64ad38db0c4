"""Clients as processes of their own on a Moldau broker, and what is wanted of ours beside them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from bench.figures import Runs
from bench.report import MET, Table
from moldau import Admin, NewTopic

LIMIT_S = 300
PARTITIONS = 3


class PeerGoal(NamedTuple):
    """A bound on the ratio of two clients' figures in one row."""

    title: str
    row: str
    ours: str
    theirs: str
    at_least: float | None = None
    at_most: float | None = None


def create_topic(bootstrap: str, topic: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        for outcome in admin.create_topics([NewTopic(topic, PARTITIONS)]):
            outcome.get()


def run_load(module: str, name: str, *arguments: object) -> dict[str, float]:
    """Runs one load of a module in a process of its own and returns the figures that it prints."""
    done = subprocess.run(
        [sys.executable, "-m", module, name, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def goals(wanted: Sequence[PeerGoal], runs: Runs) -> Table:
    lines = []
    for goal in wanted:
        ratio = runs.ratio(goal.row, goal.ours, goal.theirs)
        if ratio is None:
            continue
        if goal.at_least is not None:
            met, bound = ratio >= goal.at_least, f"≥ {goal.at_least:g} ×"
        else:
            assert goal.at_most is not None
            met, bound = ratio <= goal.at_most, f"≤ {goal.at_most:g} ×"
        lines.append((goal.title, f"{ratio:.2f}", bound, MET[met]))
    return Table("Goals, as ratios of medians", ("goal", "ratio", "wanted", ""), lines)
