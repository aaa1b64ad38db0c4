"""Compaction of Parquet folders: after any crash, every row once."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moldau.spark.pipeline.parquet import STAGING, adopt, compact


def stage(directory: Path, batch: int, folder: str, files: int = 1) -> None:
    place = directory / STAGING / str(batch) / folder
    place.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        pq.write_table(pa.table({"row": [batch * 100 + number]}), place / f"part-{number}.parquet")


def read(directory: Path, folder: str) -> list[int]:
    """As readers do: names that begin with _ or . are passed over."""
    files = [file for file in (directory / folder).glob("*.parquet") if file.name[0] not in "_."]
    return sorted(row for file in files for row in pq.read_table(file)["row"].to_pylist())


def test_small_files_become_one_but_not_those_of_the_batch_under_way(tmp_path: Path) -> None:
    for batch in range(5):
        stage(tmp_path, batch, "day=1")
        assert adopt(tmp_path, batch) == 1
    assert compact(tmp_path, 4, many=3) == 1
    assert sorted(file.name for file in (tmp_path / "day=1").iterdir()) == [
        "b-0-3.c.parquet", "b-4-0.parquet"
    ]  # fmt: skip
    assert read(tmp_path, "day=1") == [0, 100, 200, 300, 400]
    assert compact(tmp_path, 5, many=3) == 0
    assert compact(tmp_path, 5, many=2) == 1
    assert [file.name for file in (tmp_path / "day=1").iterdir()] == ["b-0-4.c.parquet"]
    assert read(tmp_path, "day=1") == [0, 100, 200, 300, 400]
    assert not list((tmp_path / STAGING).iterdir())


def test_large_files_are_left_alone(tmp_path: Path) -> None:
    for batch in range(4):
        stage(tmp_path, batch, "d", files=2)
        adopt(tmp_path, batch)
    assert compact(tmp_path, 9, many=2, small=1) == 4  # the two files of each batch
    assert compact(tmp_path, 9, many=2, small=1) == 0
    assert len(list((tmp_path / "d").iterdir())) == 4


def test_a_batch_that_runs_again_replaces_its_files(tmp_path: Path) -> None:
    stage(tmp_path, 0, "a", files=3)
    stage(tmp_path, 0, "b")
    adopt(tmp_path, 0)
    stage(tmp_path, 0, "a", files=2)
    adopt(tmp_path, 0)
    assert read(tmp_path, "a") == [0, 1]
    assert read(tmp_path, "b") == []


class CrashError(Exception):
    pass


@pytest.mark.parametrize("seed", range(8))
def test_crashes_lose_and_double_nothing(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
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
                stage(tmp_path, batch, "x", files=2)
                adopt(tmp_path, batch)
                compact(tmp_path, batch, many=4)
                break
            except CrashError:
                continue
    while True:
        try:
            compact(tmp_path, 12, many=2)
            break
        except CrashError:
            continue
    assert read(tmp_path, "x") == sorted(n * 100 + k for n in range(12) for k in range(2))
