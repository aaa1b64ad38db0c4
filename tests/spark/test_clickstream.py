"""The clickstream example without kills: its sample rows, and its generator."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.sql import SparkSession
from tests.client.conftest import NewTopicFactory
from tests.spark.clickstream import EXAMPLE, click_of
from tests.spark.records import consume
from tests.support.cli import CommandLine
from tests.support.target import Target

from moldau.spark.testing import PipelineTester, pipeline_cases

FILE = str(EXAMPLE / "clickstream.toml")


@pytest.mark.parametrize("case", pipeline_cases(FILE))
def test_sample_rows(spark: SparkSession, moldau_pipeline: PipelineTester, case: str) -> None:
    moldau_pipeline(FILE, case=case)


def test_clicks_are_generated(
    moldau: Target, topics: NewTopicFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = topics()
    command = [sys.executable, str(EXAMPLE / "generate.py"), "--clicks", "500", "--rate", "100000"]
    lines = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    CommandLine(moldau.bootstrap, capsys).pipe(lines, "produce", topic)
    clicks = [click_of(row.value or b"") for row in consume(moldau.bootstrap, topic, 1)]
    found = [one for one in clicks if one is not None]
    assert len(clicks) == 500
    assert 0 < len(clicks) - len(found) < 50
    assert len({one["id"] for one in found}) < len(found)
