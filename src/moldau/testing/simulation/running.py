"""Many lives, on all cores, with a progress bar; and the story of one."""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count, islice
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from moldau.testing.simulation.checker.violation import Violation
from moldau.testing.simulation.lives.cluster import ClusterLife
from moldau.testing.simulation.lives.life import Life
from moldau.testing.simulation.lives.one_broker import OneBrokerLife
from moldau.testing.simulation.lives.outcome import Outcome
from moldau.testing.simulation.timeline import tell

FAILED: Final = "the life itself failed"
COMMAND: Final = "python -m moldau.testing.simulation"


@dataclass(slots=True)
class Summary:
    """What became of many lives."""

    lives: int = 0
    seconds: float = 0.0
    """Of virtual time."""
    acknowledged: int = 0
    crashes: int = 0
    took: float = 0.0
    """Real seconds."""
    failed: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.lives += 1
        self.seconds += outcome.seconds
        self.acknowledged += outcome.acknowledged
        self.crashes += outcome.crashes
        if outcome.violations:
            self.failed.append(outcome)

    def __str__(self) -> str:
        return (
            f"{self.lives:,} lives, {self.seconds:,.0f} simulated seconds in {self.took:,.0f} s "
            f"({self.seconds / max(self.took, 0.001):,.0f} a second), {self.crashes:,} crashes, "
            f"{self.acknowledged:,} records acknowledged; {len(self.failed)} lives broke a promise"
        )


def begin(seed: int, *, cluster: bool, keep_events: bool = False) -> Life:
    """Returns a life that is still to be lived: of one broker, or of a cluster."""
    kind = ClusterLife if cluster else OneBrokerLife
    return kind(seed, keep_events=keep_events)


def live(seed: int, *, cluster: bool = False) -> Outcome:
    """One life, in a process of its own or here."""
    try:
        return begin(seed, cluster=cluster).run()
    except Exception as error:
        # The seed is worth more than the end of the run.
        return Outcome(seed, [_failure(error)], digest="", seconds=0.0, acknowledged=0, crashes=0)
    finally:
        # What is left of a life goes round in circles, and was not collected while it lasted.
        gc.collect(1)


def _failure(error: Exception) -> Violation:
    return Violation(FAILED, "".join(traceback.format_exception(error)).rstrip())


def run_lives(
    first: int,
    lives: int,
    *,
    minutes: float | None = None,
    jobs: int | None = None,
    cluster: bool = False,
) -> Summary:
    """Run lives from a seed on; ``minutes`` overrides their number."""
    console = Console(soft_wrap=True)
    summary = Summary()
    started = time.monotonic()
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )
    with progress:
        bar = progress.add_task("lives", total=None if minutes is not None else lives)
        deadline = None if minutes is None else started + minutes * 60
        for outcome in _outcomes(
            first, lives, deadline, jobs or os.cpu_count() or 1, cluster=cluster
        ):
            summary.add(outcome)
            progress.advance(bar)
            if outcome.violations:
                progress.console.print(
                    f"seed {outcome.seed}: {outcome.violations[0]}", markup=False, highlight=False
                )
    summary.took = time.monotonic() - started
    console.print(str(summary), highlight=False)
    for outcome in summary.failed[:5]:
        console.print(replay_command(outcome.seed, cluster=cluster), highlight=False)
    return summary


def replay_command(seed: int, *, cluster: bool) -> str:
    """Returns what to type to see a life again."""
    return f"{COMMAND} {'--cluster ' if cluster else ''}--replay {seed}"


def _outcomes(
    first: int, lives: int, deadline: float | None, jobs: int, *, cluster: bool
) -> Iterator[Outcome]:
    if jobs == 1:
        seeds = count(first) if deadline is not None else iter(range(first, first + lives))
        for seed in seeds:
            if deadline is not None and time.monotonic() > deadline:
                return
            yield live(seed, cluster=cluster)
        return
    work = partial(live, cluster=cluster)
    # Spawned, not forked: no life inherits what another has imported or collected.
    with multiprocessing.get_context("spawn").Pool(jobs, initializer=gc.freeze) as pool:
        if deadline is None:
            yield from pool.imap_unordered(work, range(first, first + lives))
            return
        seeds = count(first)
        while time.monotonic() < deadline:
            yield from pool.imap_unordered(work, list(islice(seeds, jobs * 10)))


def replay(seed: int, *, everything: bool = False, cluster: bool = False) -> int:
    """Tell the story of one life; the exit code says whether it kept all promises."""
    life = begin(seed, cluster=cluster, keep_events=True)
    try:
        violations = life.run().violations
    except Exception as error:
        violations = [_failure(error)]
    console = Console(soft_wrap=True)
    recorder = life.simulation.recorder
    console.print(f"Seed {seed}: {life.plan}", markup=False, highlight=False)
    for line in tell(violations, recorder.events, everything=everything):
        console.print(line, markup=False, highlight=False)
    console.print(f"{life.simulation.time:.1f} simulated seconds, digest {recorder.digest}")
    return 1 if violations else 0
