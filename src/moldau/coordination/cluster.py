"""First things in a new store: the paths that always exist, the cluster's id and its secret."""

from __future__ import annotations

from contextlib import suppress

from moldau.coordination import paths, znodes
from moldau.coordination.errors import ConnectionLostError, NodeExistsError
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
    except (NodeExistsError, ConnectionLostError):
        # Another broker of the cluster is starting too, or nobody knows what became of it.
        for path in missing:
            await store.ensure_path(path)


async def get_cluster_id(store: CoordinationStore) -> str | None:
    (found,) = await store.get_many([paths.CLUSTER_ID])
    return znodes.decode_cluster_id(found[0]) if found is not None else None


async def ensure_cluster_id(store: CoordinationStore, proposed: str) -> str:
    """The id of this cluster; the first broker to come names it. Needs ``prepare``."""
    while (existing := await get_cluster_id(store)) is None:
        with suppress(NodeExistsError, ConnectionLostError):
            await store.create(paths.CLUSTER_ID, znodes.encode_cluster_id(proposed))
    return existing


async def get_secret(store: CoordinationStore) -> str | None:
    """Returns the secret that is kept in the store, if one is."""
    (found,) = await store.get_many([paths.CLUSTER_SECRET])
    return None if found is None else znodes.decode_secret(found[0])


async def get_secret_verifier(store: CoordinationStore) -> znodes.SecretVerifier | None:
    (found,) = await store.get_many([paths.SECRET_VERIFIER])
    return None if found is None else znodes.decode_secret_verifier(found[0])


async def ensure_secret_verifier(
    store: CoordinationStore, proposed: znodes.SecretVerifier
) -> znodes.SecretVerifier:
    """What tells whether a broker has this cluster's secret; the first one to come leaves it. Needs
    ``prepare``.
    """
    while (found := await get_secret_verifier(store)) is None:
        with suppress(NodeExistsError, ConnectionLostError):
            await store.create(paths.SECRET_VERIFIER, znodes.encode_secret_verifier(proposed))
    return found


async def ensure_secret(store: CoordinationStore, proposed: str) -> str:
    """What the brokers know each other by where nothing else is configured; the first one that
    needs it makes it. Whoever reads the store is trusted. Needs ``prepare``.
    """
    while (found := await get_secret(store)) is None:
        with suppress(NodeExistsError, ConnectionLostError):
            await store.create(paths.CLUSTER_SECRET, znodes.encode_secret(proposed))
    return found
