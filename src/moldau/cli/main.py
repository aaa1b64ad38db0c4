"""Where ``moldau`` starts: picks the way to run, turns failures into a sentence and an exit code.

This module and what it imports are all that ``moldau up`` pays for before the broker itself: no
typer, whose import (with the pydantic it brings) takes 100 ms and 20 MB.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from moldau.cli.exit_codes import ExitCode, exit_code_of, sentence_for
from moldau.cli.output import say, tell


def main(args: Sequence[str] | None = None) -> int:
    """Run one command line and give the exit code."""
    arguments = list(sys.argv[1:] if args is None else args)
    if "_MOLDAU_COMPLETE" in os.environ:
        from moldau.cli.app import complete

        return complete(arguments)
    debug = _take_debug_flag(arguments) or bool(os.environ.get("MOLDAU_DEBUG"))
    try:
        code = _run(arguments)
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
            from traceback import format_exc

            tell(format_exc().rstrip())
        else:
            say(sentence_for(error))
        return exit_code_of(error)
    return code


def _run(arguments: list[str]) -> int:
    if arguments[:1] in (["up"], ["broker"]):
        from moldau.cli.serve import serve_quickly

        code = serve_quickly(arguments[0], arguments[1:])
        if code is not None:
            return code
    if arguments[:2] == ["coordination", "serve"]:
        from moldau.cli import coordination_serve

        code = coordination_serve.serve_quickly(arguments[2:])
        if code is not None:
            return code
    from moldau.cli.app import invoke

    return invoke(arguments)


def _take_debug_flag(arguments: list[str]) -> bool:
    """``--debug`` may stand anywhere: it is put behind a command that just failed."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    found = "--debug" in arguments[:end]
    if found:
        arguments.remove("--debug")
    return found
