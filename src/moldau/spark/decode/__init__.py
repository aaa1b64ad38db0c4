"""From columns of bytes to typed columns: ``value.format`` and ``key.format``."""

from moldau.spark.decode.formats import spark_type

__all__ = ["spark_type"]
