"""What Kafka's own tests came to when measured (figures.json), and how the pages tell it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kafka_suite.classify import read_kinds, read_unproved
from tests.kafka_suite.expectations import read_gaps
from tests.kafka_suite.harness import Result
from tests.kafka_suite.selection import class_of, method_of, read_list
from tests.support.java import KAFKA_VERSION, ROOT

OLDER = "scala-"
FOLDED = "scala-folded"
SEVERAL_BROKERS = ("cluster", "scala-cluster")
FIGURES = Path(__file__).parent / "figures.json"
BEGIN = "<!-- kafka's own tests: written by make kafka-suite ARGS=--record -->"
END = "<!-- end of kafka's own tests -->"
PAGE = ROOT / "docs/compatibility.md"
README = ROOT / "README.md"


@dataclass(frozen=True)
class Figure:
    """How many tests of a list passed, and when that was."""

    passed: int
    date: str
    ran: int | None = None
    """How many there are a result of, where that is not the whole list."""


def record(results: Sequence[Result], lists: Sequence[str], target: str, date: str) -> None:
    """Keeps the figures of a run over whole lists."""
    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    passed = {result.test: result.passed for result in results}
    for name in lists:
        tests = read_list(name)
        ran = [passed[test] for test in tests if test in passed]
        row = {"passed": sum(ran), "date": date}
        if len(ran) < len(tests):
            row["ran"] = len(ran)
        figures.setdefault(name, {})[target] = row
    FIGURES.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")


def figure(list_name: str, target: str) -> Figure | None:
    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    row = figures.get(list_name, {}).get(target)
    return None if row is None else Figure(row["passed"], row["date"], row.get("ran"))


def section() -> str:
    """The section of docs/compatibility.md, with its markers."""
    lines = [
        BEGIN,
        "## Apache Kafka's own integration tests",
        "",
        f"The tests that Apache Kafka {KAFKA_VERSION} publishes, unchanged: only the classes that",
        "start brokers are replaced by ones that start Moldau processes (`tests/kafka_suite`).",
        "A part of `core` and `scala-core` runs in `make test`, the rest of them in `make soak`;",
        "`make kafka-suite` runs any list, with `ARGS=--control` on Apache Kafka.",
        "Tests of `cluster` and `scala-cluster` get as many brokers as they want, and a",
        "coordination process of Moldau where these meet; nothing else has to be started.",
        "",
        "| list | what it needs | tests | Apache Kafka | Moldau | what the rest needs |",
        "|---|---|--:|--:|--:|---|",
    ]
    kinds = read_kinds()
    for name in kinds:
        if name.endswith("folded"):
            continue
        cells = [name, kinds[name], str(len(read_list(name))), _control_cell(name)]
        lines.append("| " + " | ".join([*cells, _cell(name, "moldau"), _rest(name)]) + " |")
    lines += [
        "",
        "– not measured yet. Dates are those of the runs.",
        "",
        *_older_harness(kinds),
        END,
    ]
    return "\n".join(lines)


def _older_harness(kinds: Mapping[str, str]) -> list[str]:
    """What all of it comes to: lists of what a test needs overlap."""
    lists = {name: read_list(name) for name in kinds if name.startswith(OLDER) and name != FOLDED}
    tests = {test for members in lists.values() for test in members}
    needs = [
        f"{kinds[name]} ({len(members)})"
        for name, members in lists.items()
        if figure(name, "moldau") is None
    ]
    classes, methods = {class_of(test) for test in tests}, {method_of(test) for test in tests}
    return [
        f"Kafka's older harness has {len(classes)} classes with {len(methods)} tests, which run in",
        f"{len(tests)} forms. Each is in a list, but for those that Kafka itself disables or sets",
        f"apart as flaky. Moldau passes {_passed_of('scala-core')} for one broker and",
        f"{_passed_of('scala-cluster')} for several.",
        "What the others need, some of them more than one thing: " + "; ".join(needs) + ".",
    ]


def _passed_of(list_name: str) -> str:
    found = figure(list_name, "moldau")
    return f"{0 if found is None else found.passed} of the {len(read_list(list_name))}"


def _control_cell(list_name: str) -> str:
    unproved = sum(map(read_unproved().holds_for, read_list(list_name)))
    cell = _cell(list_name, "kafka")
    return f"{cell}, {unproved} not seen to pass yet" if unproved else cell


def _cell(list_name: str, target: str) -> str:
    found = figure(list_name, target)
    if found is None:
        return "–"
    of = "" if found.ran is None else f" of {found.ran} that ran"
    return f"{found.passed}{of} ({found.date})"


def _rest(list_name: str) -> str:
    if figure(list_name, "moldau") is None:
        return ""
    tests = set(read_list(list_name))
    counts = Counter({gap.title: len(tests.intersection(gap.tests)) for gap in read_gaps()})
    return "; ".join(f"{title} ({count})" for title, count in counts.items() if count)


def readme_line() -> str:
    """The line of the README, with its markers."""
    moldau, kafka = figure("core", "moldau"), figure("core", "kafka")
    if moldau is None:
        return f"{BEGIN}\n{END}"
    control = "" if kafka is None else f" (on Apache Kafka {kafka.passed})"
    count = len(read_list("core"))
    text = (
        f"Apache Kafka's own integration tests for one broker pass unchanged: "
        f"**{moldau.passed} of {count}**{control}{_several_brokers()}, "
        "[and what the rest needs](docs/compatibility.md#apache-kafkas-own-integration-tests)."
    )
    return f"{BEGIN}\n{text}\n{END}"


def _several_brokers() -> str:
    measured = [(name, figure(name, "moldau")) for name in SEVERAL_BROKERS]
    found = [(name, each) for name, each in measured if each is not None]
    if not found:
        return ""
    passed = sum(each.passed for _, each in found)
    ran = sum(len(read_list(name)) if each.ran is None else each.ran for name, each in found)
    return f"; of those for several brokers, {passed} of the {ran} that have run"


def write_pages() -> None:
    for path, text in ((PAGE, section()), (README, readme_line())):
        path.write_text(replaced(path.read_text(), text))


def replaced(page: str, text: str) -> str:
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"no markers: {BEGIN}")
    return before + text + after
