"""Renders the results of the compatibility tests: docs/compatibility.md, and the README's table.

    pytest tests/compat --compat-report=report.json
    python tools/compat_table.py report.json

With ``--check`` nothing is written; the exit code says whether the pages still tell the truth.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.compat import error_answers  # noqa: E402
from tests.kafka_suite import figures as suite  # noqa: E402

PAGE = ROOT / "docs/compatibility.md"
README = ROOT / "README.md"
BEGIN = "<!-- compatibility: written by make docs -->"
END = "<!-- end of compatibility -->"

TOOLS = "Kafka's tools"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FEATURES = (
    *(f"Records, {codec}" for codec in CODECS),
    "Batch near max.message.bytes",
    "Batch beyond max.message.bytes refused",
    "Read without a group",
    "Consumer group, eager",
    "Consumer group, cooperative",
    "Consumer group, consumer protocol (KIP-848)",
    "Static members",
    "Member killed",
    "Member frozen beyond its session",
    "Member busy beyond max.poll.interval.ms",
    "Broker restart under a group",
    "Topic created by first use",
    "Create topic",
    "List topics",
    "Describe topic",
    "Delete topic",
    "Create partitions",
    "Describe topic configs",
    "Alter topic configs",
    "Describe broker configs",
    "List offsets",
    "Delete records",
    "Describe cluster",
    "Describe log directories",
)
OTHERS = {
    "Error codes": (
        "About 700 bad requests are answered with the error codes and messages of Apache Kafka"
    ),
    "API versions": "Every API that is served has the version range that Apache Kafka advertises",
    "Idempotent producers": "Sequence numbers are checked as Apache Kafka does",
    "A directory of Apache Kafka is served": (
        "A directory written by Apache Kafka, stopped or killed, is served with every record"
    ),
}

Results = Mapping[tuple[str, str], bool]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()
    report = json.loads(options.report.read_text())
    results = {(row["feature"], row["client"]): row["passed"] for row in report["results"]}
    clients: dict[str, str] = report["clients"]
    pages = {PAGE: page(clients, results), README: readme(clients, results)}
    stale = [path for path, text in pages.items() if _timeless(path) != _without_versions(text)]
    if options.check:
        for path in stale:
            print(f"{path.relative_to(ROOT)} differs from this run: make docs writes it again")
        return 1 if stale else 0
    for path in stale:
        path.write_text(pages[path])
    return 0


def page(clients: Mapping[str, str], results: Results) -> str:
    versions = ", ".join(f"{name} {version}".strip() for name, version in clients.items())
    lines = [
        "# Compatibility",
        "",
        "Written by `make docs` from a run of `tests/compat`, which `make test` repeats. The same",
        "tests pass against Apache Kafka (`pytest tests/compat --target=kafka`).",
        "",
        f"Tested versions: {versions}.",
        "",
        "## Clients",
        "",
        *client_table(list(clients), results, FEATURES),
        "",
        "✓ works, – the client has no such call, ✗ fails. *Records* are keys, values and headers",
        "of every shape (null, empty, all bytes, non-ASCII, repeated header names), written by the",
        "client of the column and read back byte for byte by all clients that read without a",
        "group. A client is spared what its interface cannot express: kafka-python, aiokafka and",
        "kafkajs have no null header values, the first two no record without key and value, and",
        "kcat no zero byte in a key. kafkajs has gzip built in; snappy is a plug-in here. Group",
        "members are processes of their own: one joins, another arrives, leaves, is killed (-9) or",
        "frozen; the broker restarts. Everything written is consumed, once where nobody dies, and",
        "by the members' own accounts no partition has two owners at one time.",
        "",
        "## Apache Kafka's command line tools",
        "",
        *(
            f"- {_sign(passed)} {name}"
            for (name, kind), passed in sorted(results.items())
            if kind == TOOLS
        ),
        "",
        "## Protocol and storage",
        "",
        *other_lines(results),
        "",
        error_answers.section(),
        "",
        suite.section(),
    ]
    return "\n".join(lines) + "\n"


def readme(clients: Mapping[str, str], results: Results) -> str:
    """The README with its section replaced; a README without the markers stays as it is."""
    text = README.read_text()
    if BEGIN not in text or END not in text:
        return text
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    summary = {
        "Produce, all codecs it has": [f"Records, {codec}" for codec in CODECS],
        "Read without a group": ["Read without a group"],
        "Consumer groups": [
            "Consumer group, eager",
            "Consumer group, cooperative",
            "Static members",
            "Member killed",
            "Member frozen beyond its session",
            "Member busy beyond max.poll.interval.ms",
            "Broker restart under a group",
        ],
        "Consumer protocol (KIP-848)": ["Consumer group, consumer protocol (KIP-848)"],
        "Topics": ["Create topic", "List topics", "Describe topic", "Delete topic"],
        "Partitions": ["Create partitions"],
        "Configs": ["Describe topic configs", "Alter topic configs", "Describe broker configs"],
        "Offsets, delete records": ["List offsets", "Delete records"],
        "Cluster": ["Describe cluster", "Describe log directories"],
    }
    merged: dict[tuple[str, str], bool] = {}
    for client in clients:
        for title, features in summary.items():
            known = [results[name, client] for name in features if (name, client) in results]
            if known:
                merged[title, client] = all(known)
    section = "\n".join(client_table(list(clients), merged, tuple(summary)))
    tools = [name for (name, kind), passed in sorted(results.items()) if kind == TOOLS and passed]
    listed = ", ".join(f"`{name}`" for name in tools)
    note = f"Apache Kafka's own tools work too: {listed}."
    details = "[docs/compatibility.md](docs/compatibility.md) has the details."
    return f"{before}{BEGIN}\n{section}\n\n{note}\n{details}\n{END}{after}"


def client_table(clients: Sequence[str], results: Results, features: Sequence[str]) -> list[str]:
    lines = ["| | " + " | ".join(clients) + " |", "|---|" + ":-:|" * len(clients)]
    for feature in features:
        cells = [_sign(results.get((feature, client))) for client in clients]
        lines.append(f"| {feature} | " + " | ".join(cells) + " |")
    return lines


def other_lines(results: Results) -> list[str]:
    passed = {name: ok for (name, kind), ok in results.items() if kind in ("Protocol", "Storage")}
    return [f"- {_sign(passed[name])} {text}" for name, text in OTHERS.items() if name in passed]


def _sign(passed: bool | None) -> str:
    return "–" if passed is None else "✓" if passed else "✗"


def _timeless(path: Path) -> str:
    return _without_versions(path.read_text()) if path.exists() else ""


def _without_versions(text: str) -> str:
    """Newer clients are no reason to call the page stale."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("Tested versions:"))


if __name__ == "__main__":
    sys.exit(main())
