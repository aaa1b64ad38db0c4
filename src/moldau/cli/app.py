"""``moldau``: finds the command, runs it, and turns failures into a sentence and an exit code.

Every command group is a module that is imported only when it is used (or listed), and these modules
import the client, ``rich`` and the broker inside their functions: ``moldau up`` pays for no tables.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, Literal

import typer
import typer.main
from typer.core import TyperGroup

from moldau.cli.exit_codes import ExitCode, exit_code_of, sentence_for

COMMANDS = {
    "up": ("serve", "up_app"),
    "broker": ("serve", "broker_app"),
    "topic": ("topic", "app"),
    "config": ("config", "app"),
    "produce": ("produce", "app"),
    "consume": ("consume", "app"),
    "log": ("log", "app"),
    "cluster": ("cluster", "app"),
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


def _print_version(wanted: bool) -> None:
    if wanted:
        from moldau import __version__

        typer.echo(f"moldau {__version__}")
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


def main(args: Sequence[str] | None = None) -> int:
    """Run one command line and give the exit code."""
    arguments = list(sys.argv[1:] if args is None else args)
    command = build()
    if "_MOLDAU_COMPLETE" in os.environ:
        command.main(args=arguments, prog_name="moldau")
        return ExitCode.OK
    debug = _take_debug_flag(arguments) or bool(os.environ.get("MOLDAU_DEBUG"))
    try:
        code = _invoke(command, arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has what it wanted. Python would complain again when it flushes
        # stdout at exit, so what is left goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except Exception as error:
        if debug:
            raise
        _say(sentence_for(error))
        return exit_code_of(error)
    return code


def _take_debug_flag(arguments: list[str]) -> bool:
    """``--debug`` may stand anywhere: it is put behind a command that just failed."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    found = "--debug" in arguments[:end]
    if found:
        arguments.remove("--debug")
    return found


def _invoke(command: Any, arguments: list[str]) -> int:
    """What click's ``main`` does, but exceptions of ours pass through as they are."""
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
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            raise
        context = getattr(error, "ctx", None)
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(format_message())
            return ExitCode.USAGE
        hint = f" Try '{context.command_path} --help'." if context is not None else ""
        said = " ".join(format_message().split())
        _say(said + ("" if said.endswith((".", "?")) else ".") + hint)
        return getattr(error, "exit_code", ExitCode.USAGE)


def _say(sentence: str) -> None:
    prefix = "moldau: "
    if sys.stderr.isatty() and "NO_COLOR" not in os.environ:
        prefix = f"\x1b[1;31m{prefix}\x1b[0m"
    print(prefix + sentence, file=sys.stderr)
