"""What consumers are made to do: read a topic that is there already, from the first record to the
last. One function per client and way of reading, each in a process of its own, as in
``client_loads``.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable

from bench.client_loads import Stopwatch
from moldau.model import TopicPartition

MAX_RECORDS = 500
"""The default of ``max.poll.records``; what the others are asked for at a time, too."""


def moldau_poll(bootstrap: str, topic: str, partitions: int, records: int) -> dict[str, float]:
    from moldau import Consumer

    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
        return _count(lambda: consumer.poll(5.0).count, records)


def moldau_iterate(bootstrap: str, topic: str, partitions: int, records: int) -> dict[str, float]:
    from moldau import Consumer

    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
        watch = Stopwatch()
        left = records
        for _ in consumer:
            left -= 1
            if not left:
                break
        return watch.read(records)


def moldau_arrow(bootstrap: str, topic: str, partitions: int, records: int) -> dict[str, float]:
    from moldau import Consumer

    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="latest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
        consumer.poll_arrow(0.0)  # imports pyarrow, before the clock runs
        consumer.seek_to_beginning()
        return _count(lambda: consumer.poll_arrow(5.0).num_rows, records)


def moldau_async(bootstrap: str, topic: str, partitions: int, records: int) -> dict[str, float]:
    from moldau import AsyncConsumer

    async def main() -> dict[str, float]:
        async with AsyncConsumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
            watch = Stopwatch()
            left = records
            while left > 0:
                left -= (await consumer.poll(5.0)).count
            return watch.read(records)

    return asyncio.run(main())


def aiokafka_poll(bootstrap: str, topic: str, partitions: int, records: int) -> dict[str, float]:
    import aiokafka

    async def main() -> dict[str, float]:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            consumer.assign([aiokafka.TopicPartition(topic, n) for n in range(partitions)])
            watch = Stopwatch()
            left = records
            while left > 0:
                found = await consumer.getmany(timeout_ms=5000, max_records=MAX_RECORDS)
                left -= sum(map(len, found.values()))
            return watch.read(records)
        finally:
            await consumer.stop()

    return asyncio.run(main())


def confluent_poll(bootstrap: str, topic: str, partitions: int, records: int) -> dict[str, float]:
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, n, 0) for n in range(partitions)])
    taken = _count(lambda: len(consumer.consume(MAX_RECORDS, 5.0)), records)
    consumer.close()
    return taken


def kafka_python_poll(
    bootstrap: str, topic: str, partitions: int, records: int
) -> dict[str, float]:
    import kafka

    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([kafka.TopicPartition(topic, number) for number in range(partitions)])
    taken = _count(lambda: sum(map(len, consumer.poll(5000).values())), records)
    consumer.close()
    return taken


def _count(poll: Callable[[], int], records: int) -> dict[str, float]:
    watch = Stopwatch()
    left = records
    while left > 0:
        left -= poll()
    return watch.read(records)


def main() -> None:
    name, bootstrap, topic, partitions, records = sys.argv[1:]
    print(json.dumps(globals()[name](bootstrap, topic, int(partitions), int(records))))


if __name__ == "__main__":
    main()
