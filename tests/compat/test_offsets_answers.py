"""Committed offsets: answers and stored records are those of Apache Kafka 4.3.1."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.compat.offsets_script import PATIENCE_S, OffsetScript, kafka_answers
from tests.support import java
from tests.support.target import Target

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
}
OFTEN = {"offsets.retention.check.interval.ms": "300"}


@pytest.fixture
def broker(
    new_target: Callable[[dict[str, str]], Target], request: pytest.FixtureRequest
) -> Target:
    return new_target({**SETTINGS, **getattr(request, "param", {})})


@pytest.fixture
def script(broker: Target) -> Iterator[OffsetScript]:
    found = OffsetScript(broker.bootstrap)
    yield found
    found.close()


def test_the_answers_are_those_of_apache_kafka(script: OffsetScript) -> None:
    for answer, expected in zip(script.run(), kafka_answers(), strict=True):
        assert answer == expected


def stored(broker: Target) -> list[tuple[int, dict[str, Any]]]:
    """The version and the content of every commit in the offsets topic, as Kafka prints them."""
    (log,) = sorted((broker.data_dir / "__consumer_offsets-0").glob("*.log"))
    printed = java.run_tool(java.DUMP_LOG, "--offsets-decoder", "--files", str(log)).decode()
    payloads = re.findall(r'key: \{"type":"1".*? payload: (\{.*\})$', printed, re.MULTILINE)
    values = [json.loads(payload) for payload in payloads]
    return [(int(value["version"]), value["data"]) for value in values]


def test_what_is_stored_names_the_topic_and_keeps_an_old_clients_retention_time(
    broker: Target, script: OffsetScript
) -> None:
    script.prepare("t")
    script.commit(9, "g", [("t", [(0, 1, "by name")])])
    script.commit(10, "g", [("t", [(0, 2, "by id")])])
    script.commit(4, "g", [("t", [(0, 3, "no retention time")])])
    script.commit(2, "g", [("t", [(0, 4, "an hour")])], retention_ms=3_600_000)
    broker.stop()
    by_name, by_id, without, kept = stored(broker)
    assert [version for version, _ in (by_name, by_id, without, kept)] == [4, 4, 4, 1]
    assert by_name[1]["topicId"] == by_id[1]["topicId"] == without[1]["topicId"]
    assert kept[1]["expireTimestamp"] - kept[1]["commitTimestamp"] == 3_600_000


@pytest.mark.parametrize("broker", [OFTEN], indirect=True)
def test_an_offset_expires_when_the_client_said(script: OffsetScript) -> None:
    script.prepare("t", "u")
    script.commit(3, "g", [("t", [(0, 4, "")])], retention_ms=1)
    script.commit(3, "g", [("u", [(0, 4, "")])])
    deadline = time.monotonic() + PATIENCE_S
    while True:
        script.fetch(9, "g", None)
        topics = [topic for topic, _ in script.answers[-1][2]]
        if topics == ["u"]:
            break
        assert topics == ["t", "u"]
        assert time.monotonic() < deadline
        time.sleep(0.05)
