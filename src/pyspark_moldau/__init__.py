"""Spark looks for data sources in modules named ``pyspark_*``: this one makes ``moldau`` known.

Nothing has to be registered: ``spark.read.format("moldau")`` works wherever moldau is installed.
"""

from moldau.spark.source import MoldauDataSource as DefaultSource

__all__ = ["DefaultSource"]
