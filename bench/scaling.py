"""How cost grows: with connections, busy and idle, with partitions, with consumers of a partition.

Each curve is a cost at several sizes. Its exponent is the slope of the curve when both axes are
logarithmic: 0 for a cost that stays, 1 for one that grows as the size does. Nothing of ours may
grow faster than linearly, noise aside; where a cost is per request, it must not grow with the size
as fast as the size itself does, so that the whole stays linear.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from bench import measuring, open_loop, requests
from bench.comparison import Work, warm_up
from bench.curves_svg import Panel, draw
from bench.figures import Runs
from bench.loads import Load
from bench.measuring import Measurement
from bench.page import PICTURES
from bench.processes import cpu_seconds, resident_mb
from bench.report import MET, OURS, THEIRS, Table
from bench.session import Session
from bench.targets import Target, brokers, in_turns

BATCH = requests.batch_of(100)
PICTURE = PICTURES / "scaling.svg"
NOISE = 0.1
"""An exponent so much above 1 is still called linear."""
MICROSECONDS, MILLISECONDS = 1e6, 1e3

# Kafka's controller refuses to create 10,000 partitions at once.
PARTITIONS_PER_TOPIC = 5000


class Scale(NamedTuple):
    rounds: int
    seconds: float
    warming_s: float
    connections: tuple[int, ...]
    partitions: tuple[int, ...]
    consumers: tuple[int, ...]
    record_rate: int
    """Records a second that consumers wait for."""


FULL = Scale(3, 1.0, 40, (1, 10, 100, 1000, 5000), (1, 10, 100, 1000, 10_000), (1, 10, 100), 50)
QUICK = Scale(1, 0.1, 0, (1, 10), (1, 10), (1, 4), 50)


class Curve(NamedTuple):
    """A cost at several sizes."""

    key: str
    title: str
    unit: str
    digits: int
    sizes: Sequence[int]
    per_one: bool
    """The cost is that of one request or wake-up; of all of them, it is so many times as much."""
    least: float = 0.0
    """What is smaller is noise."""

    def exponent(self, runs: Runs, name: str) -> float | None:
        """Of the cost of all."""
        points = [(size, runs.median(f"{self.key}-{size}", name)) for size in self.sizes]
        known = [
            (math.log(size), math.log(cost)) for size, cost in points if cost and cost > self.least
        ]
        if len(known) < 2:
            return None
        slope = statistics.linear_regression(*zip(*known, strict=True)).slope
        return slope + 1 if self.per_one else slope


def run(session: Session) -> list[Table]:
    scale = QUICK if session.quick else FULL
    curves = [
        Curve("busy", "busy connections: CPU of a request", "µs", 1, scale.connections, True),
        Curve("idle", "idle connections: CPU of a request on another", "µs", 1,
              scale.connections, False),
        Curve("idle_memory", "idle connections: memory, beyond that of none", "MB", 1,
              scale.connections, False, least=1.0),
        Curve("partitions", "partitions: CPU of a request, each to another one", "µs", 1,
              scale.partitions, True),
        Curve("partitions_memory", "partitions: memory, beyond that of none", "MB", 1,
              scale.partitions, False, least=1.0),
        Curve("wake_up", "consumers of a partition: CPU of a wake-up", "µs", 1,
              scale.consumers, True),
        Curve("wake_up_p99", "consumers of a partition: p99 until one has a record", "ms", 2,
              scale.consumers, False),
    ]  # fmt: skip
    runs = Runs()
    with brokers(session.both) as targets:
        for target in targets:
            target.start()
        notes = warm_up(targets, _warming(scale), scale.warming_s, session.say)
        before = {target.name: resident_mb(target.pid) for target in targets}
        for number in range(scale.rounds):
            session.say(f"connections and consumers, round {number + 1}/{scale.rounds}")
            for target in in_turns(targets, number):
                _connections(target, scale, before[target.name], runs)
                _consumers(target, scale, runs)
        for target in targets:
            # Anew, so that partitions do not live in the memory that connections have left.
            target.stop()
            target.start()
        notes += warm_up(targets, _warming(scale), scale.warming_s, session.say)
        for target in targets:
            _partitions(target, scale, runs, session.say)
    if not session.quick:
        PICTURE.write_text(draw([_panel(curve, runs) for curve in curves]))
    tables = [_table(curve, runs) for curve in curves]
    return [*tables, _growth(curves, runs, notes)]


def _small(target: Target, seconds: float, connections: int = 1) -> Measurement:
    return measuring.produce(
        target, BATCH, records=1, in_flight=1, seconds=seconds, connections=connections
    )


def _warming(scale: Scale) -> list[Work]:
    def on(connections: int) -> Callable[[Target], Measurement]:
        return lambda target: _small(target, scale.seconds, connections)

    return [Work(str(count), f"{count} connections", on(count)) for count in scale.connections[:3]]


def _connections(target: Target, scale: Scale, before_mb: float, runs: Runs) -> None:
    for count in scale.connections:
        runs.add(f"busy-{count}", target, _small(target, scale.seconds, count).cpu_us)
        with _idle(target, count):
            runs.add(f"idle-{count}", target, _small(target, scale.seconds).cpu_us)
            memory = f"idle_memory-{count}"
            if runs.median(memory, target.name) is None:
                # In the first round alone: what a process has had once it keeps for the next time.
                runs.add(memory, target, resident_mb(target.pid) - before_mb)


@contextmanager
def _idle(target: Target, count: int) -> Iterator[None]:
    """Connections that have asked once and then stay silent."""
    with ExitStack() as stack:
        frame = requests.metadata_frame("idle")
        for _ in range(count):
            connection = stack.enter_context(requests.connect(target.address))
            connection.sendall(frame)
            requests.read_frame(connection)
        yield


def _consumers(target: Target, scale: Scale, runs: Runs) -> None:
    _, without = _follow(target, 0, scale)
    for count in scale.consumers:
        outcome, cpu = _follow(target, count, scale)
        cost = max(0.0, cpu - without) / outcome.wake_ups
        runs.add(f"wake_up-{count}", target, cost * MICROSECONDS)
        p99 = statistics.quantiles(outcome.consumed, n=100)[98]
        runs.add(f"wake_up_p99-{count}", target, p99 * MILLISECONDS)


def _follow(target: Target, consumers: int, scale: Scale) -> tuple[open_loop.Outcome, float]:
    """Returns the CPU time of the broker, too, in seconds."""
    with measuring.new_topic(target) as topic:
        before = cpu_seconds(target.pid)
        outcome = open_loop.run(
            target.address,
            topic,
            requests.produce_frame(topic, BATCH),
            rate=scale.record_rate,
            seconds=2 * scale.seconds,
            consumers=consumers,
            offset=requests.count_records(target.address, topic),
            batch_size=len(BATCH),
        )
        return outcome, cpu_seconds(target.pid) - before


def _partitions(target: Target, scale: Scale, runs: Runs, say: Callable[[str], None]) -> None:
    """One after the other, and none is deleted: what is there before adds little to the next."""
    before_mb = resident_mb(target.pid)
    for count in scale.partitions:
        say(f"{count:,} partitions on {target.name}")
        topics = {
            f"curve-{count}-{first}": min(PARTITIONS_PER_TOPIC, count - first)
            for first in range(0, count, PARTITIONS_PER_TOPIC)
        }
        for topic, partitions in topics.items():
            requests.create_topic(target.address, topic, partitions)
        frames = [
            requests.produce_frame(topic, BATCH, [partition])
            for topic, partitions in topics.items()
            for partition in range(partitions)
        ]
        for _ in range(scale.rounds):
            sender = Load(target.address, frames, in_flight=16)
            measurement = measuring.send(target, [sender], topics, records=1, seconds=scale.seconds)
            runs.add(f"partitions-{count}", target, measurement.cpu_us)
        runs.add(f"partitions_memory-{count}", target, resident_mb(target.pid) - before_mb)


def _table(curve: Curve, runs: Runs) -> Table:
    lines = []
    for name in (OURS, THEIRS):
        if runs.has(name):
            figures = [runs.text(f"{curve.key}-{size}", name, curve.digits) for size in curve.sizes]
            lines.append([name, *figures])
    headings = [f"{curve.unit}", *(f"{size:,}" for size in curve.sizes)]
    return Table(curve.title, headings, lines)


def _panel(curve: Curve, runs: Runs) -> Panel:
    lines = {}
    for name in (OURS, THEIRS):
        points = [(size, runs.median(f"{curve.key}-{size}", name)) for size in curve.sizes]
        lines[name] = [
            (size, max(cost, curve.least / 10)) for size, cost in points if cost is not None
        ]
    return Panel(curve.title, curve.unit, {name: line for name, line in lines.items() if line})


def _growth(curves: Sequence[Curve], runs: Runs, notes: Sequence[str]) -> Table:
    """Whether anything of ours grows faster than linearly."""
    lines = []
    for curve in curves:
        ours, theirs = curve.exponent(runs, OURS), curve.exponent(runs, THEIRS)
        if ours is None:
            continue
        other = "" if theirs is None else f"{theirs:.2f}"
        lines.append(
            [_of_all(curve), f"{ours:.2f}", other, f"≤ {1 + NOISE}", MET[ours <= 1 + NOISE]]
        )
    title = "The exponents of these costs; nothing of ours grows faster than linearly"
    return Table(title, ("cost", OURS, THEIRS, "goal", ""), lines, notes)


def _of_all(curve: Curve) -> str:
    return f"{curve.title}, of all together" if curve.per_one else curve.title
