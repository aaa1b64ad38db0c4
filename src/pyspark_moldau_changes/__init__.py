"""Spark finds ``moldau_changes`` here, as it finds ``moldau`` in ``pyspark_moldau``."""

from moldau.spark.changes.source import ChangesDataSource as DefaultSource

__all__ = ["DefaultSource"]
