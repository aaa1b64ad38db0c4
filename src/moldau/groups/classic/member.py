"""A member of a classic group: who it is, what it supports, and the request it has waiting."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import NamedTuple

Protocols = tuple[tuple[str, bytes], ...]
"""What a member supports, best liked first: (name, metadata)."""


class Parked(NamedTuple):
    """A request that waits for the group; the version decides how its answer may look."""

    token: object
    version: int


@dataclass(slots=True)
class ClassicMember:
    member_id: str
    instance_id: str | None
    """``group.instance.id``: a member that has one is static, and keeps its place over restarts."""
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    """Joined for the first time and has had no answer yet: it cannot send heartbeats, as it does
    not know its id, so its waiting counts as silence."""
    parked_join: Parked | None = None
    parked_sync: Parked | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_excused(self) -> bool:
        """Whether silence is no sign of death: it waits for an answer of ours."""
        if self.is_new:
            return False
        return self.parked_join is not None or self.parked_sync is not None

    def metadata(self, protocol: str) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise KeyError(f"member {self.member_id} does not support {protocol}")

    def vote(self, candidates: Container[str]) -> str:
        """The candidate it likes best."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise KeyError(f"member {self.member_id} supports none of the candidates")
