"""Records as a pyarrow table: columns straight from the decoder, no object per record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from moldau.extras import how_to_install
from moldau.model import TopicPartition
from moldau.records.reader import RecordColumns

if TYPE_CHECKING:
    import pyarrow as pa


def to_table(polled: Mapping[TopicPartition, RecordColumns]) -> pa.Table:
    """Columns topic, partition, offset, timestamp, key, value, headers."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ImportError(f"poll_arrow() needs pyarrow: {how_to_install('arrow')}") from error

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    schema = pa.schema(
        [
            ("topic", pa.dictionary(pa.int32(), pa.string())),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("ms", tz="UTC")),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("headers", pa.list_(header)),
        ]
    )
    topics = sorted({partition.topic for partition in polled})
    names = pa.array(topics, pa.string())
    batches = []
    for (topic, number), columns in polled.items():
        count = len(columns.offsets)
        index = pa.repeat(pa.scalar(topics.index(topic), pa.int32()), count)
        batches.append(
            pa.RecordBatch.from_arrays(
                [
                    pa.DictionaryArray.from_arrays(index, names),
                    pa.repeat(pa.scalar(number, pa.int32()), count),
                    pa.array(columns.offsets, pa.int64()),
                    pa.array(columns.timestamps, pa.int64()).cast(schema.field("timestamp").type),
                    pa.array(columns.keys, pa.binary()),
                    pa.array(columns.values, pa.binary()),
                    _headers(columns, schema.field("headers").type),
                ],
                schema=schema,
            )
        )
    return pa.Table.from_batches(batches, schema)


def _headers(columns: RecordColumns, kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if not any(columns.headers):  # as nearly always: no list per record for nothing
        starts = pa.repeat(pa.scalar(0, pa.int32()), len(columns.headers) + 1)
        return pa.ListArray.from_arrays(starts, pa.array([], kind.value_type), kind)
    rows = [
        [{"key": name, "value": value} for name, value in headers] for headers in columns.headers
    ]
    return pa.array(rows, kind)
