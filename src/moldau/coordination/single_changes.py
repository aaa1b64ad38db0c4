"""One change at a time, for stores that make several at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from moldau.coordination.errors import ConnectionLostError, NodeExistsError
from moldau.coordination.store import (
    ANY_VERSION,
    Create,
    Delete,
    Op,
    OpResult,
    SetData,
    Stat,
    Watch,
)
from moldau.coordination.tree import check_path


class SingleChanges(ABC):
    """The part of a ``CoordinationStore`` that follows from ``multi_many`` and ``exists``."""

    @abstractmethod
    async def multi_many(
        self, batches: Sequence[Sequence[Op]]
    ) -> list[list[OpResult] | Exception]: ...

    @abstractmethod
    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None: ...

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        (answer,) = await self.multi_many([ops])
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> str:
        (made,) = await self.multi([Create(path, data, ephemeral, sequence)])
        assert isinstance(made, str)
        return made

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        (changed,) = await self.multi([SetData(path, data, version)])
        assert isinstance(changed, Stat)
        return changed

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self.multi([Delete(path, version)])

    async def ensure_path(self, path: str) -> None:
        """Make the node and its parents; others may be at the same work."""
        check_path(path)
        parts = path.split("/")
        for end in range(2, len(parts) + 1):
            await self._ensure("/".join(parts[:end]))

    async def _ensure(self, path: str) -> None:
        while await self.exists(path) is None:
            try:
                await self.create(path)
            except NodeExistsError:
                return
            except ConnectionLostError:
                continue  # it may be there or not: look again
