"""Sorts Kafka's tests into the lists, by what they wanted of a broker and by rules (kinds.toml).

    python -m tests.kafka_suite --control --out kafka.tsv CLASS…
    python -m tests.kafka_suite --one-broker --out moldau.tsv CLASS…
    python -m tests.kafka_suite.classify kafka.tsv moldau.tsv

It is for a new release of Kafka: what does not pass on Kafka here is in no list. Classes that these
runs leave out stay where they are. Those under QuorumTestHarness are sorted apart:
``--prefix scala-``, after a run on Moldau with ``--fold``.
"""

from __future__ import annotations

import argparse
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tests.kafka_suite.harness import Result, read_results
from tests.kafka_suite.selection import LISTS, class_of, list_names, read_list

KINDS = Path(__file__).parent / "kinds.toml"


@dataclass(frozen=True)
class Rule:
    list_name: str
    reason: str
    patterns: tuple[str, ...]

    def holds_for(self, test: str) -> bool:
        return any(fnmatchcase(test, pattern) for pattern in self.patterns)


def read_kinds() -> dict[str, str]:
    """What each list is, by its name."""
    kinds: dict[str, str] = tomllib.loads(KINDS.read_text())["kinds"]
    return kinds


def read_rules() -> tuple[Rule, ...]:
    rows = tomllib.loads(KINDS.read_text())["rule"]
    return tuple(Rule(row["list"], row["reason"], tuple(row["tests"])) for row in rows)


def read_unproved() -> Rule:
    """Tests of the lists that have not been seen to pass on Apache Kafka."""
    row = tomllib.loads(KINDS.read_text())["unproved"]
    return Rule("", row["reason"], tuple(row["tests"]))


def lists_of(result: Result, rules: Sequence[Rule]) -> set[str]:
    """The lists that a test belongs to, by its result on Moldau; none for one without a broker."""
    if result.outcome in ("no-broker", "skipped"):
        return set()
    if result.outcome == "pass":
        return {"streams" if _of_streams(result) else "core"}
    lists = set()
    if result.outcome.startswith("fold-") or result.outcome == "needs-cluster":
        lists.add("cluster")
    if result.outcome == "fold-pass":
        lists.add("folded")
    rule = next((rule for rule in rules if rule.holds_for(result.test)), None)
    if rule is not None:
        lists.add(rule.list_name)
    elif result.outcome.startswith("needs-"):
        lists.add(result.outcome.removeprefix("needs-"))
    elif result.outcome == "fail":
        lists.add("streams" if _of_streams(result) else "core")
    return lists


def _of_streams(result: Result) -> bool:
    return result.test.startswith("org.apache.kafka.streams.")


def write_lists(
    kafka: Mapping[str, Result], moldau: Mapping[str, Result], prefix: str = ""
) -> None:
    lists: defaultdict[str, set[str]] = defaultdict(set)
    classes = {class_of(test) for test in moldau}
    for name in list_names():
        lists[name].update(test for test in read_list(name) if class_of(test) not in classes)
    rules = read_rules()
    for test, result in moldau.items():
        if test in kafka and kafka[test].passed:
            for name in lists_of(result, rules):
                lists[prefix + name].add(test)
    for name, tests in lists.items():
        (LISTS / f"{name}.txt").write_text("".join(f"{test}\n" for test in sorted(tests)))
        print(name, len(tests))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kafka", type=Path)
    parser.add_argument("moldau", type=Path)
    parser.add_argument("--prefix", default="", help="of the names of the lists")
    options = parser.parse_args()
    write_lists(read_results(options.kafka), read_results(options.moldau), options.prefix)
