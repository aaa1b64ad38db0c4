"""One load on one broker: requests per second, and what a request cost the broker and the load."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from bench import loads, requests
from bench.figures import Runs
from bench.loads import Load, Outcome
from bench.processes import cpu_seconds
from bench.requests import LoadError
from bench.targets import Target

MICROSECONDS = 1e6
DELETE_LIMIT_S = 60

_topic_numbers = itertools.count()


class Measurement(NamedTuple):
    rate: float
    """Requests per second."""
    cpu_us: float
    """CPU time of the broker's process, all threads, per request."""
    load_share: float
    """How much of a core the load itself took: well below 1, or it is the limit."""

    def add_to(self, runs: Runs, row: str, target: Target) -> None:
        runs.add(row, target, self.rate)
        runs.add(f"{row}_cpu", target, self.cpu_us)
        runs.add(f"{row}_load", target, self.load_share)


def measure(target: Target, work: Callable[[], Outcome]) -> Measurement:
    before = cpu_seconds(*target.pids)
    outcome = work()
    used = cpu_seconds(*target.pids) - before
    return Measurement(
        outcome.requests / outcome.seconds,
        used / outcome.requests * MICROSECONDS,
        outcome.cpu_seconds / outcome.seconds,
    )


@contextmanager
def new_topic(target: Target, partitions: int = 1) -> Iterator[str]:
    """A topic for one round; at its end it is gone, from the disk too."""
    topic = f"round-{next(_topic_numbers)}"
    requests.create_topic(target.address, topic, partitions, target.replicas)
    yield topic
    requests.delete_topic(target.address, topic)
    deadline = time.monotonic() + DELETE_LIMIT_S
    while any(target.data_dir.glob(f"{topic}-*")):
        if time.monotonic() > deadline:
            raise LoadError(f"{target.name} keeps the files of {topic}")
        time.sleep(0.01)


def produce(
    target: Target,
    batch: bytes,
    *,
    records: int,
    in_flight: int,
    seconds: float,
    connections: int = 1,
    partitions_per_request: int = 1,
    most_bytes: int = 300_000_000,
) -> Measurement:
    """Produce for so long, to a topic of its own.

    ``most_bytes`` ends a round before it fills the disk, or the memory that the system may have in
    hand for it.
    """
    each = partitions_per_request
    most = max(in_flight, most_bytes // (len(batch) * each * connections))
    with new_topic(target, each) as topic:
        frame = requests.produce_frame(topic, batch, range(each))
        senders = [
            Load(target.address, [frame], in_flight=in_flight, most=most)
            for _ in range(connections)
        ]
        return send(target, senders, {topic: each}, records=records * each, seconds=seconds)


def send(
    target: Target,
    senders: Sequence[Load],
    topics: Mapping[str, int],
    *,
    records: int,
    seconds: float,
) -> Measurement:
    """Run loads that produce to these topics (by their numbers of partitions) for so long; all of
    it, so many records with each request, must have been stored, once.
    """

    def stored() -> int:
        return sum(
            requests.count_records(target.address, topic, partitions)
            for topic, partitions in topics.items()
        )

    before = stored()
    measurement = measure(target, lambda: loads.run(senders, seconds))
    sent = sum(sender.requests for sender in senders)
    if stored() - before != sent * records:
        raise LoadError(f"{target.name} has {stored() - before} records of {sent} requests")
    return measurement


def _from(frames: Sequence[bytes], number: int) -> list[bytes]:
    """Connections begin with different partitions."""
    start = number % len(frames)
    return [*frames[start:], *frames[:start]]


def fetch(
    target: Target, frames: Sequence[bytes], *, size: int, seconds: float, connections: int = 1
) -> Measurement:
    """Fetch for so long, one request at a time on each connection; all must come full."""

    readers = [
        Load(target.address, _from(frames, number * 7), in_flight=1)
        for number in range(connections)
    ]

    def work() -> Outcome:
        outcome = loads.run(readers, seconds)
        if outcome.received < outcome.requests * size * 0.9:
            raise LoadError(f"{outcome.received} bytes for {outcome.requests} fetches of {size}")
        return outcome

    return measure(target, work)
