"""First things in a new store: the paths that always exist, and the cluster's id."""

from __future__ import annotations

from moldau.coordination import paths, znodes
from moldau.coordination.errors import NodeExistsError
from moldau.coordination.store import CoordinationStore, Create


async def prepare(store: CoordinationStore) -> None:
    """Make the persistent paths where they are missing (one transaction for a new store)."""
    wanted: list[str] = []
    for path in paths.PERSISTENT_PATHS:
        parts = path.split("/")
        wanted += ["/".join(parts[:end]) for end in range(2, len(parts) + 1)]
    wanted = list(dict.fromkeys(wanted))
    found = await store.get_many(wanted)
    missing = [path for path, node in zip(wanted, found, strict=True) if node is None]
    if not missing:
        return
    try:
        await store.multi([Create(path) for path in missing])
    except NodeExistsError:
        # Another broker of the cluster is starting too.
        for path in missing:
            await store.ensure_path(path)


async def get_cluster_id(store: CoordinationStore) -> str | None:
    (found,) = await store.get_many([paths.CLUSTER_ID])
    return znodes.decode_cluster_id(found[0]) if found is not None else None


async def ensure_cluster_id(store: CoordinationStore, proposed: str) -> str:
    """The id of this cluster; the first broker to come names it. Needs ``prepare``."""
    existing = await get_cluster_id(store)
    if existing is not None:
        return existing
    try:
        await store.create(paths.CLUSTER_ID, znodes.encode_cluster_id(proposed))
    except NodeExistsError:
        data, _ = await store.get(paths.CLUSTER_ID)
        return znodes.decode_cluster_id(data)
    return proposed
