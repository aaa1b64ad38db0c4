"""Finding the broker that coordinates a group or a transactional id, and asking it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

from moldau.client.backoff import retrying
from moldau.client.cluster import Cluster
from moldau.client.errors import check, error_of
from moldau.errors import ErrorCode, KafkaError
from moldau.model import Node
from moldau.wire.api import ApiKey
from moldau.wire.make import make

GROUP_KEY_TYPE = 0
TRANSACTION_KEY_TYPE = 1

_MOVED = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


async def find_coordinator(
    cluster: Cluster, key: str, kind: int = GROUP_KEY_TYPE, *, within: float | None = None
) -> Node:
    """The coordinator of a group or of a transactional id.

    Asking creates the cluster's own topic for these if it is not there yet.
    """
    request = make(FindCoordinatorRequest, key_type=kind, coordinator_keys=(key,))

    async def attempt() -> Node:
        connection = await cluster.any_connection()
        answer = await connection.request(ApiKey.FIND_COORDINATOR, request)
        (found,) = answer.coordinators
        check(found.error_code, found.error_message)
        return Node(found.node_id, found.host, found.port)

    return await retrying(attempt, within=cluster.request_timeout if within is None else within)


async def ask_coordinator(
    cluster: Cluster,
    group: str,
    api: ApiKey,
    request: Any,
    codes: Callable[[Any], Collection[int]],
) -> Any:
    """The answer of the group's coordinator; ``codes`` are the answer's errors about the group."""

    async def attempt() -> Any:
        coordinator = await find_coordinator(cluster, group)
        if coordinator.id not in cluster.metadata.nodes:
            await cluster.refresh(())
        connection = await cluster.connection(coordinator.id)
        answer = await connection.request(api, request)
        for code in codes(answer):
            if code in _MOVED:
                raise error_of(code) or KafkaError(ErrorCode.NOT_COORDINATOR)
        return answer

    return await retrying(attempt, within=cluster.request_timeout)
