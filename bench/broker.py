"""One broker: Moldau, compiled and plain, beside Apache Kafka, cold and warm.

Every broker is started some times. Each start gives the time to the first record, the memory of an
idle broker, and the cold figures: the first second of each load on a fresh broker. The last ones
stay; they are warmed up until their figures are steady, and measured in turns, round by round, each
figure the median of its rounds. CPU is what the broker's process used: a noisy neighbour disturbs
it less than it disturbs time, so that steadiness is judged by it.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench import loads, measuring, requests
from bench.figures import Runs
from bench.measuring import Measurement
from bench.report import MET, OURS, THEIRS, Goal, Row, Table, compare, met_text, ratio_text
from bench.session import Session
from bench.targets import (
    PlainMoldau,
    Target,
    brokers,
    compiled_modules,
    in_turns,
    resident_mb,
    time_to_first_record,
)
from bench.warming import warm

SETTLE_S = 1.0
OLD_TOPIC = "old-data"
RECORDS_PER_BATCH = 16
KB64, MB1 = 1 << 16, 1 << 20


class Scale(NamedTuple):
    starts: int
    rounds: int
    seconds: float
    """Of one load."""
    warming_s: float
    """The longest that a broker is warmed up."""
    old_batches: int
    """Of 16 KB, for the fetches."""


FULL = Scale(3, 7, 0.8, 100, 8000)
QUICK = Scale(1, 1, 0.05, 0, 200)


class Work(NamedTuple):
    key: str
    title: str
    rate_goal: Goal
    cpu_goal: Goal
    run: Callable[[Target, Scale], Measurement]


def _produce(size: int, in_flight: int, target: Target, scale: Scale) -> Measurement:
    records = max(1, size // 1000)
    batch = _batch(size)
    return measuring.produce(
        target, batch, records=records, in_flight=in_flight, seconds=scale.seconds
    )


def _fetch(size: int, target: Target, scale: Scale) -> Measurement:
    frames = old_data_frames(size, scale.old_batches)
    return measuring.fetch(target, frames, size=size, seconds=scale.seconds)


_batch = functools.cache(requests.batch_of)


@functools.cache
def old_data_frames(size: int, batches: int) -> list[bytes]:
    """Fetches of old data as a consumer sends them: each from the end of the last whole batch."""
    step = size // len(_batch(RECORDS_PER_BATCH * 1000)) * RECORDS_PER_BATCH
    last = (batches - 1) * RECORDS_PER_BATCH - 2 * step
    return [requests.fetch_frame(OLD_TOPIC, offset, size) for offset in range(0, last, step)]


def _work(
    key: str, title: str, rate: float, cpu: float, run: Callable[[Target, Scale], Measurement]
) -> Work:
    return Work(key, title, Goal(at_least_ratio=rate), Goal(at_most_ratio=cpu), run)


WORKS = [
    _work("single", "1 record, one at a time", 1.3, 0.6, functools.partial(_produce, 100, 1)),
    _work("pipelined", "1 record, 16 in flight", 3.5, 0.35, functools.partial(_produce, 100, 16)),
    _work("16k", "16 KB batches, 5 in flight", 2.5, 0.4, functools.partial(_produce, 16_000, 5)),
    _work("1m", "1 MB batches, 5 in flight", 1.5, 0.6, functools.partial(_produce, 1_000_000, 5)),
    _work("fetch64k", "fetch 64 KB", 1.3, 0.7, functools.partial(_fetch, KB64)),
    _work("fetch1m", "fetch 1 MB", 1.1, 0.75, functools.partial(_fetch, MB1)),
]

PROCESS_ROWS = [
    Row("start", "start to first acknowledged record", "s", 2, Goal(at_most=0.6)),
    Row("idle", "resident memory, idle", "MB", 0, Goal(at_most=70)),
    Row("loaded", "resident memory, after all loads", "MB", 0, Goal(at_most=120)),
]


def run(session: Session) -> list[Table]:
    scale = QUICK if session.quick else FULL
    cold, runs = Runs(), Runs()
    notes: list[str] = []
    with brokers(session.kinds) as targets:
        for target in targets:
            _fill(target, scale)
        for number in range(scale.starts):
            for target in in_turns(targets, number):
                session.say(f"cold, start {number + 1}/{scale.starts}: {target.name}")
                target.stop()
                _start_cold(target, scale, runs, cold)
        for target in targets:
            session.say(f"warming {target.name}")
            notes.append(_warm(target, scale))
            session.say(notes[-1])
        for number in range(scale.rounds):
            session.say(f"round {number + 1}/{scale.rounds}")
            for work in WORKS:
                for target in in_turns(targets, number):
                    work.run(target, scale).add_to(runs, work.key, target)
        for target in targets:
            runs.add("loaded", target, resident_mb(target.pid))
            if target.name == OURS:
                modules = len(compiled_modules(target.pid))
                notes.append(f"{OURS} had {modules} modules of its own as machine code.")
    return [
        warm_table(f"Warm: medians of {scale.rounds} rounds", runs, notes),
        _cold_table(f"Cold: the first {scale.seconds:g} s of each load on a broker that "
                    f"has just started, medians of {scale.starts} starts", cold),
        compare("The process", PROCESS_ROWS, runs),
    ]  # fmt: skip


def _fill(target: Target, scale: Scale) -> None:
    """The first start formats directories and brings programs into memory; it is not measured."""
    target.start()
    requests.create_topic(target.address, OLD_TOPIC)
    frame = requests.produce_frame(OLD_TOPIC, _batch(RECORDS_PER_BATCH * 1000))
    loads.run([loads.Load(target.address, [frame], in_flight=5, most=scale.old_batches)], 300)
    target.stop()


def _start_cold(target: Target, scale: Scale, runs: Runs, cold: Runs) -> None:
    runs.add("start", target, time_to_first_record(target))
    time.sleep(SETTLE_S)
    runs.add("idle", target, resident_mb(target.pid))
    for work in WORKS:
        work.run(target, scale).add_to(cold, work.key, target)


def _warm(target: Target, scale: Scale) -> str:
    def cpu_of(work: Work) -> Callable[[], float]:
        return lambda: work.run(target, scale).cpu_us

    rounds = {work.title: cpu_of(work) for work in WORKS}
    return warm(rounds, scale.warming_s).text(target.name)


HEADINGS = (
    "work", "Moldau requests/s", "plain", "Apache Kafka", "ratio", "goal", "",
    "CPU µs/request", "plain", "Apache Kafka", "ratio", "goal", "", "load, of a core",
)  # fmt: skip


def warm_table(title: str, runs: Runs, notes: Sequence[str]) -> Table:
    lines = []
    for work in WORKS:
        line = [work.title]
        for row, digits, goal in (
            (work.key, 0, work.rate_goal),
            (f"{work.key}_cpu", 1, work.cpu_goal),
        ):
            line += [runs.text(row, name, digits) for name in (OURS, PlainMoldau.name, THEIRS)]
            line += [ratio_text(runs, row), goal.text(), met_text(goal, runs, row)]
        shares = [runs.median(f"{work.key}_load", name) for name in (OURS, THEIRS)]
        line.append(" / ".join(f"{share:.0%}" for share in shares if share is not None))
        lines.append(line)
    return Table(title, HEADINGS, lines, notes)


def _cold_table(title: str, cold: Runs) -> Table:
    names = (OURS, THEIRS)
    lines = [
        [
            work.title,
            *(cold.text(work.key, name) for name in names),
            ratio_text(cold, work.key),
            *(cold.text(f"{work.key}_cpu", name, 1) for name in names),
            ratio_text(cold, f"{work.key}_cpu"),
        ]
        for work in WORKS
    ]
    headings = ("work", "Moldau requests/s", THEIRS, "ratio", "CPU µs/request", THEIRS, "ratio")
    return Table(title, headings, lines)


def summary(tables: Sequence[Table]) -> Table:
    """For the README: the figures without their spread, and whether the goals are met."""
    warm_rows, _, process = tables
    lines = []
    for line in warm_rows.lines:
        work, rate, _, their_rate, ratio, _, met, cpu, _, their_cpu, cpu_ratio, _, cpu_met, _ = line
        goals = MET[met == cpu_met == MET[True]]
        figures = (f"{_figure(rate)} requests/s", f"{_figure(their_rate)} requests/s", ratio)
        lines.append((work, *figures, f"{_figure(cpu)} µs", f"{_figure(their_cpu)} µs", cpu_ratio,
                      goals))  # fmt: skip
    for work, ours, theirs, ratio, _, met in process.lines:
        lines.append((work, _figure(ours), _figure(theirs), ratio, "", "", "", met))
    headings = ("", "Moldau", "Apache Kafka, warm", "ratio", "CPU: Moldau", "Kafka", "ratio",
                "goals")  # fmt: skip
    return Table("", headings, lines)


def _figure(text: str) -> str:
    return text.partition(" (")[0]
