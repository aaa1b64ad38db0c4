"""Changes of a table of PostgreSQL as a stream: by its write-ahead log, or by a column that grows.

Only ``source`` and ``stream`` need Spark: pipelines are checked with the rest before it starts.
"""
