"""The broker that coordinates a group or a transactional id: found when needed, and looked for
again when it has moved."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

from moldau.client.backoff import retrying
from moldau.client.cluster import Cluster, Lane
from moldau.client.errors import ClientError, UnsupportedApiError
from moldau.errors import ErrorCode, KafkaError
from moldau.model import Node
from moldau.net.broker_connection import BrokerConnection
from moldau.request_errors import check, error_of
from moldau.wire.api import ApiKey
from moldau.wire.make import make

logger: Final = logging.getLogger(__name__)

T = TypeVar("T")

GROUP_KEY_TYPE: Final = 0
TRANSACTION_KEY_TYPE: Final = 1

_KINDS: Final = {GROUP_KEY_TYPE: "group", TRANSACTION_KEY_TYPE: "transactional id"}
_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class Coordinator:
    """Of one group or one transactional id."""

    def __init__(
        self,
        cluster: Cluster,
        key: str,
        kind: int = GROUP_KEY_TYPE,
        *,
        within: float | None = None,
    ) -> None:
        self.key = key
        self._cluster = cluster
        self._kind = kind
        self._within = within
        self._node: int | None = None
        self._finding = asyncio.Lock()

    async def ask(
        self, api: ApiKey, request: Any, *, lane: Lane = "coordinator", within: float | None = None
    ) -> Any:
        """One attempt; errors in the answer are the caller's business (see ``check``)."""
        return await self.run(
            lambda connection: connection.request(api, request, within=within), lane=lane
        )

    async def run(
        self, ask: Callable[[BrokerConnection], Awaitable[T]], *, lane: Lane = "coordinator"
    ) -> T:
        """One attempt of what ``ask`` does; a broker that proves to be the wrong one is forgotten.

        A broker that cannot be reached, or has left the cluster, may have been replaced too.
        """
        node = await self._find()
        try:
            return await ask(await self._cluster.connection(node, lane))
        except UnsupportedApiError:
            raise
        except KafkaError as error:
            if isinstance(error, ClientError) or error.code in _MOVED:
                self._forget(error)
            raise

    def check(self, code: int, message: str | None = None) -> None:
        """Raise what the coordinator answered; one that is not it is forgotten."""
        error = error_of(code, message)
        if error is not None:
            if error.code in _MOVED:
                self._forget(error)
            raise error

    async def _find(self) -> int:
        async with self._finding:
            if self._node is None:
                coordinator = await find_coordinator(
                    self._cluster, self.key, self._kind, within=self._within
                )
                await self._cluster.refresh(())
                self._node = coordinator.id
                logger.debug("%s is coordinated by broker %d", self, coordinator.id)
            return self._node

    def _forget(self, error: KafkaError) -> None:
        if self._node is not None:
            logger.info(
                "%s: broker %d is no coordinator any more (%s); looking for the next",
                self,
                self._node,
                error.message,
            )
        self._node = None

    def __str__(self) -> str:
        return f"{_KINDS[self._kind]} {self.key}"


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
        (coordinator,) = answer.coordinators
        check(coordinator.error_code, coordinator.error_message)
        return Node(coordinator.node_id, coordinator.host, coordinator.port)

    limit = cluster.request_timeout if within is None else within
    return await retrying(attempt, cluster.backoff(limit))
