"""The broker that coordinates the group: found when needed, looked for again when it has moved."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from moldau.client.cluster import Cluster, Lane
from moldau.client.coordinators import find_coordinator
from moldau.client.errors import ClientError, UnsupportedApiError, error_of
from moldau.errors import ErrorCode, KafkaError
from moldau.wire.api import ApiKey

logger: Final = logging.getLogger(__name__)

_MOVED: Final = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}


class GroupCoordinator:
    def __init__(self, cluster: Cluster, group: str) -> None:
        self.group = group
        self._cluster = cluster
        self._node: int | None = None
        self._finding = asyncio.Lock()

    async def ask(
        self, api: ApiKey, request: Any, *, lane: Lane = "coordinator", within: float | None = None
    ) -> Any:
        """One attempt; errors in the answer are the caller's business (see ``check``)."""
        node = await self._find()
        try:
            connection = await self._cluster.connection(node, lane)
            return await connection.request(api, request, within=within)
        except UnsupportedApiError:
            raise
        except ClientError as error:
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
                found = await find_coordinator(self._cluster, self.group)
                await self._cluster.refresh(())
                self._node = found.id
                logger.debug("group %s is coordinated by broker %d", self.group, found.id)
            return self._node

    def _forget(self, error: KafkaError) -> None:
        if self._node is not None:
            logger.info(
                "group %s: broker %d is no coordinator any more (%s); looking for the next",
                self.group,
                self._node,
                error.message,
            )
        self._node = None
