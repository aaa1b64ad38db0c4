"""How many rows are written, counted while they are."""

from __future__ import annotations

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it so


class Counted:
    """``frame`` is to be written, once; then ``rows`` is known, if it is ``wanted``.

    Of streams Spark says itself how many rows were read.
    """

    def __init__(self, frame: DataFrame, *, wanted: bool) -> None:
        self._observation = Observation() if wanted else None
        self.frame = frame
        if self._observation is not None:
            self.frame = frame.observe(self._observation, F.count(F.lit(1)).alias("rows"))

    @property
    def rows(self) -> int | None:
        return None if self._observation is None else self._observation.get.get("rows")
