"""``python -m bench.trees TREE …``: what a request costs the brokers of several source trees.

For whoever changes the path of requests: worktrees of different revisions (``git worktree add``),
each with the modules that were compiled in it, run the loads of ``bench.broker`` and a consumer at
the head in turns. A tree with ``:plain`` after it runs without machine code, one with
``@/path/to/python`` on that Python. Of a shared machine only medians of one run compare.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import loads, measuring, requests
from bench.broker import FULL, works
from bench.comparison import Work
from bench.figures import Runs
from bench.loads import Load
from bench.measuring import Measurement
from bench.old_data import fill
from bench.processes import resident_mb
from bench.report import Table
from bench.shapes import at_the_head
from bench.targets import Moldau, Target, in_turns, time_to_first_record
from moldau.source import VARIABLE as PLAIN_PYTHON
from moldau.wire.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    decode_fetch_response,
    encode_fetch_request,
)

PLAIN_SUFFIX = ":plain"
QUIET_PARTITIONS = 100
QUIET_STEPS = 1000
QUIET_LIMIT_S = 60
LATEST_OFFSET_OF_A_NEW_TOPIC = 1  # each partition has the record that showed it to be ready


class TreeMoldau(Moldau):
    """A broker that runs the sources of one tree."""

    def __init__(self, directory: Path, tree: str) -> None:
        super().__init__(directory)
        self.name = tree
        place, _, python = tree.partition("@")
        self._process.python = python or self._process.python
        path, plain = place.removesuffix(PLAIN_SUFFIX), place.endswith(PLAIN_SUFFIX)
        self._process.env = {
            "PYTHONPATH": str(Path(path, "src").resolve(strict=True)),
            PLAIN_PYTHON: "1" if plain else "0",
        }


def quiet() -> Work:
    """Steps of a fetch session in whose partitions nothing happens."""
    latest = LATEST_OFFSET_OF_A_NEW_TOPIC

    def run(target: Target) -> Measurement:
        with measuring.new_topic(target, QUIET_PARTITIONS) as topic:
            wanted = [
                FetchPartition(n, -1, latest, -1, -1, 1 << 20) for n in range(QUIET_PARTITIONS)
            ]
            first = _session_frame(0, 0, [FetchTopic(topic, None, wanted)])
            with requests.connect(target.address) as connection:
                connection.sendall(first)
                answer = requests.read_frame(connection)
            session_id = decode_fetch_response(requests.FETCH_VERSION, answer)[1].session_id
            frames = [_session_frame(session_id, epoch, []) for epoch in range(1, QUIET_STEPS + 1)]
            steps = Load(target.address, frames, in_flight=1, most=QUIET_STEPS)
            return measuring.measure(target, lambda: loads.run([steps], QUIET_LIMIT_S))

    return Work("quiet", f"a session of {QUIET_PARTITIONS} partitions, nothing new", run)


def _session_frame(session_id: int, epoch: int, topics: list[FetchTopic]) -> bytes:
    request = FetchRequest(-1, -1, 0, 1, requests.ALL_BYTES, 0, session_id, epoch, topics)
    return encode_fetch_request(requests.FETCH_VERSION, 1, "bench", request)


def run(
    trees: Sequence[str], rounds: int, seconds: float, batches: int, only: Sequence[str]
) -> Table:
    scale = FULL._replace(seconds=seconds, old_batches=batches)
    chosen = [
        work
        for work in [*works(scale), at_the_head(seconds), quiet()]
        if not only or work.key in only
    ]
    runs = Runs()
    with TemporaryDirectory(prefix="moldau-bench-") as directory, ExitStack() as stack:
        targets: list[Target] = []
        for number, tree in enumerate(trees):
            broker = TreeMoldau(Path(directory, str(number)), tree)
            stack.callback(broker.stop)
            targets.append(broker)
            runs.add("start", broker, time_to_first_record(broker))
            fill(broker, batches)
        for number in range(-1, rounds):
            for work in chosen:
                for target in in_turns(targets, number):
                    measurement = work.run(target)
                    if number >= 0:  # the one before is to warm up
                        measurement.add_to(runs, work.key, target)
        for target in targets:
            runs.add("loaded", target, resident_mb(target.pid))
    cell: Callable[[str, str], str] = lambda row, name: runs.text(row, name, 1)  # noqa: E731
    lines = [[work.title, *(cell(f"{work.key}_cpu", tree) for tree in trees)] for work in chosen]
    for row, title in (("start", "start to first record, s"), ("loaded", "memory afterwards, MB")):
        lines.append([title, *(runs.middle(row, tree, 2) for tree in trees)])
    return Table("CPU µs per request", ["", *trees], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trees", nargs="+", metavar="TREE", help=f"a path[{PLAIN_SUFFIX}][@PYTHON]")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.4, help="of one load in one round")
    parser.add_argument("--batches", type=int, default=2000, help="of old data, 16 KB each")
    parser.add_argument("--only", nargs="*", default=[], help="keys of loads")
    options = parser.parse_args()
    run(options.trees, options.rounds, options.seconds, options.batches, options.only).show()


if __name__ == "__main__":
    main()
