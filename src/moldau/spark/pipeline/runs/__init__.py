"""Runs of pipelines: who runs one, since when, how it ended, what it has reported.

All of it is files beside the checkpoint, which any process can read; none of it needs Spark.
"""
