"""One turn of the coordinator: what a request or a deadline leads to, collected on the way.

Some answers hold whatever becomes of the turn's records (a fenced member stays fenced), others only
once the records are stored. A turn keeps them apart, so that the outcome knows what to answer if
the append fails. There is nothing to take back then: what is stored changes when a record is
replayed. But the group has to go on in another way than it would have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.errors import ErrorCode
from moldau.groups.records import to_record
from moldau.outcome import Outcome, Reply, append_error
from moldau.wire.stored.group_records import GroupMetadataKey, GroupMetadataValue

OnFailure = Callable[["Turn", ErrorCode], None]
"""How a group goes on without what could not be stored; answers go into the turn it is given."""


class Turn:
    __slots__ = ("_certain", "_if_stored", "_on_failure", "_values", "now_ms")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self._values: dict[str, GroupMetadataValue] = {}
        self._certain: list[Reply] = []
        self._if_stored: list[Reply] = []
        self._on_failure: list[OnFailure] = []

    def reply(self, token: object, response: Any) -> None:
        """An answer that holds in any case."""
        self._certain.append(Reply(token, response))

    def reply_if_stored(
        self, token: object, response: Any, otherwise: Callable[[ErrorCode], Any]
    ) -> None:
        """An answer that holds once the records of this turn are stored."""
        self._if_stored.append(Reply(token, response))
        self._on_failure.append(lambda turn, code: turn.reply(token, otherwise(code)))

    def store(self, group_id: str, value: GroupMetadataValue, on_failure: OnFailure) -> None:
        """What shall be stored of a group from now on; at most once in a turn."""
        assert group_id not in self._values, "a group is stored once in a turn"
        self._values[group_id] = value
        self._on_failure.append(on_failure)

    def is_storing(self, group_id: str) -> bool:
        return group_id in self._values

    def outcome(self) -> Outcome:
        return Outcome(
            records=[
                to_record(GroupMetadataKey(group_id), value)
                for group_id, value in self._values.items()
            ],
            replies=self._certain + self._if_stored,
            on_failure=self._failed if self._values else None,
        )

    def _failed(self, code: ErrorCode) -> list[Reply]:
        aftermath = Turn(self.now_ms)
        for go_on in reversed(self._on_failure):
            go_on(aftermath, append_error(code))
        assert not aftermath._values, "when nothing can be stored, nothing more is"
        return self._certain + aftermath._certain
