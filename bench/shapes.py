"""The shapes that loads have: many connections, many partitions in a request, both directions."""

from __future__ import annotations

from typing import NamedTuple

from bench import loads, measuring, requests
from bench.comparison import Work, comparison, run_in_turns, warm_up
from bench.figures import Runs
from bench.follower import Follower
from bench.loads import Load, Outcome
from bench.measuring import Measurement
from bench.old_data import BATCH, RECORDS_PER_BATCH, fetch_frames, fill
from bench.report import Table
from bench.session import Session
from bench.targets import Target, brokers

KB64 = 1 << 16
SMALL = requests.batch_of(100)
MANY = 100
"""Partitions in a request."""
MOST_BYTES = 200_000_000


class Scale(NamedTuple):
    rounds: int
    seconds: float
    warming_s: float
    old_batches: int
    connections: tuple[int, ...]


FULL = Scale(5, 0.8, 90, 4000, (1, 10, 100))
QUICK = Scale(1, 0.05, 0, 200, (1, 10))


def run(session: Session) -> list[Table]:
    scale = QUICK if session.quick else FULL
    works = [
        *(produce_on(count, scale.seconds) for count in scale.connections),
        *(_fetch_on(count, scale) for count in scale.connections),
        _produce_to_many(scale),
        _fetch_of_many(scale),
        _both_directions(scale),
    ]
    runs = Runs()
    with brokers(session.both) as targets:
        for target in targets:
            target.start()
            fill(target, scale.old_batches)
            _fill_many(target)
        notes = warm_up(targets, works, scale.warming_s, session.say)
        run_in_turns(targets, works, scale.rounds, runs, session.say)
    return [comparison(f"Shapes, medians of {scale.rounds} rounds", works, runs, notes)]


def produce_on(connections: int, seconds: float) -> Work:
    def run(target: Target) -> Measurement:
        return measuring.produce(
            target,
            SMALL,
            records=1,
            in_flight=1,
            seconds=seconds,
            connections=connections,
        )

    title = f"1 record, one at a time on each of {connections} connections"
    return Work(f"produce{connections}", title, run)


def _fetch_on(connections: int, scale: Scale) -> Work:
    frames = fetch_frames(KB64, scale.old_batches)

    def run(target: Target) -> Measurement:
        return measuring.fetch(
            target, frames, size=KB64, seconds=scale.seconds, connections=connections
        )

    title = f"fetch 64 KB, one at a time on each of {connections} connections"
    return Work(f"fetch{connections}", title, run)


def _produce_to_many(scale: Scale) -> Work:
    def run(target: Target) -> Measurement:
        return measuring.produce(
            target,
            SMALL,
            records=1,
            in_flight=5,
            seconds=scale.seconds,
            partitions_per_request=MANY,
        )

    return Work("many", f"1 record to each of {MANY} partitions in a request, 5 in flight", run)


MANY_TOPIC = "many"


def _fill_many(target: Target) -> None:
    """One batch of 16 KB in each partition, after the record that came with its creation."""
    requests.create_topic(target.address, MANY_TOPIC, MANY)
    frames = [requests.produce_frame(MANY_TOPIC, BATCH, [number]) for number in range(MANY)]
    loads.run([Load(target.address, frames, in_flight=5, most=MANY)], seconds=60)


def _fetch_of_many(scale: Scale) -> Work:
    size = len(BATCH)
    frame = requests.fetch_frame(MANY_TOPIC, 1, size, range(MANY))

    def run(target: Target) -> Measurement:
        return measuring.fetch(target, [frame], size=size * MANY, seconds=scale.seconds)

    return Work("fetch_many", f"fetch 16 KB of each of {MANY} partitions in a request", run)


def _both_directions(scale: Scale) -> Work:
    """A request is one that produces; all that is produced is consumed, too."""

    def run(target: Target) -> Measurement:
        with measuring.new_topic(target) as topic:
            start = requests.count_records(target.address, topic)
            frame = requests.produce_frame(topic, BATCH)
            most = MOST_BYTES // len(BATCH)
            sender = Load(target.address, [frame], in_flight=5, most=most)
            follower = Follower(
                target.address,
                topic,
                offset=start,
                batch_size=len(BATCH),
                records_per_batch=RECORDS_PER_BATCH,
            )

            def work() -> Outcome:
                return loads.run([sender], scale.seconds, followers=[follower])

            return measuring.measure(target, work)

    return Work("both", "16 KB batches, 5 in flight, and a consumer that follows", run)


def at_the_head(seconds: float) -> Work:
    """Produce one at a time while a consumer waits at the head: a wake-up for each request."""

    def run(target: Target) -> Measurement:
        with measuring.new_topic(target) as topic:
            start = requests.count_records(target.address, topic)
            frame = requests.produce_frame(topic, SMALL)
            sender = Load(target.address, [frame], in_flight=1)
            follower = Follower(target.address, topic, offset=start, batch_size=len(SMALL))

            def work() -> Outcome:
                return loads.run([sender], seconds, followers=[follower])

            return measuring.measure(target, work)

    return Work("head", "1 record, one at a time, and a consumer at the head", run)
