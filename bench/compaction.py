"""The log cleaner beside Apache Kafka's, on the same batches, with the same settings.

Each broker writes compacted topics that may not be cleaned yet, and gets a copy of its directory in
each round. A topic is then released for cleaning, and the time runs from there until the checkpoint
of the cleaner says that the last closed segment is clean. The first topics are small: cleaning them
warms the broker up, and the first of them gives the cold figure. The last topic is cleaned under a
load of small produce requests, one at a time, to see what requests notice of it.
"""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.support.clients.confluent import ConfluentKafka

from bench import requests
from bench.figures import Runs
from bench.processes import family_cpu_seconds, family_resident_mb
from bench.report import Goal, Row, Table, compare
from bench.session import Session
from bench.targets import Kind, Target
from bench.warming import WITHIN, unsteadiness
from moldau.log.files.checkpoints import read_offsets
from moldau.machine.real.disk import OsDisk
from moldau.model import TopicPartition
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Compression

RECORDS_PER_BATCH = 100
VALUE_BYTES = 200
UPDATES_PER_KEY = 4
SEGMENTS = 10
SMALLEST_SEGMENT = 1024 * 1024
LIMIT_S = 120

NEVER_MS = str(2**62)
TOPIC = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": NEVER_MS,
}
SETTINGS = {"log.cleaner.backoff.ms": "50"}
CODECS = {"none": Compression.NONE, "lz4": Compression.LZ4}
UNDER_LOAD = "loaded"
SMALL = "small"
WARMING = {f"warming-{number}": list(CODECS.values())[number % 2] for number in range(6)}
"""The limit of warming up: so many topics."""


class Scale(NamedTuple):
    megabytes: int
    rounds: int
    quiet_requests: int


FULL = Scale(400, 3, 3000)
QUICK = Scale(8, 1, 100)


def _small(megabytes: int) -> int:
    """The size of the topics for warming up: some segments, at least."""
    return max(megabytes // 8, 3)


def rows(megabytes: int) -> list[Row]:
    no_slower, half = Goal(at_least_ratio=1), Goal(at_most_ratio=1 / 2)
    return [
        Row("cold", f"compaction of {_small(megabytes)} MB, no codec, cold", "MB/s", 0),
        Row("none", f"compaction of {megabytes:,} MB, no codec", "MB/s", 0, no_slower),
        Row("lz4", f"compaction of {megabytes:,} MB, lz4", "MB/s", 0, no_slower),
        Row("none_cpu", "CPU per GB, no codec", "s", 2),
        Row("lz4_cpu", "CPU per GB, lz4", "s", 2),
        Row("memory", "resident memory at its peak, broker and cleaner", "MB", 0, half),
        Row("quiet", "1-record requests without compaction: p99", "ms", 2),
        Row("busy", "1-record requests beside a compaction: p99", "ms", 2, Goal(at_most_ratio=1)),
        Row("busy_median", "1-record requests beside a compaction: median", "ms", 2),
    ]


def run(session: Session) -> list[Table]:
    scale = QUICK if session.quick else FULL
    runs = Runs()
    notes: list[str] = []
    with TemporaryDirectory(prefix="moldau-bench-") as directory:
        written = {kind: Path(directory, kind.__name__) for kind in session.both}
        for kind, place in written.items():
            session.say(f"writing for {kind.name}")
            _write(kind, place, scale.megabytes)
        for number in range(scale.rounds):
            for kind, place in written.items():
                session.say(f"compaction, round {number + 1}: {kind.name}")
                copy = Path(directory, "copy")
                shutil.copytree(place, copy)
                target = kind(copy, SETTINGS)
                target.start()
                try:
                    warmth = _warm(target, runs)
                    _measure(target, scale, runs)
                finally:
                    target.stop()
                shutil.rmtree(copy)
                if number == scale.rounds - 1:
                    notes.append(warmth)
    title = f"Log compaction, medians of {scale.rounds} rounds"
    return [compare(title, rows(scale.megabytes), runs, notes)]


def _release(target: Target, topic: str) -> None:
    """From now on the topic may be cleaned."""
    ConfluentKafka(target.address).alter_topic_config(topic, "min.compaction.lag.ms", "0")


def _is_clean(target: Target, topic: str) -> bool:
    active = max(int(file.stem) for file in _segments(target, topic))
    path = f"{target.data_dir}/cleaner-offset-checkpoint"
    return read_offsets(OsDisk(), path).get(TopicPartition(topic, 0)) == active


def _dirty_bytes(target: Target, topic: str) -> int:
    return sum(file.stat().st_size for file in _segments(target, topic)[:-1])


def _segments(target: Target, topic: str) -> list[Path]:
    return sorted((target.data_dir / f"{topic}-0").glob("*.log"))


def _write(kind: Kind, directory: Path, megabytes: int) -> None:
    topics = {**dict.fromkeys(WARMING, _small(megabytes)), **dict.fromkeys(CODECS, megabytes)}
    topics[UNDER_LOAD] = megabytes
    codecs: Mapping[str, Compression] = {**WARMING, **CODECS, UNDER_LOAD: Compression.NONE}
    target = kind(directory, SETTINGS)
    target.start()
    try:
        client = ConfluentKafka(target.address)
        for topic, size in topics.items():
            segment_bytes = max(size * 1_000_000 // SEGMENTS, SMALLEST_SEGMENT)
            client.create_topic(topic, 1, {**TOPIC, "segment.bytes": str(segment_bytes)})
            _fill(target.address, topic, _batches(codecs[topic], size))
        client.create_topic(SMALL, 1)
    finally:
        target.stop()


def _fill(address: str, topic: str, batches: Iterator[bytes]) -> None:
    deadline = time.monotonic() + LIMIT_S
    requests.first_acknowledged_record(address, topic, deadline, next(batches))
    with requests.connect(address) as connection:
        for batch in batches:
            connection.sendall(requests.produce_frame(topic, batch))
            requests.check_produced(requests.read_frame(connection), topic)


def _batches(codec: Compression, megabytes: int) -> Iterator[bytes]:
    """Keys in random order, each some times; half of a value is random, half is not."""
    rng = random.Random(7)
    count = megabytes * 1_000_000 // (VALUE_BYTES + 32)
    now_ms = time.time_ns() // 1_000_000
    for _ in range(count // RECORDS_PER_BATCH):
        builder = BatchBuilder(compression=codec)
        for number in range(RECORDS_PER_BATCH):
            key = b"customer-%010d" % rng.randrange(count // UPDATES_PER_KEY)
            value = rng.randbytes(VALUE_BYTES // 2) + b"the same " * (VALUE_BYTES // 18)
            builder.append(now_ms + number, key, value)
        yield bytes(builder.build())


def _warm(target: Target, runs: Runs) -> str:
    """Cleans small topics until the rate is steady, and returns how that went."""
    started = time.monotonic()
    rates: list[float] = []
    for topic in WARMING:
        rates.append(_dirty_bytes(target, topic) / 1e6 / _clean(target, topic))
        if unsteadiness(rates[::2]) <= WITHIN and unsteadiness(rates[1::2]) <= WITHIN:
            break
    runs.add("cold", target, rates[0])
    went = ", ".join(f"{rate:.0f}" for rate in rates)
    seconds = time.monotonic() - started
    return f"{target.name}: {seconds:.0f} s of warming up, no codec and lz4 in turn: {went} MB/s."


def _measure(target: Target, scale: Scale, runs: Runs) -> None:
    for topic in CODECS:
        size, cpu = _dirty_bytes(target, topic), family_cpu_seconds(target.pid)
        with _peak_memory(target.pid) as peak:
            seconds = _clean(target, topic)
        runs.add(topic, target, size / 1e6 / seconds)
        runs.add(f"{topic}_cpu", target, (family_cpu_seconds(target.pid) - cpu) / size * 1e9)
        runs.add("memory", target, peak())
    quiet: list[float] = []
    _requests(target, quiet, lambda: len(quiet) >= scale.quiet_requests)
    busy: list[float] = []
    done = threading.Event()
    load = threading.Thread(target=_requests, args=(target, busy, done.is_set))
    load.start()
    try:
        _clean(target, UNDER_LOAD)
    finally:
        done.set()
        load.join()
    runs.add("quiet", target, _percentile(quiet, 99))
    runs.add("busy", target, _percentile(busy, 99))
    runs.add("busy_median", target, _percentile(busy, 50))


def _clean(target: Target, topic: str) -> float:
    """Seconds until the topic is clean."""
    started = time.monotonic()
    _release(target, topic)
    while not _is_clean(target, topic):
        if time.monotonic() - started > LIMIT_S:
            raise RuntimeError(f"{target.name} has not cleaned {topic}")
        time.sleep(0.01)
    return time.monotonic() - started


def _requests(target: Target, times: list[float], is_over: Callable[[], bool]) -> None:
    """Produce one record at a time and note how long each took, in milliseconds."""
    frame = requests.produce_frame(SMALL, requests.batch_of(100))
    with requests.connect(target.address) as connection:
        while not is_over():
            started = time.perf_counter()
            connection.sendall(frame)
            answer = requests.read_frame(connection)
            times.append((time.perf_counter() - started) * 1000)
            requests.check_produced(answer, SMALL)


def _percentile(times: list[float], percent: int) -> float:
    return quantiles(times, n=100)[percent - 1]


@contextmanager
def _peak_memory(pid: int) -> Iterator[Callable[[], float]]:
    """The most memory that a process and its descendants have together."""
    largest = 0.0
    over = threading.Event()

    def watch() -> None:
        nonlocal largest
        while not over.wait(0.02):
            largest = max(largest, family_resident_mb(pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield lambda: largest
    finally:
        over.set()
        watcher.join()
