"""Files of Parquet folders: after any crash, every row once."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moldau.spark.pipeline.sinks.batch import Batch, begin
from moldau.spark.pipeline.sinks.compaction import compact
from moldau.spark.pipeline.sinks.files import LocalFiles
from moldau.spark.pipeline.sinks.parts import adopt, staging_of

WRITER = Batch("query", 0).writer("sink")
OTHER = Batch("another query", 0).writer("sink")


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    return LocalFiles(tmp_path / "rows")


def stage(files: LocalFiles, batch: int, folder: str, count: int = 1, writer: str = WRITER) -> None:
    place = Path(files.staging.removeprefix("file://"), staging_of(writer, batch), folder)
    place.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        pq.write_table(pa.table({"row": [batch * 100 + number]}), place / f"part-{number}.parquet")


def read(files: LocalFiles, folder: str) -> list[int]:
    """As readers do that take every file."""
    found = (files.directory / folder).rglob("*.parquet")
    return sorted(row for file in found for row in pq.read_table(file)["row"].to_pylist())


def names(files: LocalFiles, folder: str) -> list[str]:
    found = (files.directory / folder).iterdir()
    return sorted(file.name.replace(f"-{WRITER}-", "-W-") for file in found)


def test_files_with_other_columns_stay_apart(files: LocalFiles) -> None:
    for batch in range(6):
        stage(files, batch, "day=1")
        adopt(files, WRITER, batch)
        if batch == 2:  # as if the pipeline was given a column more
            file = files.directory / "day=1" / f"b-{WRITER}-2-0.parquet"
            pq.write_table(pa.table({"row": [200], "more": ["x"]}), file)
    assert compact(files, WRITER, 9, many=2) == 2
    assert names(files, "day=1") == ["b-W-0-1.c.parquet", "b-W-2-0.parquet", "b-W-3-5.c.parquet"]
    assert read(files, "day=1") == [0, 100, 200, 300, 400, 500]


def test_small_files_become_one_but_not_those_of_the_batch_under_way(files: LocalFiles) -> None:
    for batch in range(5):
        stage(files, batch, "day=1")
        assert len(adopt(files, WRITER, batch)) == 1
    assert compact(files, WRITER, 4, many=3) == 1
    assert names(files, "day=1") == ["b-W-0-3.c.parquet", "b-W-4-0.parquet"]
    assert read(files, "day=1") == [0, 100, 200, 300, 400]
    assert compact(files, WRITER, 5, many=3) == 0
    assert compact(files, WRITER, 5, many=2) == 1
    assert names(files, "day=1") == ["b-W-0-4.c.parquet"]
    assert read(files, "day=1") == [0, 100, 200, 300, 400]
    assert [place.name for place in files.directory.parent.iterdir()] == ["rows"]


def test_large_files_are_left_alone(files: LocalFiles) -> None:
    for batch in range(4):
        stage(files, batch, "d", count=2)
        adopt(files, WRITER, batch)
    assert compact(files, WRITER, 9, many=2, small=1) == 4  # the two files of each batch
    assert compact(files, WRITER, 9, many=2, small=1) == 0
    assert len(list((files.directory / "d").iterdir())) == 4


def test_a_batch_that_runs_again_replaces_its_files(files: LocalFiles) -> None:
    stage(files, 0, "a", count=3)
    stage(files, 0, "b")
    adopt(files, WRITER, 0)
    stage(files, 0, "a", count=2)
    adopt(files, WRITER, 0)
    assert read(files, "a") == [0, 1]
    assert read(files, "b") == []


def test_batches_of_other_queries_are_others(files: LocalFiles) -> None:
    """A checkpoint that is begun anew, and a second sink of one query: each has a batch 0."""
    assert len({WRITER, OTHER, Batch("query", 7).writer("another sink")}) == 3
    for writer in (WRITER, OTHER):
        for batch in range(2):
            stage(files, batch, "", writer=writer)
            adopt(files, writer, batch)
    assert read(files, "") == [0, 0, 100, 100]
    assert compact(files, WRITER, 9, many=2) == 1
    assert names(files, "") == sorted(
        ["b-W-0-1.c.parquet", f"b-{OTHER}-0-0.parquet", f"b-{OTHER}-1-0.parquet"]
    )
    assert read(files, "") == [0, 0, 100, 100]


def test_what_is_being_written_is_in_no_readers_way(files: LocalFiles) -> None:
    stage(files, 0, "day=1", writer=OTHER)  # of a run that was killed, or is under way
    stage(files, 0, "day=1")
    adopt(files, WRITER, 0)
    assert read(files, "") == [0]
    assert [one.name for one in files.staged(OTHER)] == [f"{OTHER}/0/day=1/part-0.parquet"]


def test_only_batches_that_this_process_has_not_begun_are_surely_new() -> None:
    assert begin("a writer of this test", 3)
    assert not begin("a writer of this test", 4)
    assert begin("a writer of this test", 4)
    assert begin("a writer of this test", 3)
    assert not begin("a writer of this test", 5)


class CrashError(Exception):
    pass


@pytest.mark.parametrize("seed", range(8))
def test_crashes_lose_and_double_nothing(
    files: LocalFiles, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every removal and renaming may be the last: the batch runs again, as Spark does it."""
    rng = random.Random(seed)
    before: dict[str, Callable[..., object]] = {"replace": Path.replace, "unlink": Path.unlink}

    def faulty(name: str) -> None:
        def act(self: Path, *args: object) -> object:
            if rng.random() < 0.1:
                raise CrashError
            return before[name](self, *args)

        monkeypatch.setattr(Path, name, act)

    faulty("replace")
    faulty("unlink")
    for batch in range(12):
        while True:
            try:
                stage(files, batch, "x", count=2)
                adopt(files, WRITER, batch)
                compact(files, WRITER, batch, many=4)
                break
            except CrashError:
                continue
    while True:
        try:
            compact(files, WRITER, 12, many=2)
            break
        except CrashError:
            continue
    assert read(files, "x") == sorted(n * 100 + k for n in range(12) for k in range(2))
