"""``moldau log verify``: check log directories that no broker is using."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.cli.exit_codes import CommandError, UsageError
from moldau.cli.options import Json
from moldau.cli.output import print_json, print_line, progress, tell

if TYPE_CHECKING:
    from moldau.log.tools.verify import Finding, Totals


def verify(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", exists=True, file_okay=False, help="Log or partition directories."
        ),
    ],
    deep: Annotated[
        bool, typer.Option("--deep", help="Decompress and decode every record, too.")
    ] = False,
    json: Json = False,
) -> None:
    """Check everything in log directories: what is wrong, where, and what a start would do.

    Batches (CRC, header, offsets), indexes, leader epochs, producer snapshots, checkpoints, ids and
    leftovers are read and compared. Nothing is changed. Give all directories of a broker at
    once. The broker has to be stopped. Ends with 1 if anything is damaged; what a stop or a crash
    leaves behind, and the next start puts in order, is only noted.

    \b
    moldau log verify moldau-data
    moldau log verify /disk0/kafka /disk1/kafka --deep --json
    """
    from moldau.log.tools.verify import DirectoryInUseError, Verification

    verification = Verification([str(path) for path in paths], deep=deep)
    found: list[Finding] = []
    begin = time.monotonic()
    try:
        with progress("checking", _bytes_in(paths)) as bar:
            for finding in verification.run(bar.advance):
                found.append(finding)
                if not json:
                    print_line(_sentence(finding), flush=True)
    except DirectoryInUseError as error:
        raise UsageError(f"{error}.") from None
    totals, seconds = verification.totals, time.monotonic() - begin
    if json:
        print_json(_document(found, totals, seconds))
    else:
        tell(_summary(totals, seconds))
    if totals.damage:
        many = "thing is" if totals.damage == 1 else "things are"
        raise CommandError(f"{totals.damage} {many} damaged.")


def _bytes_in(paths: list[Path]) -> int:
    return sum(file.stat().st_size for path in paths for file in path.rglob("*.log"))


def _sentence(finding: Finding) -> str:
    where = finding.path
    if finding.position is not None:
        where += f" at position {finding.position}"
    if finding.offset is not None:
        where += f" (offset {finding.offset})"
    return f"{finding.level.value}: {where}: {finding.problem}. At the start: {finding.at_start}."


def _summary(totals: Totals, seconds: float) -> str:
    rate = totals.bytes / 1e9 / seconds if seconds else 0.0
    return (
        f"{totals.partitions} partitions, {totals.segments} segments, {totals.batches} batches, "
        f"{totals.records} records, {totals.bytes} bytes in {seconds:.1f} s ({rate:.2f} GB/s): "
        f"{totals.damage} damaged, {totals.notes} noted"
    )


def _document(found: list[Finding], totals: Totals, seconds: float) -> dict[str, Any]:
    import dataclasses

    return {
        "findings": [{**one._asdict(), "level": one.level.value} for one in found],
        **dataclasses.asdict(totals),
        "seconds": round(seconds, 3),
    }
