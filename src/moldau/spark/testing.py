"""Fixtures for users' tests of their pipelines: sample rows instead of brokers, one Spark session.

pytest imports this module in every run where Moldau is installed, so everything else is imported
inside the fixtures: who does not use them pays for an empty module.

    from moldau.spark.testing import pipeline_cases

    @pytest.mark.parametrize("case", pipeline_cases("visits.toml"))
    def test_visits(moldau_pipeline, case):
        moldau_pipeline("visits.toml", case=case)      # the case of visits.test.toml

    def test_a_visit_is_counted(moldau_pipeline):
        visits = moldau_pipeline.sample("visits.toml", visits=[{"value": {"page": "home"}}])
        assert [row["page"] for row in visits.rows("seen")] == ["home"]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from moldau.spark.pipeline.samples.run_cases import Sampled


def pipeline_cases(file: str) -> list[str]:
    """The names of the cases beside a pipeline's file, for ``parametrize``; without Spark."""
    from moldau.spark.pipeline.load import load_pipeline
    from moldau.spark.pipeline.samples.cases import file_of_tests, load_cases

    return [case.name for case in load_cases(file_of_tests(file), load_pipeline(file))]


class PipelineTester:
    """Pipelines on sample rows; Spark starts with the first one."""

    def __init__(self) -> None:
        self._spark: SparkSession | None = None
        self._own = False

    def __call__(
        self, file: str, *, case: str | None = None, parameters: Mapping[str, str] | None = None
    ) -> None:
        """The cases of the .test.toml beside a pipeline's file, or one of them.

        ``AssertionError`` has the rows that are missing, unexpected or different.
        """
        from moldau.spark.pipeline.load import load_pipeline
        from moldau.spark.pipeline.problems import did_you_mean
        from moldau.spark.pipeline.samples.cases import file_of_tests, load_cases
        from moldau.spark.pipeline.samples.run_cases import run_cases

        given = dict(parameters or {})
        pipeline = load_pipeline(file, given)
        cases = load_cases(file_of_tests(file), pipeline)
        chosen = [one for one in cases if case in (None, one.name)]
        if not chosen:
            hint = did_you_mean(case or "", [one.name for one in cases])
            raise ValueError(f"{file_of_tests(file)} has no case {case!r}: {hint}")
        outcomes = run_cases(pipeline, given, chosen, self._session(file, given))
        wrong = [line for outcome in outcomes for line in outcome.lines()]
        if wrong:
            raise AssertionError("\n".join(wrong))

    def sample(
        self,
        file: str,
        *,
        parameters: Mapping[str, str] | None = None,
        **given: Sequence[Mapping[str, Any]],
    ) -> Sampled:
        """A pipeline whose sources have these rows; its ``rows``, ``written``, ``dead_letters``."""
        from moldau.spark.pipeline.load import load_pipeline
        from moldau.spark.pipeline.samples.run_cases import Sampled

        settings = dict(parameters or {})
        return Sampled(load_pipeline(file, settings), given, self._session(file, settings))

    def close(self) -> None:
        """A session that was there before is left alone."""
        if self._spark is not None and self._own:
            self._spark.stop()

    def _session(self, file: str, parameters: Mapping[str, str]) -> SparkSession:
        from pyspark.sql import SparkSession

        from moldau.spark.pipeline.load import load_pipeline
        from moldau.spark.pipeline.samples.run_cases import sample_session

        if self._spark is None:
            self._own = SparkSession.getActiveSession() is None
            self._spark = sample_session(load_pipeline(file, parameters))
        return self._spark


@pytest.fixture(scope="session")
def moldau_pipeline() -> Iterator[PipelineTester]:
    """``moldau_pipeline("visits.toml")`` runs the cases of visits.test.toml."""
    tester = PipelineTester()
    yield tester
    tester.close()
