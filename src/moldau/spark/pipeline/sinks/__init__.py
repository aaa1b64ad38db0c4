"""What is written where: a module for each kind of sink, each with ``write_batch``.

``write_batch(sink, frame, batch)`` writes the rows of a batch. It may be called again with the same
batch, after a crash or a failure at any point; what that leads to is the sink's guarantee.
"""

from moldau.spark.pipeline.sinks.batch import Batch as Batch
from moldau.spark.pipeline.sinks.stream import finish as finish
from moldau.spark.pipeline.sinks.stream import stream_writer as stream_writer
from moldau.spark.pipeline.sinks.write import wants_empty as wants_empty
from moldau.spark.pipeline.sinks.write import write_batch as write_batch
