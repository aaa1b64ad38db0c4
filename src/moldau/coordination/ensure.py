"""Making a path where it is missing, with what every store offers."""

from __future__ import annotations

from moldau.coordination.errors import ConnectionLostError, NodeExistsError
from moldau.coordination.store import CoordinationStore
from moldau.coordination.tree import check_path


async def ensure_path(store: CoordinationStore, path: str) -> None:
    """Make the node and its parents; others may be at the same work."""
    check_path(path)
    parts = path.split("/")
    for end in range(2, len(parts) + 1):
        await _ensure(store, "/".join(parts[:end]))


async def _ensure(store: CoordinationStore, path: str) -> None:
    while await store.exists(path) is None:
        try:
            await store.create(path)
        except NodeExistsError:
            return
        except ConnectionLostError:
            continue  # it may be there or not: look again
