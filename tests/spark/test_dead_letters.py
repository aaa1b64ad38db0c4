"""A bad record makes one letter, also if several read it at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from tests.client.conftest import NewTopicFactory
from tests.spark.records import consume
from tests.support.target import Target

from moldau.client.listener.headers import read_failure
from moldau.records.reader import RecordColumns
from moldau.spark.dead_letters import DeadLetters
from moldau.spark.offsets import OffsetRange
from moldau.spark.options import ReadOptions, read_options

ROWS = 40


def reading(cluster: Target, topic: str, letters: str, **more: str) -> ReadOptions:
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap,
        "subscribe": topic,
        "deadLetterTopic": letters,
        "deadLetterPipeline": "shop",
        **more,
    }
    return read_options(options, streaming=True)


def bad(letters: DeadLetters, range_: OffsetRange, *offsets: int) -> None:
    """As a task that meets records that it cannot decode."""
    columns = RecordColumns()
    for offset in offsets:
        columns.offsets.append(offset)
        columns.timestamps.append(0)
        columns.keys.append(None)
        columns.values.append(b"bad")
        columns.headers.append(())
    letters.handle(range_.topic_partition, columns, dict.fromkeys(range(len(offsets)), "why"))


def written(cluster: Target, letters: str) -> list[int]:
    failures = [read_failure(row.headers) for row in consume(cluster.bootstrap, letters, 1)]
    return sorted(one.source.offset for one in failures if one is not None)


def test_what_others_have_written_meanwhile_is_left_out(
    moldau: Target, topics: NewTopicFactory
) -> None:
    """As two queries of one pipeline, and a backfill, which leaves its group alone."""
    topic, letters = topics(), topics()
    range_ = OffsetRange(topic, 0, 0, ROWS)
    with (
        DeadLetters(reading(moldau, topic, letters), range_) as first,
        DeadLetters(reading(moldau, topic, letters, **{"kafka.group.id": "g"}), range_) as second,
    ):
        bad(first, range_, 0, 1)
        bad(second, range_, 0, 1, 2)
        bad(first, range_, 2, 3)
        bad(second, range_, 3, 4)
    assert written(moldau, letters) == [0, 1, 2, 3, 4]


def test_tasks_of_one_machine_take_turns(moldau: Target, topics: NewTopicFactory) -> None:
    topic, letters = topics(), topics()
    range_ = OffsetRange(topic, 0, 0, ROWS)
    tasks = 3
    together = Barrier(tasks)

    def read() -> None:
        with DeadLetters(reading(moldau, topic, letters), range_) as mine:
            for offset in range(ROWS):
                together.wait(60)
                bad(mine, range_, offset)

    with ThreadPoolExecutor(tasks) as pool:
        for task in [pool.submit(read) for _ in range(tasks)]:
            task.result()
    assert written(moldau, letters) == list(range(ROWS))
