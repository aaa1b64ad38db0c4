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

from bench import page
from bench.processes import Neighbours
from bench.session import Session
from bench.targets import KINDS

PROGRAMS = {
    "broker": "one broker beside Apache Kafka, cold and warm",
    "shapes": "many connections, many partitions in a request, producing and consuming at once",
    "latency": "percentiles at fixed rates, and consumers at the head of a partition",
    "scaling": "how cost grows with connections, partitions and consumers",
    "clients": "producers in Python beside each other",
    "consumers": "consumers in Python beside each other",
    "groups": "many members, many groups",
    "partitions": "ten thousand partitions",
    "compaction": "the log cleaner",
    "cluster": "three brokers, three replicas, beside three of Apache Kafka",
    "failover": "three brokers, one of which is killed",
    "quiet": "three brokers with many partitions, few of which are written to",
    "spark": "the data source beside the official connector",
    "pipelines": "a pipeline with three sinks beside three plain queries",
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
    targets = options.targets.split(",")
    for word, names, known in (
        ("program", options.programs, PROGRAMS),
        ("target", targets, KINDS),
    ):
        unknown = [name for name in names if name not in known]
        if unknown:
            parser.error(f"no such {word}: {', '.join(unknown)}; there are {', '.join(known)}")
    # A connection is a file, here as in the brokers, which inherit the limit.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    kinds = [KINDS[name] for name in targets]
    session = Session(kinds, Console(stderr=True).log, quick=options.quick)
    for program in options.programs or PROGRAMS:
        started, neighbours = time.monotonic(), Neighbours()
        tables = importlib.import_module(f"bench.{program}").run(session)
        for table in tables:
            table.show()
        seconds, others = time.monotonic() - started, neighbours.share()
        session.say(f"others took {others:.0%} of the machine meanwhile")
        session.say(f"{program}: {seconds:.0f} s; again: python -m bench {program}")
        if not options.quick and len(kinds) == len(KINDS):
            page.write(program, tables, others)
    return 0


def _programs() -> str:
    return "; ".join(f"{name}: {what}" for name, what in PROGRAMS.items())


if __name__ == "__main__":
    sys.exit(main())
