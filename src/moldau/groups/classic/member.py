"""A member of a classic group: who it is, what it supports, and the request it has waiting."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import NamedTuple

from moldau.groups.memory import names_size, protocols_size
from moldau.wire.stored.group_records import NO_TIMEOUT, MemberMetadata

Protocols = tuple[tuple[str, bytes], ...]
"""What a member supports, best liked first: (name, metadata)."""

JoinedMember = tuple[str, str | None, bytes]
"""A member as the leader of its group is told of it: member id, instance id, metadata."""


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
    """Of these the log has the one that the group chose."""
    assignment: bytes = b""

    is_new: bool = False
    """Joined for the first time and has had no answer yet: it cannot send heartbeats, as it does
    not know its id, so its waiting counts as silence."""
    parked_join: Parked | None = None
    parked_sync: Parked | None = None

    @classmethod
    def restored(
        cls, stored: MemberMetadata, protocol_type: str, protocols: Protocols
    ) -> ClassicMember:
        """The member that a record describes."""
        has_timeout = stored.rebalance_timeout != NO_TIMEOUT
        return cls(
            member_id=stored.member_id,
            instance_id=stored.group_instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            rebalance_timeout_ms=(
                stored.rebalance_timeout if has_timeout else stored.session_timeout
            ),
            session_timeout_ms=stored.session_timeout,
            protocol_type=protocol_type,
            protocols=protocols,
            assignment=stored.assignment,
        )

    def stored(self, protocol: str, assignment: bytes) -> MemberMetadata:
        """The member as a record has it, in a group that chose this protocol."""
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=assignment,
        )

    @property
    def footprint(self) -> int:
        """What the member takes, in bytes."""
        return (
            names_size(self.member_id, self.instance_id, self.client_id, self.client_host)
            + protocols_size(self.protocols)
            + len(self.assignment)
        )

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


def vote(protocols: Protocols, candidates: Container[str]) -> str:
    """The candidate that somebody who supports these likes best."""
    for name, _ in protocols:
        if name in candidates:
            return name
    raise KeyError("none of the candidates is supported")
