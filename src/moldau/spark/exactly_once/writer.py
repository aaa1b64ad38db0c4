"""The exactly-once sink as Spark sees it: tasks prepare transactions, the driver commits them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from moldau.errors import KafkaError
from moldau.spark.exactly_once.decision import QueryName, TaskTransaction
from moldau.spark.exactly_once.options import ExactlyOnceOptions
from moldau.spark.exactly_once.session import Session, fresh_session, kept_session
from moldau.spark.exactly_once.task import Task, write_transaction
from moldau.spark.record_columns import check_columns

logger: Final = logging.getLogger("moldau.spark")


@dataclass
class Prepared(WriterCommitMessage):
    """What a task has written; no transaction if it had no rows."""

    query: QueryName
    transaction: TaskTransaction | None


class ExactlyOnceStreamWriter(DataSourceStreamArrowWriter):
    """``df.writeStream.format("moldau").option("exactlyOnce", "true")``."""

    session_kind: ClassVar[type[Session]] = Session

    def __init__(self, options: ExactlyOnceOptions, schema: StructType) -> None:
        check_columns(schema, options.write.topic)
        self._options = options
        self._schema = schema

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = Task.current(self._options.prefix)
        if task.partition == 0:
            self._resume(task)
        written = write_transaction(self._options, self._schema, task, iterator)
        return Prepared(task.query, written)

    def commit(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: N803
    ) -> None:
        query, written = _unpack(messages)
        if query is not None:
            with kept_session(self._options, query, self.session_kind) as session:
                session.commit(batchId, written)

    def abort(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: N803
    ) -> None:
        query, written = _unpack(messages)
        if query is not None:
            with fresh_session(self._options, query, self.session_kind) as session:
                session.abort(batchId, written)

    def _resume(self, task: Task) -> None:
        """Before the first batch of a run in this process: it may be one that was decided."""
        run = (task.query, task.run)
        if run in _resumed:
            return
        try:
            with fresh_session(self._options, task.query, self.session_kind) as session:
                session.resume(task.batch)
            _resumed.add(run)
        except KafkaError as error:
            logger.warning("what is decided will be committed later: %s", error.message)


_resumed: Final[set[tuple[QueryName, str]]] = set()


def _unpack(
    messages: Sequence[WriterCommitMessage | None],
) -> tuple[QueryName | None, list[TaskTransaction]]:
    prepared = [message for message in messages if isinstance(message, Prepared)]
    written = [one.transaction for one in prepared if one.transaction is not None]
    return (prepared[0].query if prepared else None), written
