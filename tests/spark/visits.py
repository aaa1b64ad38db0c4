"""A pipeline with three sinks, one of them of windows: what it is given, and what it must write."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pyarrow.dataset as ds
from tests.client.conftest import topic_factory
from tests.spark.pipelines import MINUTE, START, rows
from tests.spark.records import consume, produce

from moldau.client.listener.headers import read_failure

FILE = """
    name = "visits"
    [[sources]]
    name = "visits"
    topic = "TOPIC"
    bootstrap_servers = "SERVER"
    starting_offsets = "earliest"
    value_format = "json"
    value_schema = "page STRING, took INT"
    dead_letter_topic = "BAD"
    [[steps]]
    name = "quick"
    sql = "SELECT value.page AS page, value.took AS took, timestamp, offset FROM visits WHERE value.took < 90"
    [[steps]]
    name = "pages"
    window = { from = "quick", size = "1m", watermark = "1m", group_by = ["page"], aggregate = { visits = "count(*)", took = "sum(took)" } }
    [[steps]]
    name = "named"
    sql = "SELECT page, took, concat('p-', page) AS name FROM quick"
    [[sinks]]
    from = "quick"
    parquet = "PLACE/quick"
    [[sinks]]
    from = "named"
    topic = "NAMED"
    bootstrap_servers = "SERVER"
    [[sinks]]
    from = "pages"
    database = "sqlite:///PLACE/d.db"
    table = "pages"
"""  # noqa: E501
LAST: Any = {"page": "end", "took": 1}
Visit = tuple[str, int]


def visits(numbers: range) -> list[dict[str, Any]]:
    """A sixth of them is slow and left out, and every hundredth is no JSON."""
    return [
        {
            "value": b"bad" if number % 100 == 7 else json.dumps(visit(number)).encode(),
            "partition": number % 2,
            "timestamp": START + number * 1000,
        }
        for number in numbers
    ]


def visit(number: int) -> dict[str, Any]:
    return {"page": f"{number % 5}", "took": 91 if number % 6 == 5 else number % 50}


def expected(numbers: range) -> Counter[Visit]:
    found = [visit(n) for n in numbers if n % 100 != 7 and n % 6 != 5]
    return Counter((one["page"], one["took"]) for one in found)


def windows(numbers: range) -> dict[tuple[int, str], tuple[int, int]]:
    found: dict[tuple[int, str], tuple[int, int]] = {}
    for number in numbers:
        if number % 100 != 7 and number % 6 != 5:
            key = (number // 60, f"{number % 5}")
            count, took = found.get(key, (0, 0))
            found[key] = (count + 1, took + number % 50)
    return found


def in_files(folder: Path) -> Counter[Visit]:
    found = ds.dataset(folder, format="parquet").to_table(columns=["page", "took"]).to_pylist()
    return Counter((row["page"], row["took"]) for row in found)


def _minute(text: str) -> int:
    hours, minutes = text.split(" ")[1].split(":")[:2]
    return int(hours) * 60 + int(minutes)


@dataclass(frozen=True)
class Trial:
    """A pipeline with three sinks, its topics, and a folder for all that it writes."""

    place: Path
    bootstrap: str
    topic: str
    named: str
    bad: str

    @property
    def text(self) -> str:
        text = FILE.replace("TOPIC", self.topic).replace("SERVER", self.bootstrap)
        text = text.replace("NAMED", self.named).replace("BAD", self.bad)
        return dedent(text.replace("PLACE", str(self.place)))

    @property
    def checkpoint(self) -> Path:
        return self.place / "checkpoint"

    def produce(self, numbers: range) -> None:
        produce(self.bootstrap, self.topic, visits(numbers))

    def close_windows(self) -> None:
        """Records that are much later, in both partitions: what is before them is complete."""
        late = {"value": json.dumps(LAST).encode(), "timestamp": START + 100 * MINUTE}
        produce(self.bootstrap, self.topic, [{**late, "partition": number} for number in (0, 1)])

    def in_files(self) -> Counter[Visit]:
        return in_files(self.place / "quick")

    def in_topic(self, topic: str | None = None, **settings: Any) -> Counter[Visit]:
        found = consume(self.bootstrap, topic or self.named, 1, **settings)
        values = [json.loads(row.value or b"") for row in found]
        assert all(one["name"] == f"p-{one['page']}" for one in values)
        return Counter((one["page"], one["took"]) for one in values)

    def in_table(self) -> dict[tuple[int, str], tuple[int, int]]:
        found = rows(self.place / "d.db", "SELECT window_start, page, visits, took FROM pages")
        result = {(_minute(start), page): (count, took) for start, page, count, took in found}
        assert len(result) == len(found)
        return result

    def letters(self) -> list[tuple[int, int]]:
        """Partition and offset of the records that have one."""
        failures = [read_failure(row.headers) for row in consume(self.bootstrap, self.bad, 1)]
        assert all(one is not None and one.pipeline == "visits" for one in failures)
        assert all(one is not None and one.topic_id for one in failures)
        assert {one.source.topic for one in failures if one} <= {self.topic}
        return sorted((one.source.partition, one.source.offset) for one in failures if one)

    def check(self, numbers: range, lasts: int) -> None:
        """All sinks have each row once, and each bad record has one letter."""
        expect = expected(numbers)
        expect[(LAST["page"], LAST["took"])] += lasts
        assert self.in_files() == expect
        assert self.in_topic() == expect
        assert self.in_table() == windows(numbers)
        assert self.letters() == sorted((n % 2, n // 2) for n in numbers if n % 100 == 7)


def trial_on(bootstrap: str, place: Path) -> Trial:
    new = topic_factory(bootstrap)
    return Trial(place, bootstrap, new(partitions=2, retention_ms=-1), new(), new())
