"""Where a path is, as Spark would read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.spark.pipeline.paths import checkpoint_directory, local_directory
from moldau.spark.pipeline.spec import Pipeline


@pytest.fixture(autouse=True)
def no_hadoop(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("path", "directory"),
    [
        ("a/b", Path("a/b")),
        ("/a/b", Path("/a/b")),
        ("file:/a/b", Path("/a/b")),
        ("file:///a/b", Path("/a/b")),
        ("FILE:///a/b", Path("/a/b")),
        ("/a/12:30/b", Path("/a/12:30/b")),
        ("hdfs:/a/b", None),
        ("hdfs://host/a/b", None),
        ("s3a://bucket/a", None),
    ],
)
def test_a_scheme_says_whose_files_they_are(path: str, directory: Path | None) -> None:
    assert local_directory(path) == directory
    assert checkpoint_directory(Pipeline("p", "p.toml", checkpoint=path)) == directory


def test_a_checkpoint_without_a_scheme_is_on_the_default_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def directory(checkpoint: str, **config: str) -> Path | None:
        settings = {f"spark.hadoop.{name}": value for name, value in config.items()}
        return checkpoint_directory(Pipeline("p", "p", checkpoint=checkpoint, config=settings))

    there = {"fs.defaultFS": "hdfs://host:8020"}
    assert directory("a/b", **there) is None
    assert directory("file:/a/b", **there) == Path("/a/b")
    assert directory("a/b", **{"fs.defaultFS": "file:///"}) == Path("a/b")
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>fs.defaultFS</name><value>hdfs://host:8020</value>"
        "</property></configuration>",
        "utf-8",
    )
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert directory("a/b") is None
    assert directory("a/b", **{"fs.defaultFS": "file:///"}) == Path("a/b")


def test_a_server_has_the_files_of_its_checkpoint() -> None:
    found = Pipeline("p", "p.toml", master="sc://host", checkpoint="file:/a")
    assert checkpoint_directory(found) is None
