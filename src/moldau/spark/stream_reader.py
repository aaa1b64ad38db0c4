"""Streaming queries: where a micro-batch ends, which tasks read it, and what is committed after it.

Spark keeps one of these in a process of its own beside the driver for as long as the query runs;
copies of it, which only ``read``, go to the executors.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from moldau.client.errors import KafkaError
from moldau.model import TopicPartition
from moldau.spark.lookup import OffsetLookup
from moldau.spark.offsets import (
    DataLossError,
    PartitionOffsets,
    available,
    from_nested,
    limited,
    plan,
    to_nested,
)
from moldau.spark.options import ReadOptions
from moldau.spark.read_task import RangePartition, read_range

logger: Final = logging.getLogger("moldau.spark")

Offsets = dict[str, dict[str, int]]


class StreamPlan:
    """What is the same in all releases of Spark."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._opened: OffsetLookup | None = None
        self._target: PartitionOffsets | None = None
        """Where AvailableNow ends."""
        self._last_batch_at = time.monotonic()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_opened": None}

    @property
    def _lookup(self) -> OffsetLookup:
        if self._opened is None:
            self._opened = OffsetLookup(self._options)
        return self._opened

    def initialOffset(self) -> Offsets:  # noqa: N802
        partitions = self._lookup.partitions()
        return to_nested(self._lookup.resolve(self._options.starting, partitions))

    def latest(self) -> PartitionOffsets:
        """No further than the option endingOffsets says; it says nothing of other partitions."""
        found = self._lookup.latest(self._lookup.partitions())
        ending = self._options.ending.offsets
        if not ending:
            return found
        return {part: min(at, ending[part]) for part, at in found.items() if part in ending}

    def batch_end(self, begin: Offsets, *, everything: bool) -> Offsets:
        """Where the batch that begins here ends; where it begins if it should wait."""
        options = self._options
        given = from_nested(begin)
        latest = self._target if self._target is not None else self.latest()
        start = self._with_new_partitions(given, latest)
        latest = self._without_lost(start, latest)
        if everything:
            return to_nested(latest)
        if self._target is None and self._should_wait(start, latest):
            return begin
        self._last_batch_at = time.monotonic()
        if options.max_offsets_per_trigger is not None:
            latest = limited(start, latest, options.max_offsets_per_trigger)
        return to_nested(latest)

    def partitions(self, begin: Offsets, end: Offsets) -> Sequence[InputPartition]:
        until = from_nested(end)
        start = self._with_new_partitions(from_nested(begin), until)
        ranges = plan(
            start,
            until,
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )
        return [RangePartition(one) for one in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self._options, self._schema, partition)

    def commit(self, end: Offsets) -> None:
        """Let group tools see how far the query is; it does not depend on that."""
        group = self._options.settings.group_id
        if group is None:
            return
        try:
            self._lookup.commit(group, from_nested(end))
        except KafkaError as error:
            logger.warning("offsets were not committed to group %s: %s", group, error.message)

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def freeze(self) -> None:
        """There is nothing after what is there now."""
        self._target = self.latest()

    def _should_wait(self, start: PartitionOffsets, latest: PartitionOffsets) -> bool:
        least = self._options.min_offsets_per_trigger
        if least is None or available(start, latest) >= least:
            return False
        return time.monotonic() - self._last_batch_at < self._options.max_trigger_delay

    def _with_new_partitions(
        self, start: PartitionOffsets, latest: PartitionOffsets
    ) -> PartitionOffsets:
        """A partition that appeared since is read from its beginning."""
        gone = [partition for partition in start if partition not in latest]
        foreign = bool(latest) and not {one.topic for one in start} & {one.topic for one in latest}
        if gone and foreign:
            self._foreign(gone, latest)
        new = [partition for partition in latest if partition not in start]
        first = self._lookup.earliest(new) if new else {}
        for partition, offset in first.items():
            if offset != 0:
                self._lost(f"{partition} is new and begins at offset {offset}, not 0")
        if gone and not foreign:
            self._lost(f"{', '.join(map(str, gone))} is not there any more")
        return {**{part: at for part, at in start.items() if part in latest}, **first}

    def _without_lost(self, start: PartitionOffsets, latest: PartitionOffsets) -> PartitionOffsets:
        """A log that became shorter is read on from its new end."""
        for partition, offset in latest.items():
            if self._target is None and offset < start[partition]:
                self._lost(f"{partition} ends at offset {offset}, {start[partition]} was read")
        return latest

    def _foreign(self, gone: Collection[TopicPartition], latest: PartitionOffsets) -> None:
        """Nothing is as it was: to go on regardless would skip what was never read."""
        before, now = (
            ", ".join(sorted({one.topic for one in partitions})) for partitions in (gone, latest)
        )
        what = f"The checkpoint has offsets of topic {before}, and this query reads {now}"
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{what}: it belongs to another source. Use another checkpointLocation."
            )
        logger.warning("%s; reading goes on because failOnDataLoss is false", what)

    def _lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{what}: records may have been missed. If that is fine for this query, set the "
                "option failOnDataLoss to false."
            )
        logger.warning("%s; reading goes on because failOnDataLoss is false", what)


class PlainStreamReader(StreamPlan, DataSourceStreamReader):
    """For PySpark before 4.2, which does not say where a batch begins when it asks where it ends.

    Limits hold from the second batch after a start on: the first one's beginning is not known.
    """

    _begin: Offsets | None = None

    def initialOffset(self) -> Offsets:  # noqa: N802
        self._begin = super().initialOffset()
        return self._begin

    def latestOffset(self) -> Offsets:  # type: ignore[override]  # noqa: N802
        if self._begin is None:
            return to_nested(self.latest())
        return self.batch_end(self._begin, everything=False)

    def partitions(self, begin: Offsets, end: Offsets) -> Sequence[InputPartition]:
        self._begin = end
        return super().partitions(begin, end)


def stream_reader(options: ReadOptions, schema: StructType) -> DataSourceStreamReader:
    """The best that this release of Spark can use."""
    try:
        from moldau.spark.admission import AdmittingStreamReader
    except ImportError:
        return PlainStreamReader(options, schema)
    return AdmittingStreamReader(options, schema)
