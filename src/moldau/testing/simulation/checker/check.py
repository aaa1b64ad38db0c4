"""All invariants over one history."""

from __future__ import annotations

from collections.abc import Iterator

from moldau.testing.simulation.checker.history import History
from moldau.testing.simulation.checker.offsets import check_offsets
from moldau.testing.simulation.checker.ownership import check_ownership
from moldau.testing.simulation.checker.records import check_records
from moldau.testing.simulation.checker.sessions import check_sessions
from moldau.testing.simulation.checker.topics import check_topics
from moldau.testing.simulation.checker.violation import Violation

UNEXPECTED = "error that nobody expected"


def check(history: History) -> list[Violation]:
    """Returns every broken promise; the list is empty if all were kept."""
    return [*_violations(history)]


def _violations(history: History) -> Iterator[Violation]:
    yield from check_records(history)
    yield from check_offsets(history)
    yield from check_ownership(history)
    yield from check_topics(history)
    yield from check_sessions(history)
    for at, node, text in history.errors:
        yield Violation(UNEXPECTED, f"{node}: {text}", at=at)
