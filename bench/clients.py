"""Clients side by side on one Moldau broker: ours, confluent-kafka, aiokafka, kafka-python."""

from __future__ import annotations

from typing import NamedTuple

from bench.client_processes import PeerGoal, create_topic, goals, run_load
from bench.figures import Name, Runs
from bench.report import Table
from bench.session import Session
from bench.targets import Moldau, brokers


class Way(NamedTuple):
    """A client and a way of using it; ``share`` is its part of the load, for slow ones."""

    title: str
    produce: str
    latency: str | None
    share: float = 1.0


SEND = "moldau: send"
SEND_MANY = "moldau: send_many"
ASYNC = "moldau: AsyncProducer.send"
CONFLUENT = "confluent-kafka"
AIOKAFKA = "aiokafka"
KAFKA_PYTHON = "kafka-python"

WAYS = [
    Way(SEND, "moldau_send", "moldau_latency"),
    Way(SEND_MANY, "moldau_send_many", None),
    Way(ASYNC, "moldau_async", "moldau_async_latency"),
    Way(CONFLUENT, "confluent_send", "confluent_latency"),
    Way(AIOKAFKA, "aiokafka_send", "aiokafka_latency", 0.3),
    Way(KAFKA_PYTHON, "kafka_python_send", "kafka_python_latency", 0.1),
]

HEADINGS = (
    "client", "100 B records/s", "CPU µs each", "1 KB records/s", "CPU µs each",
    "one send, p50 µs", "p99 µs",
)  # fmt: skip

GOALS = [
    PeerGoal("send, beside aiokafka", "rate_100", SEND, AIOKAFKA, at_least=2),
    PeerGoal("send, beside kafka-python", "rate_100", SEND, KAFKA_PYTHON, at_least=8),
    PeerGoal("send_many, beside confluent-kafka", "rate_100", SEND_MANY, CONFLUENT, at_least=1),
    PeerGoal("one send with asyncio, p50, beside aiokafka", "p50", ASYNC, AIOKAFKA, at_most=1),
    PeerGoal("one send with asyncio, p99, beside aiokafka", "p99", ASYNC, AIOKAFKA, at_most=1),
]


class Scale(NamedTuple):
    records: int
    rounds: int
    latencies: int


FULL = Scale(600_000, 5, 2000)
QUICK = Scale(2000, 1, 20)


def run(session: Session) -> list[Table]:
    scale = QUICK if session.quick else FULL
    runs = Runs()
    with brokers([Moldau]) as (target,):
        target.start()
        for number in range(scale.rounds):
            session.say(f"clients, round {number + 1} of {scale.rounds}")
            for way in WAYS:
                _measure(way, target.address, scale, runs, number)
    title = f"Python clients on a Moldau broker, medians of {scale.rounds} rounds"
    return [Table(title, HEADINGS, [_line(way.title, runs) for way in WAYS]), goals(GOALS, runs)]


def _measure(way: Way, bootstrap: str, scale: Scale, runs: Runs, number: int) -> None:
    name = Name(way.title)
    for size in (100, 1000):
        topic = f"{way.produce}-{size}-{number}".replace("_", "-")
        create_topic(bootstrap, topic)
        records = int(scale.records * way.share * (1 if size == 100 else 0.3))
        figures = run_load("bench.client_loads", way.produce, bootstrap, topic, size, records)
        runs.add(f"rate_{size}", name, figures["records_per_second"])
        runs.add(f"cpu_{size}", name, figures["cpu_us"])
    if way.latency is not None:
        topic = f"{way.latency}-{number}".replace("_", "-")
        create_topic(bootstrap, topic)
        figures = run_load(
            "bench.client_loads", way.latency, bootstrap, topic, 100, scale.latencies
        )
        runs.add("p50", name, figures["p50_us"])
        runs.add("p99", name, figures["p99_us"])


def _line(title: str, runs: Runs) -> list[str]:
    rows = {"rate_100": 0, "cpu_100": 2, "rate_1000": 0, "cpu_1000": 2, "p50": 0, "p99": 0}
    return [title, *(runs.text(row, title, digits) for row, digits in rows.items())]
