"""A task's share of a batch: all its rows in a transaction that stays open."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType

from moldau.client.errors import ProducerFencedError
from moldau.client.producer.prepared_transaction import PreparedTransaction
from moldau.client.producer.producer import Producer
from moldau.errors import ErrorCode, KafkaError
from moldau.spark.exactly_once.decision import QueryName, TaskTransaction
from moldau.spark.exactly_once.errors import ExactlyOnceError, TimeoutNearError
from moldau.spark.exactly_once.options import ExactlyOnceOptions, QueryBatch
from moldau.spark.options import OptionError
from moldau.spark.produce import BULK_SETTINGS, RowProducer

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
_RUN_ID: Final = "spark.jobGroup.id"


class Task(NamedTuple):
    """Which part of which batch this is."""

    query: QueryName
    batch: int
    partition: int
    run: str

    @classmethod
    def current(cls, prefix: str, given: QueryBatch | None = None) -> Task:
        """Spark does not hand it to writers, but has it among the properties of the job."""
        context = TaskContext.get()
        assert context is not None
        run = context.getLocalProperty(_RUN_ID) or ""
        if given is None:
            query = context.getLocalProperty(_QUERY_ID)
            batch = context.getLocalProperty(_BATCH_ID)
            if query is None or batch is None:
                raise ExactlyOnceError("exactlyOnce is for streaming queries with a checkpoint")
            given = QueryBatch(query, int(batch))
        return cls(QueryName(prefix, given.query), given.number, context.partitionId(), run)


def write_transaction(
    options: ExactlyOnceOptions, schema: StructType, task: Task, batches: Iterator[pa.RecordBatch]
) -> TaskTransaction | None:
    """Store all rows and leave the transaction open; None if there are no rows."""
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return None
    began = time.monotonic()
    try:
        return _write(options, schema, task, first, filled)
    except KafkaError as error:
        if _was_aborted(error) and time.monotonic() - began >= options.timeout:
            reason = "a transaction timed out before its rows were all sent"
            raise TimeoutNearError(task.batch, reason) from error
        if error.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise OptionError(
                f"exactlyOnce.transactionTimeout={options.timeout:g}s is longer than the brokers "
                "allow (transaction.max.timeout.ms)"
            ) from error
        raise


def _write(
    options: ExactlyOnceOptions,
    schema: StructType,
    task: Task,
    first: pa.RecordBatch,
    rest: Iterator[pa.RecordBatch],
) -> TaskTransaction:
    name = task.query.transactional_id(task.batch, task.partition, uuid.uuid4().hex)
    settings = {
        **BULK_SETTINGS,
        **options.client,
        "transactional.id": name,
        "transaction.timeout.ms": str(round(options.timeout * 1000)),
    }
    producer = Producer(settings)
    with RowProducer(producer, options.write.topic, schema) as rows:
        producer.init_transactions()
        producer.begin_transaction()
        try:
            rows.send(first)
            for batch in rest:
                rows.send(batch)
            rows.flush()
            prepared = producer.prepare_transaction()
        except BaseException:
            with contextlib.suppress(KafkaError):
                producer.abort_transaction()
            raise
    assert isinstance(prepared, PreparedTransaction)
    return TaskTransaction(
        name,
        prepared.producer_id,
        prepared.producer_epoch,
        prepared.implicit,
        task.partition,
        rows.sent,
    )


def _was_aborted(error: KafkaError) -> bool:
    return error.code == ErrorCode.INVALID_TXN_STATE or isinstance(error, ProducerFencedError)
