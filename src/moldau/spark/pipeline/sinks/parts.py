"""Names of Parquet files, which say who has written which batch. Nothing of Spark: files only.

``b-3f2a9c01d4e5-7-0.parquet`` is of batch 7 of a writer, ``b-3f2a9c01d4e5-0-6.c.parquet`` has its
batches 0 to 6. That makes every step repeatable: a batch that runs again replaces its files, and
another query's batch 7, of a checkpoint that was begun anew, is beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from moldau.spark.pipeline.sinks.files import File, Files

_NAME: Final = re.compile(r"b-([0-9a-f]{12})-(\d+)-(\d+)(\.c)?\.parquet")


class Part(NamedTuple):
    file: File
    writer: str
    first: int
    last: int
    compacted: bool

    @property
    def folder(self) -> str:
        return self.file.name.rpartition("/")[0]


def parts(files: Files, writer: str) -> Iterator[Part]:
    """Those of one writer."""
    for file in files.visible():
        found = _NAME.fullmatch(file.name.rpartition("/")[2])
        if found is not None and found[1] == writer:
            first, second, compacted = int(found[2]), int(found[3]), found[4] is not None
            yield Part(file, writer, first, second if compacted else first, compacted)


def compacted_name(run: list[Part]) -> str:
    folder = f"{run[0].folder}/" if run[0].folder else ""
    return f"{folder}b-{run[0].writer}-{run[0].first}-{run[-1].last}.c.parquet"


def staging_of(writer: str, number: int) -> str:
    """Where a batch is written before it is visible."""
    return f"{writer}/{number}"


def adopt(
    files: Files,
    writer: str,
    number: int,
    *,
    again: bool = True,
    has_rows: Callable[[str], bool] = lambda _: True,
) -> list[str]:
    """Make a batch that was written to its staging folder visible; the names of its files.

    ``again``: whether there may be files of an earlier attempt. Spark writes a file also if there
    are no rows: one that ``has_rows`` denies any is left out.
    """
    staging = staging_of(writer, number)
    staged = [one.name for one in files.staged(staging) if one.name.endswith(".parquet")]
    staged = [name for name in staged if has_rows(name)]
    for part in list(parts(files, writer)) if again else ():
        if not part.compacted and part.first == number:
            files.remove(part.file.name)
    names = []
    for count, name in enumerate(sorted(staged)):
        folder = name.removeprefix(f"{staging}/").rpartition("/")[0]
        names.append(f"{folder}/b-{writer}-{number}-{count}.parquet".lstrip("/"))
        files.publish(name, names[-1])
    # With what attempts have left there that ended in the middle.
    files.remove_staged(writer)
    return names
