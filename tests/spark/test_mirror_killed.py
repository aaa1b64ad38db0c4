"""``moldau pipeline run mirror``, killed while it runs, again and again."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.client.conftest import topic_factory
from tests.spark.java_options import JAVA_OPTIONS
from tests.spark.processes import of_session
from tests.spark.records import committed_rows, consume, produce
from tests.support.cli import CommandLine
from tests.support.soak import SOAK
from tests.support.target import Target
from tests.support.waiting import eventually

KILLS = 12 if SOAK else 2


def is_gone(session: int) -> bool:
    return not of_session(session)


@pytest.mark.timeout(3600 if SOAK else 1200)
def test_a_mirror_that_is_killed_has_every_record_once(
    kafka: Target,
    clusters: Callable[[str], Target],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", JAVA_OPTIONS)
    source = clusters("moldau")
    topic = topic_factory(source.bootstrap)(partitions=2)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(60)
    cli = CommandLine(source.bootstrap, capsys)
    given = {
        "source": source.bootstrap,
        "target": kafka.bootstrap,
        "topics": topic,
        "every": "10ms",
    }
    options = [part for item in given.items() for part in ("-p", "=".join(item))]
    command = ("pipeline", "run", "mirror", *options, "--master", "local[2]", "--json")
    rng = random.Random(13)
    written = 0

    def more() -> None:
        nonlocal written
        records = [
            {"key": b"k", "value": b"%d" % number, "partition": number % 2}
            for number in range(written, written + 30)
        ]
        produce(source.bootstrap, topic, records)
        written += 30

    for _ in range(KILLS):
        more()
        with cli.start(*command, cwd=tmp_path, start_new_session=True) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            for _ in range(rng.randrange(1, 4)):
                more()
                assert child.stdout.readline(), child.stderr.read()[-2000:]
            more()
            child.kill()
        # Spark's process hears of it and ends; two of them would be one too many for a checkpoint.
        eventually(partial(is_gone, child.pid), "Spark outlives its driver", timeout=240)
    with cli.start(*command, "--once", cwd=tmp_path) as child:
        _, err = child.communicate(timeout=500)
    assert child.returncode == 0, err.decode()
    original = consume(source.bootstrap, topic, 2)
    copy = committed_rows(kafka.bootstrap, topic, 2, written)
    assert len(original) == written
    # Markers of transactions take offsets of their own.
    assert [row._replace(offset=0) for row in copy] == [row._replace(offset=0) for row in original]
