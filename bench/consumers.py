"""Consumers side by side: all read the same topics of one Moldau broker, again and again."""

from __future__ import annotations

from typing import NamedTuple

from bench.client_processes import PARTITIONS, PeerGoal, create_topic, goals, run_load
from bench.figures import Name, Runs
from bench.report import Table
from bench.session import Session
from bench.targets import Moldau, brokers

POLL = "moldau: poll"
ITERATE = "moldau: for record in consumer"
ARROW = "moldau: poll_arrow"
ASYNC = "moldau: AsyncConsumer.poll"
CONFLUENT = "confluent-kafka: consume"
AIOKAFKA = "aiokafka: getmany"
KAFKA_PYTHON = "kafka-python: poll"

WAYS = {
    POLL: "moldau_poll",
    ITERATE: "moldau_iterate",
    ARROW: "moldau_arrow",
    ASYNC: "moldau_async",
    CONFLUENT: "confluent_poll",
    AIOKAFKA: "aiokafka_poll",
    KAFKA_PYTHON: "kafka_python_poll",
}
SLOW = {KAFKA_PYTHON: 0.2}
"""Those that read only a part."""

HEADINGS = ("consumer", "100 B records/s", "CPU µs each", "1 KB records/s", "CPU µs each")
GOALS = [
    PeerGoal("poll, beside aiokafka", "rate_100", POLL, AIOKAFKA, at_least=1),
    PeerGoal("poll with asyncio, beside aiokafka", "rate_100", ASYNC, AIOKAFKA, at_least=1),
    PeerGoal("poll, beside confluent-kafka", "rate_100", POLL, CONFLUENT, at_least=1),
    PeerGoal("poll_arrow, beside confluent-kafka", "rate_100", ARROW, CONFLUENT, at_least=1),
]


class Scale(NamedTuple):
    records: int
    rounds: int


FULL = Scale(900_000, 5)
QUICK = Scale(10_000, 1)


def run(session: Session) -> list[Table]:
    scale = QUICK if session.quick else FULL
    counts = {100: scale.records, 1000: scale.records // 5}
    runs = Runs()
    with brokers([Moldau]) as (target,):
        target.start()
        for size, count in counts.items():
            _fill(target.address, f"read-{size}", size, count)
        for number in range(scale.rounds):
            session.say(f"consumers, round {number + 1} of {scale.rounds}")
            for title in WAYS:
                for size, count in counts.items():
                    _measure(title, target.address, size, count, runs)
    title = f"Python consumers on a Moldau broker, medians of {scale.rounds} rounds"
    return [Table(title, HEADINGS, [_line(way, runs) for way in WAYS]), goals(GOALS, runs)]


def _fill(bootstrap: str, topic: str, size: int, count: int) -> None:
    from moldau import Producer

    create_topic(bootstrap, topic)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for start in range(0, count, 1000):
            values = [b"x" * size] * min(1000, count - start)
            producer.send_many(topic, values, partition=start // 1000 % PARTITIONS)
        producer.flush()


def _measure(title: str, bootstrap: str, size: int, count: int, runs: Runs) -> None:
    records = int(count * SLOW.get(title, 1.0))
    figures = run_load(
        "bench.consumer_loads", WAYS[title], bootstrap, f"read-{size}", PARTITIONS, records
    )
    runs.add(f"rate_{size}", Name(title), figures["records_per_second"])
    runs.add(f"cpu_{size}", Name(title), figures["cpu_us"])


def _line(title: str, runs: Runs) -> list[str]:
    rows = {"rate_100": 0, "cpu_100": 2, "rate_1000": 0, "cpu_1000": 2}
    return [title, *(runs.text(row, title, digits) for row, digits in rows.items())]
