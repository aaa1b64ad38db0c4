"""Clicks for the clickstream example, what they come to in plain Python, and what it has made."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import datetime
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import sqlalchemy as sa
from deltalake import DeltaTable
from pyiceberg.table import StaticTable
from tests.spark.pipelines import MINUTE, START
from tests.spark.records import consume, produce, wait_for_markers

from moldau.client.listener.headers import read_failure

EXAMPLE = Path(__file__).parents[2] / "examples" / "clickstream"
PARTITIONS = 2
CHUNK, CHUNKS = 60, 5
STEP = 3_000
"""Milliseconds between clicks. A chunk is not written at once: what a batch has of one of its
partitions may be a chunk ahead of the other, and still nothing may be late."""
SESSION = 5 * MINUTE
HOUR = 60 * MINUTE

_spec = spec_from_file_location("generate", EXAMPLE / "generate.py")
assert _spec is not None
assert _spec.loader is not None
generate: Any = module_from_spec(_spec)
_spec.loader.exec_module(generate)


class Click(NamedTuple):
    id: str
    visitor: str
    page: str
    cents: int
    time: int


class Sent(NamedTuple):
    """A record of the topic."""

    value: bytes
    timestamp: int
    partition: int
    offset: int
    late: bool


Pages = Counter[tuple[int, str, int, int, int]]
"""Window, page, clicks, cents, visitors: how often there is such a row."""
Sessions = Counter[tuple[str, int, int, int, int]]
"""Visitor, begin, end, clicks, cents."""


class Clicks:
    """Writes clicks to the topic, and computes what must come of them."""

    def __init__(self, bootstrap: str, topic: str, seed: int) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._now = START
        self._values: Iterator[bytes] = generate.clicks(
            random.Random(seed), map(str, count()), self._moments()
        )
        self._ends: Counter[int] = Counter()
        self.sent: list[Sent] = []

    def _moments(self) -> Iterator[int]:
        while True:
            self._now += STEP
            yield self._now

    def more(self) -> None:
        """A quarter of an hour: windows become complete with each batch after the first."""
        for _ in range(CHUNKS):
            self._send([(next(self._values), self._now) for _ in range(CHUNK)])

    def late(self, watermark: int) -> None:
        """A click that no batch may take any more."""
        if watermark:
            self._send(
                [(self._click(f"late-{len(self.sent)}", watermark - MINUTE), self._now)], late=True
            )

    def close(self) -> int:
        """A click that is much later: what was before it is complete. Its time."""
        self._now += 10 * HOUR
        self._send([(self._click("last", self._now), self._now)])
        return self._now

    def _click(self, name: str, moment: int) -> bytes:
        one = {"id": name, "visitor": "eva", "page": "/", "cents": 1, "time": generate.iso(moment)}
        return json.dumps(one).encode()

    def _send(self, values: list[tuple[bytes, int]], *, late: bool = False) -> None:
        begun = len(self.sent)
        for value, moment in values:
            partition = len(self.sent) % PARTITIONS
            self.sent.append(Sent(value, moment, partition, self._ends[partition], late))
            self._ends[partition] += 1
        records = [
            {"value": one.value, "timestamp": one.timestamp, "partition": one.partition}
            for one in self.sent[begun:]
        ]
        produce(self._bootstrap, self._topic, records)

    def expected(self) -> Results:
        letters, doubtful = [], []
        clicks: dict[str, Click] = {}
        for one in self.sent:
            click = click_of(one.value)
            if click is None:
                letters.append((one.partition, one.offset))
            elif not _is_possible(click, one.timestamp):
                doubtful.append(click["id"])
            elif not one.late:
                made = Click(**{**click, "time": _millis(click["time"])})
                clicks.setdefault(made.id, made)
        done = [one for one in clicks.values() if one.id != "last"]
        pages, sessions = pages_of(done), sessions_of(done)
        raw = Counter(clicks.values())
        return Results(pages, pages, raw, raw, sessions, raw, Counter(doubtful), Counter(letters))


def click_of(value: bytes) -> dict[str, Any] | None:
    """None if it is none: no JSON, or of other types."""
    try:
        found = json.loads(value)
    except ValueError:
        return None
    if not isinstance(found["cents"], int):
        return None
    return {name: found[name] for name in Click._fields}


def _is_possible(click: dict[str, Any], received: int) -> bool:
    complete = None not in click.values()
    return complete and click["cents"] >= 0 and _millis(click["time"]) <= received + HOUR


def pages_of(clicks: list[Click]) -> Pages:
    groups: dict[tuple[int, str], list[Click]] = defaultdict(list)
    for one in clicks:
        groups[one.time // MINUTE * MINUTE, one.page].append(one)
    return Counter(
        (*key, len(found), sum(one.cents for one in found), len({one.visitor for one in found}))
        for key, found in groups.items()
    )


def sessions_of(clicks: list[Click]) -> Sessions:
    groups: dict[str, list[list[Click]]] = defaultdict(list)
    for one in sorted(clicks, key=lambda one: one.time):
        sessions = groups[one.visitor]
        if sessions and one.time <= sessions[-1][-1].time + SESSION:
            sessions[-1].append(one)
        else:
            sessions.append([one])
    return Counter(
        (
            visitor,
            found[0].time,
            found[-1].time + SESSION,
            len(found),
            sum(one.cents for one in found),
        )
        for visitor, sessions in groups.items()
        for found in sessions
    )


@dataclass(frozen=True)
class Results:
    """What is in each store; rows that are there twice are counted twice."""

    table: Pages
    topic: Pages
    pyarrow: Counter[Click]
    duckdb: Counter[Click]
    delta: Sessions
    iceberg: Counter[Click]
    doubtful: Counter[str]
    letters: Counter[tuple[int, int]]
    """By partition and offset of their records."""

    def beside(self, other: Results) -> dict[str, tuple[Any, Any]]:
        """What only this one has, and what only the other one has, of stores that differ."""
        pairs = {
            one.name: (getattr(self, one.name), getattr(other, one.name)) for one in fields(self)
        }
        return {name: (a - b, b - a) for name, (a, b) in pairs.items() if a != b}


@dataclass(frozen=True)
class Stores:
    """All that the example writes."""

    folder: Path
    database: str
    target: str
    to: str
    source: str
    bad: str

    def found(self) -> Results:
        files = self.folder / "clicks"
        return Results(
            table=self._table(),
            topic=self._topic(),
            pyarrow=_clicks(ds.dataset(files, format="parquet", partitioning="hive").to_table()),
            duckdb=_clicks(
                duckdb.read_parquet(
                    f"{files}/**/*.parquet", hive_partitioning=True
                ).to_arrow_table()
            ),
            delta=Counter(
                (
                    one["visitor"],
                    _millis(one["started"]),
                    _millis(one["ended"]),
                    one["clicks"],
                    one["cents"],
                )
                for one in DeltaTable(self.folder / "sessions").to_pyarrow_table().to_pylist()
            ),
            iceberg=_clicks(StaticTable.from_metadata(str(self._iceberg())).scan().to_arrow()),
            doubtful=self._doubtful(),
            letters=self._letters(),
        )

    def _iceberg(self) -> Path:
        """The newest metadata: a catalog of files has nothing else."""
        place = self.folder / "warehouse" / "shop" / "clicks" / "metadata"
        newest = int((place / "version-hint.text").read_text())
        while (place / f"v{newest + 1}.metadata.json").exists():
            newest += 1  # the hint is written after it
        return place / f"v{newest}.metadata.json"

    def _rows(self, query: str) -> list[Any]:
        engine = sa.create_engine(self.database)
        with engine.connect() as connection:
            found = list(connection.execute(sa.text(query)))
        engine.dispose()
        return found

    def _table(self) -> Pages:
        query = "SELECT window_start, page, clicks, cents, visitors FROM page_minutes"
        return Counter((_millis(begin), *rest) for begin, *rest in self._rows(query))

    def _doubtful(self) -> Counter[str]:
        found = self._rows('SELECT "row" FROM doubtful_clicks')
        return Counter(json.loads(text)["id"] for (text,) in found)

    def _topic(self) -> Pages:
        wait_for_markers(self.target, self.to, PARTITIONS)
        found = consume(self.target, self.to, PARTITIONS, **{"isolation.level": "read_committed"})
        values = [json.loads(row.value or b"") for row in found]
        return Counter(
            (
                _millis(one["window_start"]),
                one["page"],
                one["clicks"],
                one["cents"],
                one["visitors"],
            )
            for one in values
        )

    def _letters(self) -> Counter[tuple[int, int]]:
        failures = [read_failure(row.headers) for row in consume(self.source, self.bad, 1)]
        return Counter((one.source.partition, one.source.offset) for one in failures if one)


def _clicks(table: pa.Table) -> Counter[Click]:
    rows = table.select(list(Click._fields)).to_pylist()
    return Counter(Click(**{**row, "time": _millis(row["time"])}) for row in rows)


def _millis(moment: datetime | str) -> int:
    found = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return round(found.timestamp() * 1000)
