"""``python -m bench``: run the comparison, print it, write docs/benchmarks.md."""

from __future__ import annotations

import argparse
import datetime as dt
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import broker, client, compaction, consumers, groups, partitions, report
from moldau import __version__

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
README = ROOT / "README.md"
BEGIN = "<!-- benchmarks: written by make bench -->"
END = "<!-- end of benchmarks -->"
SUBJECTS = (
    "One broker",
    "partitions",
    "Consumer groups",
    "Log compaction",
    "Python clients",
    "Python consumers",
    "Spark",
)
"""What the sections of the page are about, in its order; a word of their titles."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small loads, two rounds, no page")
    parser.add_argument("--partitions", type=int, default=10_000, metavar="N")
    parser.add_argument("--members", type=int, default=1000, metavar="N")
    parser.add_argument("--groups", type=int, default=2000, metavar="N")
    parser.add_argument("--megabytes", type=int, default=400, metavar="N", help="to compact")
    parser.add_argument(
        "--only", choices=["broker", "client", "partitions", "groups", "compaction", "spark"]
    )
    options = parser.parse_args()
    console = Console(stderr=True)
    sections = []
    summary = ""
    if options.only in (None, "broker"):
        scale = broker.QUICK if options.quick else broker.FULL
        runs = broker.run(scale, console.log)
        sections.append((f"One broker, medians of {scale.rounds} rounds", broker.ROWS, runs))
        summary = _summary(runs)
    if options.only in (None, "partitions"):
        runs = partitions.run(options.partitions, console.log)
        title = f"{options.partitions:,} partitions, one round"
        sections.append((title, partitions.rows(options.partitions), runs))
    if options.only in (None, "groups"):
        runs = groups.run(options.members, options.groups, console.log)
        rows = groups.rows(options.members, options.groups)
        sections.append(("Consumer groups, one round", rows, runs))
    if options.only in (None, "compaction"):
        megabytes = 40 if options.quick else options.megabytes
        runs = compaction.run(megabytes, console.log)
        title = f"Log compaction, medians of {compaction.ROUNDS} rounds"
        sections.append((title, compaction.rows(megabytes), runs))
    if options.only in (None, "spark"):
        sections.append(_spark(console, quick=options.quick))
    text = []
    for title, rows, figures in sections:
        lines = report.table(rows, figures)
        _show(title, lines)
        text.append(f"## {title}\n\n{report.markdown(lines)}")
    if options.only in (None, "client"):
        text.append(_clients(client.QUICK if options.quick else client.FULL, console))
        text.append(_consumers(consumers.QUICK if options.quick else consumers.FULL, console))
    if options.quick:
        return 0
    PAGE.write_text(_page(text, [] if options.only is None else _sections(PAGE.read_text())))
    if summary:
        before, _, rest = README.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        README.write_text(f"{before}{BEGIN}\n{summary}{END}{after}")
    console.log(f"written: {PAGE.name}" + (f" and the table in {README.name}" if summary else ""))
    return 0


def _sections(page: str) -> list[str]:
    """The sections of a page that was written before."""
    return [f"## {part}" for part in page.split("\n## ")[1:]]


def _subject(section: str) -> str:
    """What a section is about, whatever its size was."""
    title = section.partition("\n")[0]
    return next(subject for subject in SUBJECTS if subject in title)


def _spark(console: Console, *, quick: bool) -> tuple[str, list[report.Row], broker.Runs]:
    from bench import spark  # pyspark takes its time, and not every run needs it

    records, rounds = spark.QUICK if quick else spark.FULL
    runs = spark.run(records, rounds, console.log)
    title = (
        "Spark, local[2], one Moldau broker: the data source beside the official connector 4.2.0 "
        f"(column Apache Kafka), medians of {rounds} rounds"
    )
    return title, spark.rows(records), runs


def _clients(scale: client.Scale, console: Console) -> str:
    """Clients beside each other, and what that says about our goals."""
    runs = client.run(scale, console.log)
    title = f"Python clients on a Moldau broker, medians of {scale.rounds} rounds"
    lines, goals = client.lines(runs), client.goals(runs)
    _show(title, lines, client.HEADINGS)
    _show("Goals", goals, client.GOAL_HEADINGS)
    first = report.markdown(lines, client.HEADINGS)
    second = report.markdown(goals, client.GOAL_HEADINGS)
    return f"## {title}\n\n{first}\n{second}"


def _consumers(scale: consumers.Scale, console: Console) -> str:
    """The other half: reading."""
    runs = consumers.run(scale, console.log)
    title = f"Python consumers on a Moldau broker, medians of {scale.rounds} rounds"
    lines, goals = consumers.lines(runs), consumers.goals(runs)
    _show(title, lines, consumers.HEADINGS)
    _show("Goals", goals, client.GOAL_HEADINGS)
    first = report.markdown(lines, consumers.HEADINGS)
    second = report.markdown(goals, client.GOAL_HEADINGS)
    return f"## {title}\n\n{first}\n{second}"


def _show(
    title: str, lines: list[tuple[str, ...]], headings: Sequence[str] = report.HEADINGS
) -> None:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading)
    for line in lines:
        table.add_row(*line)
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _summary(runs: broker.Runs) -> str:
    """The rows that have a goal, for the README."""
    rows = [row for row in broker.ROWS if row.goal is not None]
    lines = [
        (title, ours.split(" (")[0], theirs.split(" (")[0], ratio)
        for title, ours, theirs, ratio, *_ in report.table(rows, runs)
    ]
    headings = ("same machine, same run", "Moldau", "Apache Kafka 4.3.1", "ratio")
    today = dt.datetime.now(tz=dt.UTC).date()
    return (
        f"{today}, {os.cpu_count()} cores; one broker each, acks=all. `make bench` repeats it, "
        "[all rows](docs/benchmarks.md).\n\n" + report.markdown(lines, headings)
    )


def _page(new: list[str], known: list[str]) -> str:
    """New sections take the place of those about the same."""
    today = dt.datetime.now(tz=dt.UTC).date()
    sections = {_subject(section): section for section in known}
    for section in new:
        title, _, rest = section.partition("\n")
        sections[_subject(section)] = f"{title}\n\n{today}.\n{rest}"
    body = "\n".join(
        sections[subject].strip() + "\n" for subject in SUBJECTS if subject in sections
    )
    return f"""# Benchmarks

Written by `make bench`: Moldau {__version__} on Python {platform.python_version()}
beside Apache Kafka 4.3.1 on this machine ({os.cpu_count()} cores, {platform.machine()}), in one
run, in turns. Kafka runs with the heap and collector flags of its own start script. The load on
brokers comes from requests encoded beforehand on a raw socket, so that the broker is the limit;
replication factor 1, acks=all. Each figure is a median with the lowest and highest round; ratio is
Moldau ÷ the other. The machine is shared: compare the two sides of one run, never figures from
different days.

{body}"""


if __name__ == "__main__":
    sys.exit(main())
