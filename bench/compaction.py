"""The log cleaner beside Apache Kafka's, on the same segments, with the same settings.

Kafka writes one directory with compacted topics that may not be cleaned yet. Each broker gets a
copy of it in each round. A topic is then released for cleaning, and the time runs from there until
the checkpoint of the cleaner says that the last closed segment is clean. A second topic is cleaned
under a load of small produce requests, one at a time, to see what requests notice of it.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles

from tests.support.apache_kafka import ApacheKafka
from tests.support.clients.confluent import ConfluentKafka
from tests.support.moldau import MoldauOnConfig

from bench import loads
from bench.broker import Runs
from bench.report import Goal, Row
from bench.targets import KAFKA_FLAGS, TICKS, cpu_seconds
from moldau.log.files.checkpoints import read_offsets
from moldau.machine.real.disk import OsDisk
from moldau.model import TopicPartition
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Compression

RECORDS_PER_BATCH = 100
VALUE_BYTES = 200
UPDATES_PER_KEY = 4
ROUNDS = 3
SEGMENTS = 10
SMALLEST_SEGMENT = 1024 * 1024
QUIET_REQUESTS = 3000
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

ROWS = [
    Row("none", "compaction of {size:,} MB, no codec", "MB/s", 0, Goal(at_least_ratio=1)),
    Row("lz4", "compaction of {size:,} MB, lz4", "MB/s", 0, Goal(at_least_ratio=1)),
    Row("none_cpu", "CPU per GB, no codec", "s", 2),
    Row("lz4_cpu", "CPU per GB, lz4", "s", 2),
    Row("memory", "resident memory at its peak, broker and cleaner", "MB", 0,
        Goal(at_most_ratio=1 / 2)),
    Row("quiet", "1-record requests without compaction: p99", "ms", 2),
    Row("busy", "1-record requests beside a compaction: p99", "ms", 2, Goal(at_most_ratio=1)),
    Row("busy_median", "1-record requests beside a compaction: median", "ms", 2),
]  # fmt: skip


def rows(megabytes: int) -> list[Row]:
    return [row._replace(title=row.title.format(size=megabytes)) for row in ROWS]


class OnCopy:
    """A broker on its own copy of the directory."""

    def __init__(self, name: str, written: Path, copy: Path) -> None:
        self.name = name
        self.data_dir = copy / "kafka-data"
        shutil.copytree(written, copy)
        self._broker: ApacheKafka | MoldauOnConfig
        if name == ApacheKafka.name:
            self._broker = ApacheKafka(copy, SETTINGS, flags=KAFKA_FLAGS)
        else:
            properties = copy / "kafka.properties"
            properties.write_text(properties.read_text().replace(str(written), str(copy)))
            self._broker = MoldauOnConfig(properties, self.data_dir)

    @property
    def address(self) -> str:
        return self._broker.bootstrap

    @property
    def pid(self) -> int:
        return self._broker.pid

    def start(self) -> None:
        self._broker.start()

    def stop(self) -> None:
        self._broker.stop()

    def release(self, topic: str) -> None:
        """From now on the topic may be cleaned."""
        ConfluentKafka(self.address).alter_topic_config(topic, "min.compaction.lag.ms", "0")

    def is_clean(self, topic: str) -> bool:
        files = (self.data_dir / f"{topic}-0").glob("*.log")
        active = max(int(file.stem) for file in files)
        path = f"{self.data_dir}/cleaner-offset-checkpoint"
        return read_offsets(OsDisk(), path).get(TopicPartition(topic, 0)) == active

    def dirty_bytes(self, topic: str) -> int:
        files = sorted((self.data_dir / f"{topic}-0").glob("*.log"))
        return sum(file.stat().st_size for file in files[:-1])


def run(megabytes: int, say: Callable[[str], None]) -> Runs:
    runs = Runs()
    with tempfile.TemporaryDirectory(prefix="moldau-bench-") as directory:
        written = Path(directory, "written")
        say(f"writing {megabytes} MB three times over")
        _write(written, megabytes)
        for number in range(ROUNDS):
            for name in (MoldauOnConfig.name, ApacheKafka.name):
                say(f"compaction, round {number + 1}: {name}")
                copy = Path(directory, "copy")
                target = OnCopy(name, written, copy)
                target.start()
                try:
                    _measure(target, runs)
                finally:
                    target.stop()
                shutil.rmtree(copy)
    return runs


def _write(directory: Path, megabytes: int) -> None:
    with ApacheKafka(directory, SETTINGS) as kafka:
        client = ConfluentKafka(kafka.bootstrap)
        segment_bytes = max(megabytes * 1_000_000 // SEGMENTS, SMALLEST_SEGMENT)
        for topic, codec in (*CODECS.items(), (UNDER_LOAD, Compression.NONE)):
            client.create_topic(topic, 1, {**TOPIC, "segment.bytes": str(segment_bytes)})
            batches = _batches(codec, megabytes)
            deadline = time.monotonic() + LIMIT_S
            loads.first_acknowledged_record(kafka.bootstrap, topic, next(batches), deadline)
            with loads.connect(kafka.bootstrap) as connection:
                for batch in batches:
                    connection.sendall(loads.produce_frame(topic, batch))
                    loads.check_produced(loads.read_frame(connection), topic)
        client.create_topic("small", 1)


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


def _measure(target: OnCopy, runs: Runs) -> None:
    for topic in CODECS:
        size, cpu = target.dirty_bytes(topic), _cpu_seconds(target.pid)
        with _peak_memory(target.pid) as peak:
            seconds = _clean(target, topic)
        runs.add(topic, target, size / 1e6 / seconds)
        runs.add(f"{topic}_cpu", target, (_cpu_seconds(target.pid) - cpu) / size * 1e9)
        runs.add("memory", target, peak())
    quiet: list[float] = []
    _requests(target, quiet, lambda: len(quiet) >= QUIET_REQUESTS)
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


def _clean(target: OnCopy, topic: str) -> float:
    """Seconds until the topic is clean."""
    started = time.monotonic()
    target.release(topic)
    while not target.is_clean(topic):
        if time.monotonic() - started > LIMIT_S:
            raise RuntimeError(f"{target.name} has not cleaned {topic}")
        time.sleep(0.01)
    return time.monotonic() - started


def _requests(target: OnCopy, times: list[float], is_over: Callable[[], bool]) -> None:
    """Produce one record at a time and note how long each took, in milliseconds."""
    frame = loads.produce_frame("small", loads.batch_of(100))
    with loads.connect(target.address) as connection:
        while not is_over():
            started = time.perf_counter()
            connection.sendall(frame)
            answer = loads.read_frame(connection)
            times.append((time.perf_counter() - started) * 1000)
            loads.check_produced(answer, "small")


def _percentile(times: list[float], percent: int) -> float:
    return quantiles(times, n=100)[percent - 1]


def _children(pid: int) -> list[int]:
    try:
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except FileNotFoundError:
        return []


def _cpu_seconds(pid: int) -> float:
    """Of a process and its children, those that have ended too."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    own = sum(map(int, fields[11:15])) / TICKS
    return own + sum(map(cpu_seconds, _children(pid)))


@contextmanager
def _peak_memory(pid: int) -> Iterator[Callable[[], float]]:
    """Megabytes that a process and its children use together, at most."""
    largest = 0.0
    over = threading.Event()

    def watch() -> None:
        nonlocal largest
        while not over.wait(0.02):
            largest = max(largest, sum(map(_resident_mb, [pid, *_children(pid)])))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield lambda: largest
    finally:
        over.set()
        watcher.join()


def _resident_mb(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return pages * 4096 / 1e6
