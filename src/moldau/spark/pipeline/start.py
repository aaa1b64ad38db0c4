"""Which queries a pipeline starts, as its steps, its file and its checkpoint say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from threading import Lock

from pyspark.sql import DataFrame, SparkSession

from moldau.spark.pipeline.checkpoint import QUERIES_FILE, Queries, format_queries, parse_queries
from moldau.spark.pipeline.failures import PipelineFailedError
from moldau.spark.pipeline.layout import Query, lay_out
from moldau.spark.pipeline.queries import Flow
from moldau.spark.pipeline.row_wise import placed_parts, streamed_steps
from moldau.spark.pipeline.spec import Pipeline
from moldau.spark.pipeline.stores import Store, store_of


class KnownQueries:
    """What the checkpoint must know of the queries."""

    def __init__(self, store: Store | None = None, known: Queries | None = None) -> None:
        self._store = store
        self._known = dict(known or {})
        self._lock = Lock()

    def went_on(self, query: Query) -> None:
        """A batch of it is written, which sinks that it had have missed."""
        if self._store is None or query.without is None:
            return
        with self._lock:  # each query has a thread
            if self._known.get(query.folder) != query.without:
                self._known[query.folder] = query.without
                self._store.write(QUERIES_FILE, format_queries(self._known))


def queries_of(
    pipeline: Pipeline, frames: Mapping[str, DataFrame], spark: SparkSession
) -> tuple[list[Query], KnownQueries]:
    """Those of streams. What the checkpoint must know of them is written down."""
    if not any(frame.isStreaming for frame in frames.values()):
        return [], KnownQueries()
    if pipeline.remote:
        # A server would run the steps of a batch: it has neither their files nor their functions.
        everything = {step.name.lower() for step in pipeline.steps}
        flow = Flow(pipeline, everything)
        queries, _ = lay_out(replace(pipeline, separate=True), flow, {}, lambda _: False)
        return queries, KnownQueries()
    flow = Flow(pipeline, streamed_steps(pipeline, frames), placed_parts(pipeline, frames))
    store = store_of(pipeline.checkpoint, spark)
    text = store.read(QUERIES_FILE)
    try:
        before = {} if text is None else parse_queries(text)
        queries, known = lay_out(
            pipeline, flow, before, lambda folder: store.has(f"{folder}/offsets")
        )
    except ValueError as error:
        line = pipeline.lines.of(("spark", "checkpoint"))
        where = f"{pipeline.file}:{line}" if line else pipeline.file
        raise PipelineFailedError(f"{where}: {error}") from None
    if known != before:
        store.write(QUERIES_FILE, format_queries(known))
    return queries, KnownQueries(store, known)
