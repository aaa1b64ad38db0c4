"""Small files beside the checkpoints of queries, wherever Spark keeps these."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from moldau.spark.pipeline.paths import local_directory


class Store(Protocol):
    """A pipeline's checkpoint."""

    def has(self, name: str) -> bool: ...

    def read(self, name: str) -> str | None:
        """None if there is no such file."""

    def write(self, name: str, text: str) -> None: ...


def store_of(checkpoint: str, spark: SparkSession) -> Store:
    """A path without a scheme is where Spark itself finds it: on the session's file system."""
    found = _HadoopStore(checkpoint, spark)
    return found if found.local is None else _LocalStore(found.local)


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
        java: Any = spark._jsparkSession
        self._gateway: Any = spark.sparkContext._gateway
        self._hadoop = jvm.org.apache.hadoop
        self._buffer = jvm.java.io.ByteArrayOutputStream
        self._configuration = java.sessionState().newHadoopConf()
        directory = self._hadoop.fs.Path(checkpoint)
        self._files = directory.getFileSystem(self._configuration)
        self._directory = self._files.makeQualified(directory)

    @property
    def local(self) -> Path | None:
        """The folder, if it is one of this machine."""
        return local_directory(str(self._directory.toString()))

    def has(self, name: str) -> bool:
        return bool(self._files.exists(self._path(name)))

    def read(self, name: str) -> str | None:
        if not self.has(name):
            return None
        found = self._buffer()
        # Closes both.
        self._hadoop.io.IOUtils.copyBytes(self._files.open(self._path(name)), found, 4096, True)
        return bytes(found.toByteArray()).decode()

    def write(self, name: str, text: str) -> None:
        """Aside, and renamed: there is a whole file at any time."""
        place, growing = self._path(name), self._path(f".{name}")
        try:
            # A mere FileSystem renames only to a name that is free.
            files = self._hadoop.fs.FileContext.getFileContext(
                self._directory.toUri(), self._configuration
            )
        except Py4JJavaError:
            # Not every store has it; those of objects show a file when it is whole.
            self._create(place, text)
            return
        self._create(growing, text)
        rename = self._hadoop.fs.Options.Rename
        replacing = self._gateway.new_array(rename, 1)
        replacing[0] = rename.OVERWRITE
        files.rename(growing, place, replacing)

    def _create(self, place: Any, text: str) -> None:
        out = self._files.create(place, True)
        try:
            out.write(bytearray(text.encode()))
        finally:
            out.close()

    def _path(self, name: str) -> Any:
        return self._hadoop.fs.Path(self._directory, name)
