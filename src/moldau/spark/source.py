"""The data source ``moldau``, as Spark's planner sees it.

Options are checked here, on the driver, before anything runs. Readers and writers are made from
the options alone and travel to the executors as pickles: they open no connection before they are
used.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from moldau.spark.options import OptionError, read_options, write_options
from moldau.spark.schema import check_schema, full_schema


class MoldauDataSource(DataSource):
    """``spark.read.format("moldau")``, ``.readStream``, ``.write`` and ``.writeStream``."""

    @classmethod
    def name(cls) -> str:
        return "moldau"

    def schema(self) -> str:
        return full_schema(read_options(self._without_ending(), streaming=True))

    def reader(self, schema: StructType) -> DataSourceReader:
        from moldau.spark.batch_reader import batch_reader

        options = read_options(self.options, streaming=False)
        return batch_reader(options, check_schema(schema, options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from moldau.spark.stream_reader import stream_reader

        options = read_options(self.options, streaming=True)
        return stream_reader(options, check_schema(schema, options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from moldau.spark.writer import MoldauWriter

        options = write_options(self.options)
        if overwrite:
            raise OptionError("Topics cannot be overwritten, only appended to: use mode('append')")
        if options.exactly_once is not None:
            from moldau.spark.exactly_once.options import batch_options
            from moldau.spark.exactly_once.writer import ExactlyOnceBatchWriter

            return ExactlyOnceBatchWriter(*batch_options(options), schema)
        return MoldauWriter(options, schema)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        from moldau.spark.writer import MoldauStreamWriter

        options = write_options(self.options)
        if overwrite:
            raise OptionError(
                "A topic takes rows of outputMode append or update, not complete: what is written "
                "cannot be replaced"
            )
        if options.exactly_once is not None:
            from moldau.spark.exactly_once.options import exactly_once_options
            from moldau.spark.exactly_once.writer import ExactlyOnceStreamWriter

            return ExactlyOnceStreamWriter(exactly_once_options(options), schema)
        return MoldauStreamWriter(options, schema)

    def _without_ending(self) -> dict[str, str]:
        """Options that both kinds of queries take: Spark asks for the schema before it says which
        kind this will be.
        """
        ending = ("endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp")
        return {name: value for name, value in self.options.items() if name not in ending}
