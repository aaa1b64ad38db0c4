"""Loads that several brokers run in turns: warming up, rounds, and the table of what came out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench.figures import Runs
from bench.measuring import Measurement
from bench.processes import cpu_seconds
from bench.report import MET, OURS, THEIRS, Goal, Row, Table, met_text, ratio_text
from bench.targets import PlainMoldau, Target, in_turns
from bench.warming import warm


class Work(NamedTuple):
    key: str
    title: str
    run: Callable[[Target], Measurement]
    rate_goal: Goal | None = None
    cpu_goal: Goal | None = None


def warm_up(
    targets: Sequence[Target], works: Sequence[Work], limit_s: float, say: Callable[[str], None]
) -> list[str]:
    """Loads each broker until its CPU time per request is steady; returns how long each took.

    ``limit_s``: of a JVM's CPU time, so that a busy machine does not leave it cold. Python has no
    compiler to wait for.
    """
    notes = []
    for target in targets:
        say(f"warming {target.name}")
        rounds = {work.title: _cpu_of(work, target) for work in works}
        limit = limit_s if target.name == THEIRS else limit_s / 4
        clock = functools.partial(cpu_seconds, *target.pids)
        notes.append(warm(rounds, limit, clock).text(target.name))
        say(notes[-1])
    return notes


def _cpu_of(work: Work, target: Target) -> Callable[[], float]:
    return lambda: work.run(target).cpu_us


def run_in_turns(
    targets: Sequence[Target],
    works: Sequence[Work],
    rounds: int,
    runs: Runs,
    say: Callable[[str], None],
) -> None:
    for number in range(rounds):
        say(f"round {number + 1}/{rounds}")
        for work in works:
            for target in in_turns(targets, number):
                work.run(target).add_to(runs, work.key, target)


def comparison(title: str, works: Sequence[Work], runs: Runs, notes: Sequence[str] = ()) -> Table:
    """Requests per second and CPU per request of every broker, and how busy the load itself was."""
    names = [name for name in (OURS, PlainMoldau.name, THEIRS) if runs.has(name)]
    headings = ["work"]
    for figure in ("requests/s", "CPU µs/request"):
        headings += [f"{name}, {figure}" for name in names]
        headings += ["ratio", "goal", ""]
    lines = []
    for work in works:
        line = [work.title]
        for row, digits, goal in (
            (work.key, 0, work.rate_goal),
            (f"{work.key}_cpu", 1, work.cpu_goal),
        ):
            line += [runs.text(row, name, digits) for name in names]
            line += [ratio_text(runs, row), goal.text() if goal else "", met_text(goal, runs, row)]
        lines.append([*line, load_text(runs, f"{work.key}_load")])
    return Table(title, [*headings, "load, of a core"], lines, notes)


def summary(
    title: str, works: Sequence[Work], rows: Sequence[Row], runs: Runs, notes: Sequence[str]
) -> Table:
    """For the README: medians alone, and whether all goals of a line are met; of the notes those
    about the other broker.
    """
    lines = []
    for work in works:
        cpu = f"{work.key}_cpu"
        met = [met_text(work.rate_goal, runs, work.key), met_text(work.cpu_goal, runs, cpu)]
        lines.append(
            [
                work.title,
                *(runs.middle(work.key, name, 0, "requests/s") for name in (OURS, THEIRS)),
                ratio_text(runs, work.key),
                *(runs.middle(cpu, name, 1, "µs") for name in (OURS, THEIRS)),
                ratio_text(runs, cpu),
                MET[MET[False] not in met] if any(met) else "",
            ]
        )
    for row in rows:
        figures = [runs.middle(row.key, name, row.digits, row.unit) for name in (OURS, THEIRS)]
        ratio, met_goal = ratio_text(runs, row.key), met_text(row.goal, runs, row.key)
        lines.append([row.title, *figures, ratio, "", "", "", met_goal])
    headings = ("", OURS, f"{THEIRS} 4.3.1", "ratio", "CPU/request", THEIRS, "ratio", "goals")
    theirs = [note for note in notes if note.startswith(THEIRS)]
    return Table(title, headings, lines, theirs, for_readme=True)


def load_text(runs: Runs, row: str) -> str:
    """How much of a core the load took, beside Moldau and beside Kafka."""
    shares = [runs.median(row, name) for name in (OURS, THEIRS)]
    return " / ".join(f"{share:.0%}" for share in shares if share is not None)
