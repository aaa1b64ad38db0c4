"""``python -m bench [PROGRAM …]``: run benchmarks, print their tables, write docs/benchmarks.md.

Without a program, all of them. With ``--quick`` everything is small and the page stays as it is: to
see that the programs work.
"""

from __future__ import annotations

import argparse
import importlib
import resource
import sys
import time
from collections.abc import Sequence

from rich.console import Console

from bench import broker, page
from bench.report import Table
from bench.session import Session
from bench.targets import KINDS

PROGRAMS = {
    "broker": "one broker beside Apache Kafka, cold and warm",
    "clients": "producers in Python beside each other",
    "consumers": "consumers in Python beside each other",
    "groups": "many members, many groups",
    "partitions": "ten thousand partitions",
    "compaction": "the log cleaner",
    "spark": "the data source beside the official connector",
}
"""Modules of this package; each has ``run(session)``, which returns its tables."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=_programs())
    parser.add_argument("--quick", action="store_true", help="small loads, one round, no page")
    parser.add_argument(
        "--targets",
        default=",".join(KINDS),
        help=f"brokers to run, of {', '.join(KINDS)}; the page is written with all of them only",
    )
    options = parser.parse_args(arguments)
    unknown = set(options.programs) - set(PROGRAMS)
    if unknown:
        parser.error(f"no such program: {', '.join(sorted(unknown))}; there are {_programs()}")
    # A connection is a file, here as in the brokers, which inherit the limit.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    kinds = [KINDS[name] for name in options.targets.split(",")]
    session = Session(kinds, Console(stderr=True).log, quick=options.quick)
    for program in options.programs or PROGRAMS:
        started = time.monotonic()
        tables = importlib.import_module(f"bench.{program}").run(session)
        for table in tables:
            table.show()
        session.say(f"{program}: {time.monotonic() - started:.0f} s; again: {_again(program)}")
        if not options.quick and len(kinds) == len(KINDS):
            _write(program, tables)
    return 0


def _programs() -> str:
    return "; ".join(f"{name}: {what}" for name, what in PROGRAMS.items())


def _again(program: str) -> str:
    return f"python -m bench {program}"


def _write(program: str, tables: Sequence[Table]) -> None:
    page.write(page.PAGE, program, tables)
    if program == "broker":
        page.write(page.README, program, [broker.summary(tables)])


if __name__ == "__main__":
    sys.exit(main())
