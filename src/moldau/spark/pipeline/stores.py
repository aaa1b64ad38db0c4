"""Small files beside the checkpoints of queries, wherever Spark keeps these."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

from moldau.spark.pipeline.checkpoint import local_directory


class Store(Protocol):
    """A pipeline's checkpoint."""

    def has(self, name: str) -> bool: ...

    def read(self, name: str) -> str | None:
        """None if there is no such file."""

    def write(self, name: str, text: str) -> None: ...


def store_of(checkpoint: str, spark: SparkSession) -> Store:
    directory = local_directory(checkpoint)
    return _HadoopStore(checkpoint, spark) if directory is None else _LocalStore(directory)


class _LocalStore:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def has(self, name: str) -> bool:
        return (self._directory / name).exists()

    def read(self, name: str) -> str | None:
        try:
            return (self._directory / name).read_text("utf-8")
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        growing = self._directory / f".{name}"
        growing.write_text(text, "utf-8")
        growing.replace(self._directory / name)


class _HadoopStore:
    """Through the driver's own Hadoop, which has the addresses and secrets of the store."""

    def __init__(self, checkpoint: str, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self._bytes = jvm.org.apache.hadoop.io.IOUtils
        self._buffer = jvm.java.io.ByteArrayOutputStream
        self._directory = self._path(checkpoint)
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        self._files = self._directory.getFileSystem(configuration)

    def has(self, name: str) -> bool:
        return bool(self._files.exists(self._path(self._directory, name)))

    def read(self, name: str) -> str | None:
        if not self.has(name):
            return None
        found = self._buffer()
        # Closes both.
        self._bytes.copyBytes(
            self._files.open(self._path(self._directory, name)), found, 4096, True
        )
        return bytes(found.toByteArray()).decode()

    def write(self, name: str, text: str) -> None:
        out = self._files.create(self._path(self._directory, name), True)
        try:
            out.write(bytearray(text.encode()))
        finally:
            out.close()
