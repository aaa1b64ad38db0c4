"""Sessions on the coordination store: its own death takes nobody's."""

from __future__ import annotations

from collections.abc import Iterator

from moldau.testing.simulation.checker.history import History
from moldau.testing.simulation.checker.violation import Violation

NO_GRACE = "session ended by a store that had only just begun to listen"


def check_sessions(history: History) -> Iterator[Violation]:
    """A store that starts again waits for everybody for as long as silence lasts at other times:
    else its crash would take every registration, and with them leaders and in-sync replicas.
    """
    for lost in history.lost_sessions:
        listened = lost.at - lost.store_began_at
        if listened < lost.timeout:
            yield Violation(
                NO_GRACE,
                f"the session of {lost.owner} was ended {listened:.3f} s after the store had "
                f"started, although silence may last for {lost.timeout:g} s",
                at=lost.at,
            )
