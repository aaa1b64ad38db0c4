"""One turn of the coordinator: what a request or a deadline leads to, collected on the way.

Some answers hold whatever becomes of the turn's records (a fenced member stays fenced), others only
once the records are stored. A turn keeps them apart, so that the outcome knows what to answer if
the append fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.errors import ErrorCode
from moldau.outcome import Outcome, Record, Reply, append_error

Undo = Callable[["Turn", ErrorCode], None]
"""Takes a change back, and answers into the turn it is given."""


class Turn:
    __slots__ = ("_certain", "_records", "_stored", "_undo", "now_ms")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self._records: list[Record] = []
        self._certain: list[Reply] = []
        self._stored: list[Reply] = []
        self._undo: list[Undo] = []

    @property
    def has_records(self) -> bool:
        return bool(self._records)

    def reply(self, token: object, response: Any) -> None:
        """An answer that holds in any case."""
        self._certain.append(Reply(token, response))

    def reply_if_stored(
        self, token: object, response: Any, otherwise: Callable[[ErrorCode], Any]
    ) -> None:
        """An answer that holds once the records of this turn are stored."""
        self._stored.append(Reply(token, response))
        self._undo.append(lambda turn, code: turn.reply(token, otherwise(code)))

    def store(self, record: Record, undo: Undo | None = None) -> None:
        self._records.append(record)
        if undo is not None:
            self._undo.append(undo)

    def outcome(self) -> Outcome:
        return Outcome(
            records=self._records,
            replies=self._certain + self._stored,
            on_failure=self._failed if self._records else None,
        )

    def _failed(self, code: ErrorCode) -> list[Reply]:
        aftermath = Turn(self.now_ms)
        for undo in reversed(self._undo):
            undo(aftermath, append_error(code))
        assert not aftermath.has_records, "what failed to be stored cannot be taken back by storing"
        return self._certain + aftermath._certain
