"""``python -m bench``: run the comparison, print it, write docs/benchmarks.md."""

from __future__ import annotations

import argparse
import datetime as dt
import os
import platform
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import broker, groups, partitions, report
from moldau import __version__

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small loads, two rounds, no page")
    parser.add_argument("--partitions", type=int, default=10_000, metavar="N")
    parser.add_argument("--members", type=int, default=1000, metavar="N")
    parser.add_argument("--groups", type=int, default=2000, metavar="N")
    parser.add_argument("--only", choices=["broker", "partitions", "groups"])
    options = parser.parse_args()
    console = Console(stderr=True)
    sections = []
    if options.only in (None, "broker"):
        scale = broker.QUICK if options.quick else broker.FULL
        runs = broker.run(scale, console.log)
        sections.append((f"One broker, medians of {scale.rounds} rounds", broker.ROWS, runs))
    if options.only in (None, "partitions"):
        runs = partitions.run(options.partitions, console.log)
        title = f"{options.partitions:,} partitions, one round"
        sections.append((title, partitions.rows(options.partitions), runs))
    if options.only in (None, "groups"):
        runs = groups.run(options.members, options.groups, console.log)
        rows = groups.rows(options.members, options.groups)
        sections.append(("Consumer groups, one round", rows, runs))
    text = []
    for title, rows, figures in sections:
        lines = report.table(rows, figures)
        _show(title, lines)
        text.append(f"## {title}\n\n{report.markdown(lines)}")
    if not options.quick and options.only is None:
        PAGE.write_text(_page("\n".join(text)))
        console.log(f"written: {PAGE.relative_to(Path.cwd())}")
    return 0


def _show(title: str, lines: list[tuple[str, ...]]) -> None:
    table = Table(title=title, title_justify="left")
    for heading in report.HEADINGS:
        table.add_column(heading)
    for line in lines:
        table.add_row(*line)
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _page(sections: str) -> str:
    today = dt.datetime.now(tz=dt.UTC).date()
    return f"""# Benchmarks

Written by `make bench` on {today}: Moldau {__version__} on Python {platform.python_version()}
beside Apache Kafka 4.3.1 on this machine ({os.cpu_count()} cores, {platform.machine()}), in one
run, in turns. Kafka runs with the heap and collector flags of its own start script. The load comes
from requests encoded beforehand on a raw socket, so that the broker is the limit; replication
factor 1, acks=all. Each figure is a median with the lowest and highest round; ratio is Moldau ÷
Kafka. The machine is shared: compare the two sides of one run, never figures from different days.

{sections}"""


if __name__ == "__main__":
    sys.exit(main())
