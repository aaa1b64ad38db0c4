"""The data source ``moldau_changes``, as Spark's planner sees it: streams only."""

from __future__ import annotations

import pyspark
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from moldau.spark.changes.options import ChangesError, changes_options, release_problem


class ChangesDataSource(DataSource):
    """``spark.readStream.format("moldau_changes")``."""

    @classmethod
    def name(cls) -> str:
        return "moldau_changes"

    def schema(self) -> str:
        from moldau.spark.changes.catalog import read_table, schema_of
        from moldau.spark.changes.connection import connected

        options = changes_options(self.options)
        with connected(options.url) as database:
            return schema_of(read_table(database, options.table), options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        try:
            from moldau.spark.changes.stream import change_stream
        except ImportError:
            problem = release_problem(pyspark.__version__)
            if problem is None:
                raise
            raise ChangesError(f"option dbtable: {problem}") from None
        return change_stream(changes_options(self.options), schema)
