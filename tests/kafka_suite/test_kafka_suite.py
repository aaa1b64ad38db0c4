"""Apache Kafka's own integration tests, unchanged, on Moldau: a part of those for one broker.

``make soak`` runs all of these; ``make kafka-suite`` whatever one likes.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.kafka_suite.expectations import Gap, read_gaps
from tests.kafka_suite.harness import Options, Result, run
from tests.kafka_suite.selection import Selection, class_of, read_list
from tests.support.soak import SOAK

# Quick ones that a busy machine bears: nothing in them has to be done within a second.
QUICK = frozenset(
    {
        "kafka.server.ApiVersionsRequestTest",
        "kafka.server.EdgeCaseRequestTest",
        "kafka.server.OffsetCommitRequestTest",
        "org.apache.kafka.clients.admin.DynamicGroupConfigIntegrationTest",
        "org.apache.kafka.clients.admin.StaticBrokerConfigTest",
        "org.apache.kafka.tools.ConfigCommandIntegrationTest",
        "org.apache.kafka.tools.LogDirsCommandTest",
        "org.apache.kafka.tools.TopicCommandTest",
    }
)
ONE_BROKER = (*read_list("core"), *read_list("scala-core"))
TESTS = [test for test in ONE_BROKER if SOAK or class_of(test) in QUICK]
GAP_OF: Mapping[str, Gap] = {test: gap for gap in read_gaps() for test in gap.tests}

pytestmark = pytest.mark.timeout(7200 if SOAK else 900)


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    """One run of them all; pytest's tests only look at what came out."""
    selection = Selection(tests=frozenset(TESTS))
    options = Options(jobs=2)  # they wait more than they work
    return {result.test: result for result in run(selection, options)}


@pytest.mark.parametrize("test", TESTS)
def test_kafkas_own(test: str, results: Mapping[str, Result]) -> None:
    result, gap = results[test], GAP_OF.get(test)
    if gap is None:
        assert result.passed, f"{result.outcome}: {result.message}"
    else:
        assert gap.expects(result), f"gap {gap.number} is closed: take {test} out of gaps.toml"
