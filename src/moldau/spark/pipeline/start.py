"""Which queries a pipeline starts, as its steps, its file and its checkpoint say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from moldau.spark.pipeline.checkpoint import QUERIES_FILE, format_queries, parse_queries
from moldau.spark.pipeline.failures import PipelineFailedError
from moldau.spark.pipeline.layout import Query, lay_out
from moldau.spark.pipeline.queries import Flow
from moldau.spark.pipeline.row_wise import placed_parts, streamed_steps
from moldau.spark.pipeline.spec import Pipeline
from moldau.spark.pipeline.stores import store_of


def queries_of(
    pipeline: Pipeline, frames: Mapping[str, DataFrame], spark: SparkSession
) -> list[Query]:
    """Those of streams. What the checkpoint must know of them is written down."""
    if not any(frame.isStreaming for frame in frames.values()):
        return []
    if pipeline.remote:
        # A server would run the steps of a batch: it has neither their files nor their functions.
        everything = {step.name.lower() for step in pipeline.steps}
        flow = Flow(pipeline, everything)
        return lay_out(replace(pipeline, separate=True), flow, {}, lambda _: False)[0]
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
    return queries
