"""What Spark refuses, and what users' code raises, while frames are built."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from moldau.spark.pipeline.failures import PipelineFailedError, failure, own_failure
from moldau.spark.pipeline.spec import Part, Pipeline


@contextmanager
def blaming(pipeline: Pipeline, part: Part, what: str) -> Iterator[None]:
    """Tells it with the line of the file."""
    try:
        yield
    except PipelineFailedError:
        raise  # it has been told
    except PySparkException as error:
        raise failure(pipeline, part, what, error) from error
    except (Py4JError, ConnectionError):
        raise  # Spark is gone
    except Exception as error:
        raise own_failure(pipeline, part, what, error) from error
