"""What the clients are made to do: one function per client and way of sending.

Each runs in a process of its own (``python -m bench.client_loads NAME …``), so that nobody pays for
another's threads and garbage, and prints what it took: seconds, CPU seconds, latencies. All
send with acks=all and a linger of 5 ms, and keep their own defaults otherwise.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

LINGER_MS = 5
ASK_AHEAD = 1000
"""How many records an asyncio program sends before it looks at the answers of the first."""


class Stopwatch:
    """Wall time and CPU time of this process, all threads together."""

    def __init__(self) -> None:
        self._wall = time.perf_counter()
        self._cpu = _cpu()

    def read(self, records: int) -> dict[str, float]:
        wall = time.perf_counter() - self._wall
        return {
            "records_per_second": records / wall,
            "cpu_us": (_cpu() - self._cpu) / records * 1e6,
        }


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def moldau_send(bootstrap: str, topic: str, value: bytes, records: int) -> dict[str, float]:
    from moldau import Producer

    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, value).result(30)
        watch = Stopwatch()
        send = producer.send
        for _ in range(records):
            send(topic, value)
        producer.flush()
        return watch.read(records)


def moldau_send_many(bootstrap: str, topic: str, value: bytes, records: int) -> dict[str, float]:
    from moldau import Producer

    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, value).result(30)
        watch = Stopwatch()
        for start in range(0, records, 1000):
            producer.send_many(topic, [value] * min(1000, records - start))
        producer.flush()
        return watch.read(records)


def moldau_async(bootstrap: str, topic: str, value: bytes, records: int) -> dict[str, float]:
    from moldau import AsyncProducer

    async def main() -> dict[str, float]:
        async with AsyncProducer(bootstrap_servers=bootstrap) as producer:
            await (await producer.send(topic, value))
            watch = Stopwatch()
            for _ in range(records):
                await producer.send(topic, value)
            await producer.flush()
            return watch.read(records)

    return asyncio.run(main())


def aiokafka_send(bootstrap: str, topic: str, value: bytes, records: int) -> dict[str, float]:
    from aiokafka import AIOKafkaProducer

    async def main() -> dict[str, float]:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, acks="all", linger_ms=LINGER_MS, enable_idempotence=True
        )
        await producer.start()
        try:
            await producer.send_and_wait(topic, value)
            watch = Stopwatch()
            for _ in range(records):
                await producer.send(topic, value)
            await producer.flush()
            return watch.read(records)
        finally:
            await producer.stop()

    return asyncio.run(main())


def kafka_python_send(bootstrap: str, topic: str, value: bytes, records: int) -> dict[str, float]:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=LINGER_MS)
    producer.send(topic, value).get(30)
    watch = Stopwatch()
    for _ in range(records):
        producer.send(topic, value)
    producer.flush()
    taken = watch.read(records)
    producer.close()
    return taken


def confluent_send(bootstrap: str, topic: str, value: bytes, records: int) -> dict[str, float]:
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": LINGER_MS, "enable.idempotence": True}
    )
    producer.produce(topic, value)
    producer.flush()
    watch = Stopwatch()
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush()
    return watch.read(records)


# One record at a time: how long from send to acknowledgement


def moldau_latency(bootstrap: str, topic: str, value: bytes, records: int) -> dict[str, float]:
    from moldau import Producer

    with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
        return _latencies(lambda: producer.send(topic, value).result(30), records)


def moldau_async_latency(
    bootstrap: str, topic: str, value: bytes, records: int
) -> dict[str, float]:
    from moldau import AsyncProducer

    async def main() -> dict[str, float]:
        async with AsyncProducer(bootstrap_servers=bootstrap, linger_ms=0) as producer:

            async def one() -> None:
                await (await producer.send(topic, value))

            return await _async_latencies(one, records)

    return asyncio.run(main())


def aiokafka_latency(bootstrap: str, topic: str, value: bytes, records: int) -> dict[str, float]:
    from aiokafka import AIOKafkaProducer

    async def main() -> dict[str, float]:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, acks="all", linger_ms=0, enable_idempotence=True
        )
        await producer.start()
        try:
            return await _async_latencies(lambda: producer.send_and_wait(topic, value), records)
        finally:
            await producer.stop()

    return asyncio.run(main())


def kafka_python_latency(
    bootstrap: str, topic: str, value: bytes, records: int
) -> dict[str, float]:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=0)
    taken = _latencies(lambda: producer.send(topic, value).get(30), records)
    producer.close()
    return taken


def confluent_latency(bootstrap: str, topic: str, value: bytes, records: int) -> dict[str, float]:
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 0, "enable.idempotence": True}
    )

    def one() -> None:
        producer.produce(topic, value)
        producer.flush()

    return _latencies(one, records)


def _latencies(one: Callable[[], object], records: int) -> dict[str, float]:
    for _ in range(100):
        one()
    taken = []
    for _ in range(records):
        started = time.perf_counter()
        one()
        taken.append(time.perf_counter() - started)
    return _percentiles(taken)


async def _async_latencies(one: Callable[[], Any], records: int) -> dict[str, float]:
    for _ in range(100):
        await one()
    taken = []
    for _ in range(records):
        started = time.perf_counter()
        await one()
        taken.append(time.perf_counter() - started)
    return _percentiles(taken)


def _percentiles(taken: list[float]) -> dict[str, float]:
    taken.sort()
    return {
        "p50_us": taken[len(taken) // 2] * 1e6,
        "p99_us": taken[len(taken) * 99 // 100] * 1e6,
    }


def main() -> None:
    name, bootstrap, topic, size, records = sys.argv[1:]
    load = globals()[name]
    print(json.dumps(load(bootstrap, topic, b"x" * int(size), int(records))))


if __name__ == "__main__":
    main()
