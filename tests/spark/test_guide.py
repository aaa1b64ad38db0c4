"""The examples of docs/spark.md, as they stand and in their order."""

from __future__ import annotations

import re
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession
from tests.spark.records import consume
from tests.support.moldau import Moldau

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
ADDRESS = "127.0.0.1:9092"


def test_the_examples_run(spark: SparkSession, tmp_path: Path) -> None:
    text = PAGE.read_text()
    broker = Moldau(tmp_path)
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        topics = [NewTopic(name, 1) for name in ("orders", "people", "people.bad", "shouted")]
        for future in admin.create_topics(topics).values():
            future.result(60)
        names: dict[str, object] = {"spark": spark}
        for match in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            # Compiled with the lines of the page, so that a failure points there.
            lines = "\n" * (text[: match.start()].count("\n") + 1)
            code = match[1].replace(ADDRESS, broker.bootstrap)
            exec(compile(lines + code, str(PAGE), "exec"), names)
        assert len(consume(broker.bootstrap, "people.bad", 1)) == 1
        shouted = consume(broker.bootstrap, "shouted", 1)
        assert sorted({row.value or b"" for row in shouted})[:2] == [b"ORDER 0", b"ORDER 1"]
        assert len(shouted) == 1000
    finally:
        broker.stop()
