"""The same records in two batches, for a broker that finds one too large."""

from __future__ import annotations

from moldau.client.producer.batch import ProducerBatch
from moldau.records.builder import BatchBuilder
from moldau.records.reader import read_records


def halves_of(batch: ProducerBatch) -> tuple[ProducerBatch, ProducerBatch]:
    """Two batches with half of the records each; they take over the batch's age and memory."""
    assert batch.data is not None
    records = read_records(batch.data)
    middle = len(records) // 2
    width = batch.width / 2
    halves = []
    for part, number in (
        (records[:middle], batch.number),
        (records[middle:], batch.number + width),
    ):
        builder = BatchBuilder(compression=batch.builder.compression, level=batch.builder.level)
        for record in part:
            builder.append(record.timestamp, record.key, record.value, record.headers)
        half = ProducerBatch(
            batch.home, batch.topic, batch.partition, number, builder, batch.created
        )
        half.width = width
        half.attempts = batch.attempts
        halves.append(half)
    first, second = halves
    first.buffered = batch.buffered * middle // len(records)
    second.buffered = batch.buffered - first.buffered
    return first, second
