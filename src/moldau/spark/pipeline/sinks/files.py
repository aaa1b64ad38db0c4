"""Files of a folder, wherever Spark can write: on this machine, or by Hadoop's file systems.

What is being written lies beside the folder: some readers, such as DuckDB with ``**``, take
every file in it, whatever its name begins with. Renaming a file is what makes it visible, as a
whole: on this machine, on HDFS and in object stores alike.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from moldau.spark.pipeline.paths import local_directory
from moldau.spark.pipeline.sinks.batch import SinkError


class File(NamedTuple):
    name: str
    """Relative to the folder, or to the place beside it."""
    size: int


class Files(Protocol):
    place: str
    """The folder, as Spark finds it."""
    staging: str
    """The place beside it."""

    def visible(self) -> Iterator[File]:
        """All files of the folder and of the folders in it."""

    def staged(self, part: str) -> Iterator[File]:
        """All files of a folder at the place beside it."""

    def has_folder(self, name: str) -> bool: ...

    def publish(self, staged: str, name: str) -> None:
        """Move a file to the folder; an old one of that name is replaced."""

    def remove(self, name: str) -> None: ...

    def remove_staged(self, part: str) -> None: ...


class LocalFiles:
    def __init__(self, directory: Path) -> None:
        # A link may lead to another disk, and renaming does not.
        self.directory = directory.resolve()
        inside = self.directory.is_mount()
        name = "_staging" if inside else f".{self.directory.name}.staging"
        self._beside = (self.directory if inside else self.directory.parent) / name
        self.place = self.directory.as_uri()
        self.staging = self._beside.as_uri()

    def visible(self) -> Iterator[File]:
        return _files(self.directory, self.directory)

    def staged(self, part: str) -> Iterator[File]:
        return _files(self._beside / part, self._beside)

    def has_folder(self, name: str) -> bool:
        return (self.directory / name).is_dir()

    def staged_file(self, name: str) -> Path:
        return self._beside / name

    def publish(self, staged: str, name: str) -> None:
        file, place = self._beside / staged, self.directory / name
        place.parent.mkdir(parents=True, exist_ok=True)
        # Or the name might outlive a power failure without the content.
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        file.replace(place)

    def remove(self, name: str) -> None:
        (self.directory / name).unlink()

    def remove_staged(self, part: str) -> None:
        shutil.rmtree(self._beside / part, ignore_errors=True)
        with suppress(OSError):  # somebody else's is there
            self._beside.rmdir()


def _files(directory: Path, root: Path) -> Iterator[File]:
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            yield File(path.relative_to(root).as_posix(), path.stat().st_size)


class HadoopFiles:
    """Through the driver's JVM, with the settings and the classes that Spark itself has."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._jvm = cast("Any", spark._jvm)
        java = cast("Any", spark._jsc)
        configuration = java.hadoopConfiguration()
        root = self._jvm.org.apache.hadoop.fs.Path(path)
        self._system = root.getFileSystem(configuration)
        self._root = self._system.makeQualified(root)
        parent = self._root.getParent()  # a bucket has none
        name = "_staging" if parent is None else f".{self._root.getName()}.staging"
        self._beside = self._path(parent or self._root, name)
        self.place = str(self._root.toString())
        self.staging = str(self._beside.toString())

    @property
    def directory(self) -> Path | None:
        """The folder, if it is one of this machine."""
        return local_directory(self.place)

    def visible(self) -> Iterator[File]:
        return self._files(self._root, self.place)

    def staged(self, part: str) -> Iterator[File]:
        return self._files(self._path(self._beside, part), self.staging)

    def has_folder(self, name: str) -> bool:
        return bool(self._system.exists(self._path(self._root, name)))

    def publish(self, staged: str, name: str) -> None:
        place = self._path(self._root, name)
        self._system.mkdirs(place.getParent())
        # Some file systems rename only to a name that is free.
        self._system.delete(place, False)
        if not self._system.rename(self._path(self._beside, staged), place):
            raise SinkError(f"{self.staging}/{staged} could not be renamed to {place.toString()}")

    def remove(self, name: str) -> None:
        self._system.delete(self._path(self._root, name), False)

    def remove_staged(self, part: str) -> None:
        self._system.delete(self._path(self._beside, part), True)

    def _path(self, parent: Any, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(parent, name)

    def _files(self, directory: Any, root: str) -> Iterator[File]:
        if not self._system.exists(directory):
            return
        listing = self._system.listFiles(directory, True)
        while listing.hasNext():
            status = listing.next()
            name = str(status.getPath().toString()).removeprefix(root).lstrip("/")
            yield File(name, int(status.getLen()))


def files_of(spark: SparkSession, path: str) -> Files:
    """A path without a scheme is where Spark's default file system has it."""
    if is_remote():
        directory = local_directory(path)
        if directory is None:
            raise SinkError(
                f"{path}: through a Spark Connect server Parquet goes to folders of the server's "
                "machine only; tables of delta and iceberg may be anywhere"
            )
        return LocalFiles(directory.absolute())
    found = HadoopFiles(spark, path)
    return found if found.directory is None else LocalFiles(found.directory)
