"""Runs Apache Kafka's own integration tests: ``make kafka-suite LISTS="core streams"``."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.kafka_suite import figures
from tests.kafka_suite.expectations import judge, read_gaps
from tests.kafka_suite.harness import (
    WORK,
    Options,
    Result,
    read_results,
    run,
    write_results,
)
from tests.kafka_suite.selection import Selection, list_names, read_list


def main() -> int:
    arguments = _parser().parse_args()
    options = Options(
        control=arguments.control,
        names=arguments.names,
        fold=arguments.fold,
        security=arguments.security,
        one_broker=arguments.one_broker,
        zookeeper=arguments.zookeeper,
        jobs=arguments.jobs,
        retries=arguments.retries,
        class_timeout_s=arguments.class_timeout,
        test_timeout_s=arguments.test_timeout,
        broker_output=arguments.broker_output,
        log_level=arguments.log_level,
    )
    lists = [word for word in arguments.tests if word in list_names()]
    if arguments.record and (lists != arguments.tests or options.fold or options.names):
        print("--record is for whole lists, each test as it is", file=sys.stderr)
        return 2
    if options.names:
        for result in run(Selection.of(arguments.tests), options):
            print(result.test, *([] if result.outcome == "named" else [result.outcome]))
        return 0
    if arguments.resume and not arguments.out:
        print("--resume goes on with what --out has", file=sys.stderr)
        return 2
    results = _run(Selection.of(arguments.tests), options, arguments.out, resume=arguments.resume)
    verdict = judge(results, () if options.control else read_gaps())
    print()
    for result in verdict.passed:
        if result.message:
            print(f"passed   {result.test}: {result.message}")
    for result, gap in verdict.known:
        print(f"known    {result.test}: gap {gap.number}, {gap.title}")
    for result, gap in verdict.closed:
        print(f"PASSES   {result.test}: no longer gap {gap.number}; take it out of gaps.toml")
    for result in verdict.failed:
        print(f"{result.outcome.upper():8} {result.test}: {result.message}")
    print()
    print(_table(results, lists))
    print(f"What the tests printed: {WORK / 'logs' / options.target}")
    if arguments.record:
        date = datetime.now(UTC).date().isoformat()
        figures.record(results, lists, options.target, date)
        figures.write_pages()
    return 0 if verdict.as_expected else 1


def _run(selection: Selection, options: Options, out: Path | None, *, resume: bool) -> list[Result]:
    """Runs the tests, and keeps what each class came to in a file as soon as it is known."""
    kept: list[Result] = []
    if resume and out is not None and out.exists():
        kept = [result for test, result in read_results(out).items() if test in selection.tests]
    rest = Selection(selection.tests - {result.test for result in kept}, selection.patterns)
    found: list[Result] = []

    def progress(class_name: str, results: Sequence[Result]) -> None:
        _show(class_name, results)
        found.extend(results)
        if out is not None:
            write_results(out, kept + found)

    results = kept + run(rest, options, progress)
    if out is not None:
        write_results(out, results)
    return results


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.kafka_suite", description=__doc__)
    parser.add_argument("tests", nargs="+", help="lists, classes, Class#method, full names")
    parser.add_argument("--control", action="store_true", help="run on Apache Kafka itself")
    parser.add_argument("--names", action="store_true", help="run nothing: tests and their forms")
    parser.add_argument(
        "--record", action="store_true", help="keep the figures and write the pages"
    )
    parser.add_argument(
        "--out", type=Path, help="write a line per test: name, outcome, seconds, message"
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on where --out ends: tests that it has do not run"
    )
    parser.add_argument("--jobs", type=int, default=1, help="classes at a time")
    parser.add_argument("--retries", type=int, default=0, help="of tests that fail")
    parser.add_argument(
        "--fold", action="store_true", help="one broker for tests that want several"
    )
    parser.add_argument(
        "--security", action="store_true", help="listeners and authorizers as asked for"
    )
    parser.add_argument(
        "--one-broker", action="store_true", help="no brokers for tests that want several"
    )
    parser.add_argument(
        "--zookeeper", metavar="HOST:PORT", help="brokers of a cluster meet at this ensemble"
    )
    parser.add_argument("--class-timeout", type=float, default=Options.class_timeout_s, metavar="S")
    parser.add_argument("--test-timeout", type=int, default=Options.test_timeout_s, metavar="S")
    parser.add_argument("--broker-output", action="store_true", help="log what brokers print")
    parser.add_argument("--log-level", default=Options.log_level, help="of Kafka's clients")
    return parser


def _show(class_name: str, results: Sequence[Result]) -> None:
    counts = Counter(result.outcome for result in results)
    seconds = sum(result.seconds for result in results)
    outcomes = ", ".join(f"{outcome} {count}" for outcome, count in sorted(counts.items()))
    print(f"{class_name}: {outcomes} in {seconds:.0f} s", flush=True)


def _table(results: Sequence[Result], lists: Sequence[str]) -> str:
    """The outcomes of each list, and of everything."""
    members = {name: frozenset(read_list(name)) for name in lists}
    rows = [(name, [r for r in results if r.test in tests]) for name, tests in members.items()]
    if len(rows) != 1:
        rows.append(("all", list(results)))
    lines = [f"{'list':14}{'tests':>7}{'passed':>8}{'seconds':>9}  others"]
    for name, chosen in rows:
        others = Counter(result.outcome for result in chosen if not result.passed)
        rest = ", ".join(f"{outcome} {count}" for outcome, count in sorted(others.items()))
        passed = sum(result.passed for result in chosen)
        seconds = sum(result.seconds for result in chosen)
        lines.append(f"{name:14}{len(chosen):7}{passed:8}{seconds:9.0f}  {rest}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
