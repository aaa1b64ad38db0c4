"""What commands about pipelines have in common: which file is meant, what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from moldau.cli.exit_codes import CommandError, ExitCode, UsageError
from moldau.cli.output import tell

if TYPE_CHECKING:
    from moldau.spark.pipeline.problems import PipelineError
    from moldau.spark.pipeline.spec import Pipeline

File = Annotated[
    str, typer.Argument(metavar="FILE|NAME", help="A pipeline's file, or a ready-made one.")
]
Parameters = Annotated[
    list[str],
    typer.Option("--parameter", "-p", metavar="NAME=VALUE", help="Instead of the file's value."),
]

EXIT_CODES = {
    "unreachable": ExitCode.CANNOT_CONNECT,
    "late": ExitCode.TIMED_OUT,
    "missing": ExitCode.NOT_FOUND,
}
"""Of several problems the one that comes first here: without brokers nobody knows of topics."""


def load(file: str, parameters: list[str]) -> Pipeline:
    from moldau.spark.pipeline.load import load_pipeline
    from moldau.spark.pipeline.problems import PipelineError

    given = {}
    for one in parameters:
        name, sign, value = one.partition("=")
        if not sign:
            raise UsageError(f"A parameter is given as NAME=VALUE, not {one!r}")
        given[name] = value
    try:
        return load_pipeline(file, given)
    except PipelineError as error:
        raise told(error) from None
    except FileNotFoundError as error:
        text = str(error)
        raise CommandError(text[:1].upper() + text[1:], ExitCode.NOT_FOUND) from None


def told(error: PipelineError) -> typer.Exit:
    for line in error.lines():
        tell(line)
    kinds = {one.kind for one in error.problems}
    code = next((code for kind, code in EXIT_CODES.items() if kind in kinds), ExitCode.FAILURE)
    return typer.Exit(code)
