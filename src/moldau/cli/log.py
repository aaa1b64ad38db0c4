"""``moldau log``: log files without a broker, and log directories of brokers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.cli.exit_codes import CommandError, UsageError
from moldau.cli.log_dirs import dirs, move
from moldau.cli.log_verify import verify
from moldau.cli.options import Json, group_app
from moldau.cli.output import print_json_line, print_line, warn

if TYPE_CHECKING:
    from moldau.log.tools.dump import FileDump

app = group_app("Look into log directories and segment files, check them, move replicas.")
app.command()(verify)
app.command()(dirs)
app.command()(move)


@app.command()
def dump(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="DIR|FILE...", exists=True, help="What to show."),
    ],
    records: Annotated[
        bool, typer.Option("--records", "-r", help="Show the records of each batch, too.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare indexes with the log files beside them.")
    ] = False,
    json: Json = False,
) -> None:
    """Show what is in log directories: segments, indexes, snapshots, checkpoints.

    It only reads, so the broker may be running. Every batch's CRC is checked. What is wrong with a
    file is said on stderr, and the command then ends with 1.

    \b
    moldau log dump moldau-data/greetings-0 --records
    moldau log dump moldau-data --verify > /dev/null
    """
    from moldau.log.tools.dump import dump_file, dump_paths

    for path in paths:
        if path.is_file() and dump_file(str(path)) is None:
            raise UsageError(f"{path} is not a file of a log directory")
    show = _print_json if json else _print_text
    damaged = 0
    found = dump_paths([str(path) for path in paths], records=records, verify_indexes=verify)
    for file in found:
        show(file)
        damaged += _tell_problems(file)
    if damaged:
        raise CommandError(f"{damaged} file{' is' if damaged == 1 else 's are'} damaged.")


def _print_text(file: FileDump) -> None:
    """A heading per file, a line per row: names and values, as Kafka's tool prints them."""
    print_line(f"{file.path} ({file.kind})")
    for row in file.rows:
        fields = row._asdict()
        indent = "    " if "key" in fields else "  "
        shown = " ".join(f"{name}: {_text(value)}" for name, value in fields.items())
        print_line(f"{indent}{shown}")


def _print_json(file: FileDump) -> None:
    for row in file.rows:
        kind = _ROW_KINDS.get(type(row).__name__, "entry")
        document = {"file": file.path, "kind": file.kind, "row": kind, **_json_fields(row)}
        print_json_line(document)


_ROW_KINDS = {"BatchRow": "batch", "RecordRow": "record"}


def _tell_problems(file: FileDump) -> bool:
    """Returns whether there was any. Space that a running broker has reserved is none."""
    problems = [problem for problem in file.problems if "(preallocated)" not in problem]
    for problem in problems:
        warn(f"{file.path}: {problem}.")
    return bool(problems)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, tuple):
        return ",".join(f"{name}={_text(inner)}" for name, inner in value) or "-"
    return str(value)


def _json_fields(row: Any) -> dict[str, Any]:
    from moldau.cli.render import text_or_base64

    fields: dict[str, Any] = {}
    for name, value in row._asdict().items():
        if name in ("key", "value"):
            fields.update(text_or_base64(name, value))
        elif name == "headers":
            fields[name] = [{"key": key, **text_or_base64("value", inner)} for key, inner in value]
        else:
            fields[name] = value
    return fields
