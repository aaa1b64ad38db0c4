"""The exactly-once sink as Spark sees it: tasks prepare transactions, the driver commits them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from moldau.errors import KafkaError
from moldau.spark.exactly_once.decision import QueryName, TaskTransaction
from moldau.spark.exactly_once.options import ExactlyOnceOptions, QueryBatch
from moldau.spark.exactly_once.session import Session, fresh_session, kept_session
from moldau.spark.exactly_once.task import Task, write_transaction
from moldau.spark.record_columns import check_columns

logger: Final = logging.getLogger("moldau.spark")

Messages = Sequence[WriterCommitMessage | None]


@dataclass
class Prepared(WriterCommitMessage):
    """What a task has written; no transaction if it had no rows."""

    query: QueryName
    transaction: TaskTransaction | None


class _Share:
    """What is the same however Spark names the batch."""

    session_kind: ClassVar[type[Session]] = Session

    def __init__(self, options: ExactlyOnceOptions, schema: StructType) -> None:
        check_columns(schema, options.write.topic)
        self._options = options
        self._schema = schema

    def _write(self, task: Task, iterator: Iterator[pa.RecordBatch]) -> Prepared:
        if task.partition == 0:
            self._resume(task)
        written = write_transaction(self._options, self._schema, task, iterator)
        return Prepared(task.query, written)

    def _commit(self, messages: Messages, batch: int) -> None:
        query, written = _unpack(messages)
        if query is not None:
            with kept_session(self._options, query, self.session_kind) as session:
                session.commit(batch, written)

    def _abort(self, messages: Messages, batch: int) -> None:
        query, written = _unpack(messages)
        if query is not None:
            with fresh_session(self._options, query, self.session_kind) as session:
                session.abort(batch, written)

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


class ExactlyOnceStreamWriter(_Share, DataSourceStreamArrowWriter):
    """``df.writeStream.format("moldau").option("exactlyOnce", "true")``."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._write(Task.current(self._options.prefix), iterator)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        self._commit(messages, batchId)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        self._abort(messages, batchId)


class ExactlyOnceBatchWriter(_Share, DataSourceArrowWriter):
    """``df.write`` in ``foreachBatch``, with ``exactlyOnce.query`` and ``exactlyOnce.batch``."""

    def __init__(self, options: ExactlyOnceOptions, batch: QueryBatch, schema: StructType) -> None:
        super().__init__(options, schema)
        self._batch = batch

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._write(Task.current(self._options.prefix, self._batch), iterator)

    def commit(self, messages: Messages) -> None:
        self._commit(messages, self._batch.number)

    def abort(self, messages: Messages) -> None:
        self._abort(messages, self._batch.number)


_resumed: Final[set[tuple[QueryName, str]]] = set()


def _unpack(messages: Messages) -> tuple[QueryName | None, list[TaskTransaction]]:
    prepared = [message for message in messages if isinstance(message, Prepared)]
    written = [one.transaction for one in prepared if one.transaction is not None]
    return (prepared[0].query if prepared else None), written
