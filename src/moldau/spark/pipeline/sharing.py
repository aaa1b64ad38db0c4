"""Frames that Spark computes once although several want them: in a stream, and in its batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it so

_TASK: Final = "moldau_task"
_BRANCH: Final = "moldau_branch"
_TIME: Final = "moldau_time"


def computed_once(frame: DataFrame) -> DataFrame:
    """The same rows behind a shuffle, which Spark reuses wherever else it stands in the plan.

    Only equal shuffles are reused. Each reader wants other columns, and Spark would leave the rest
    out below the shuffle: a generator that wants all of them stands in the way. Rows go by the task
    that has them, so that their order within it is kept.
    """
    columns = _columns(frame)
    tasks = frame.select(*columns, F.spark_partition_id().alias(_TASK))
    by_id = getattr(tasks, "repartitionById", None)  # since PySpark 4.1
    if by_id is not None:
        partitions = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
        shuffled: DataFrame = by_id(partitions, F.col(_TASK))
    else:
        shuffled = tasks.repartition(F.col(_TASK))
    return shuffled.select(F.inline(F.array(F.struct(*columns))))


def together(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of several streams as one: which it is, and a struct for each."""
    if len(frames) == 1:
        return frames[0]
    parts = [
        frame.select(
            F.lit(number).alias(_BRANCH),
            *(
                (
                    F.struct(*_columns(frame))
                    if place == number
                    else F.lit(None).cast(other.schema)
                ).alias(_name(place))
                for place, other in enumerate(frames)
            ),
        )
        for number, frame in enumerate(frames)
    ]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionAll(part)
    return whole


def timed(stream: DataFrame) -> DataFrame:
    """With the time of the batch, which nobody but the stream knows if it comes again."""
    return stream.withColumn(_TIME, F.current_timestamp())


def untimed(whole: DataFrame) -> tuple[DataFrame, Column]:
    """A batch of what was ``timed``, and its time. All rows are read now."""
    found = whole.agg(F.max(F.unix_micros(_TIME))).head()
    return whole.drop(_TIME), F.timestamp_micros(F.lit(found[0] if found else None).cast("bigint"))


def apart(whole: DataFrame, count: int) -> list[DataFrame]:
    """The frames that were put ``together``, of a batch."""
    if count == 1:
        return [whole]
    return [
        whole.where(F.col(_BRANCH) == number).select(f"{_name(number)}.*")
        for number in range(count)
    ]


def row_counts(whole: DataFrame, count: int) -> list[int]:
    """How many rows each of the frames has that were put ``together``; all are computed."""
    if count == 1:
        return [whole.count()]
    branches = (F.count_if(F.col(_BRANCH) == number) for number in range(count))
    return list(whole.agg(*(one.alias(_name(at)) for at, one in enumerate(branches))).head() or ())


def _name(place: int) -> str:
    return f"{_BRANCH}_{place}"


def _columns(frame: DataFrame) -> list[Column]:
    return [F.col("`" + name.replace("`", "``") + "`") for name in frame.columns]
