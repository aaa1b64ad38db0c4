"""The tree of commands.

Every command group is a module that is imported only when it is used (or listed), and these modules
import the client and ``rich`` inside their functions: what is not used is not paid for.
"""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from typing import Annotated, Any, Literal

import typer
import typer.main
from typer.core import TyperGroup

from moldau.cli.exit_codes import ExitCode
from moldau.cli.output import print_line, print_text, say

COMMANDS = {
    "up": ("serve_commands", "up_app"),
    "broker": ("serve_commands", "broker_app"),
    "topic": ("topic", "app"),
    "config": ("config", "app"),
    "quota": ("quota", "app"),
    "produce": ("produce", "app"),
    "consume": ("consume", "app"),
    "group": ("group", "app"),
    "dlq": ("dlq", "app"),
    "claim-check": ("claim_check", "app"),
    "log": ("log", "app"),
    "coordination": ("coordination", "app"),
    "cluster": ("cluster", "app"),
    "mailalert": ("mailalert", "app"),
    "pipeline": ("pipeline", "app"),
    "bench": ("bench", "app"),
}
"""Command name to a module of this package and the Typer in it, in the order of ``--help``."""


class LazyGroup(TyperGroup):
    """A group whose commands are imported when somebody asks for them."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature is typer's
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name]
        app = getattr(import_module(f"moldau.cli.{module}"), attribute)
        app.rich_markup_mode = self.rich_markup_mode
        command = typer.main.get_command(app)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            close = get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


def build() -> Any:
    """The root command."""
    # Boxes and colours are for eyes; pipes get plain text, and rich is not imported for it.
    markup: Literal["rich"] | None = "rich" if sys.stdout.isatty() else None
    app = typer.Typer(
        name="moldau",
        cls=LazyGroup,
        rich_markup_mode=markup,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    return typer.main.get_command(app)


def complete(arguments: list[str]) -> int:
    """Answer a shell that asks what could come next."""
    _log_nowhere()
    build().main(args=arguments, prog_name="moldau")
    return ExitCode.OK


def invoke(arguments: list[str]) -> int:
    """What click's ``main`` does, but exceptions of ours pass through as they are."""
    _log_nowhere()
    command = build()
    try:
        with command.make_context("moldau", arguments) as context:
            result = command.invoke(context)
        return result if isinstance(result, int) else ExitCode.OK
    except typer.Exit as request:
        return request.exit_code
    except typer.Abort:
        return ExitCode.FAILURE
    except Exception as error:
        # Usage errors: their class is click's or typer's own copy of it, by version.
        if not hasattr(error, "format_message"):
            raise
        return _usage_error(error)


def _log_nowhere() -> None:
    # A failure is one sentence: what clients log on the way to it is for programs.
    logging.getLogger("moldau").addHandler(logging.NullHandler())


def _usage_error(error: Any) -> int:
    said = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":
        print_text(said)
        return ExitCode.USAGE
    context = getattr(error, "ctx", None)
    hint = f" Try '{context.command_path} --help'." if context is not None else ""
    said = " ".join(said.split())
    say(said + ("" if said.endswith((".", "?")) else ".") + hint)
    return getattr(error, "exit_code", ExitCode.USAGE)


def _print_version(wanted: bool) -> None:
    if wanted:
        from moldau import __version__

        print_line(f"moldau {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Show the traceback of a failure.", envvar="MOLDAU_DEBUG"),
    ] = False,
) -> None:
    """A Kafka broker and its tools, in Python.

    Start with `moldau up`; every command has --help. Data goes to stdout, talk to stderr.
    """
    del version, debug  # handled before the command runs
