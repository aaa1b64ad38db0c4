"""How administrative requests reach a broker: the cluster, the time allowed, and who is asked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

from moldau.client.backoff import Backoff, retrying
from moldau.client.cluster import Cluster
from moldau.client.routing import Ask, ask_each, ask_leaders
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition
from moldau.request_errors import check, error_of
from moldau.wire.api import ApiKey
from moldau.wire.make import make

V = TypeVar("V")

GROUP: Final = 0
TRANSACTION: Final = 1

_MOVED: Final = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}

_BATCHED_SINCE: Final = 4
"""FindCoordinator takes several keys from this version on (KIP-699)."""


class Caller(NamedTuple):
    cluster: Cluster
    within: float
    """Seconds for a whole call with all its attempts (``default.api.timeout.ms``)."""

    @property
    def timeout_ms(self) -> int:
        """What requests that wait on the server's side are told."""
        return round(min(self.within, self.cluster.request_timeout) * 1000)

    @property
    def _backoff(self) -> Backoff:
        """For one call: its time begins now."""
        return self.cluster.backoff(self.within)

    async def refresh(self, topics: Collection[str] | None) -> None:
        await retrying(lambda: self.cluster.refresh(topics), self._backoff)

    async def any_broker(self, api: ApiKey, request: Any) -> Any:
        async def attempt() -> Any:
            connection = await self.cluster.any_connection()
            return await connection.request(api, request)

        return await retrying(attempt, self._backoff)

    async def broker(
        self,
        node_id: int,
        api: ApiKey,
        request: Any,
        failed: Callable[[Any], int] = lambda _: ErrorCode.NONE,
    ) -> Any:
        """Ask this broker and no other; ``failed`` returns the error code of a whole answer."""

        async def attempt() -> Any:
            if node_id not in self.cluster.metadata.nodes:
                await self.cluster.refresh(())
                if node_id not in self.cluster.metadata.nodes:
                    raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"There is no broker {node_id}")
            connection = await self.cluster.connection(node_id)
            answer = await connection.request(api, request)
            check(failed(answer))
            return answer

        return await retrying(attempt, self._backoff)

    async def controller(
        self, api: ApiKey, request: Any, codes: Callable[[Any], Collection[int]]
    ) -> Any:
        """Ask the controller; ``codes`` are the errors of an answer, where NOT_CONTROLLER hides."""

        async def attempt() -> Any:
            connection = await self.cluster.controller_connection()
            answer = await connection.request(api, request)
            if ErrorCode.NOT_CONTROLLER in codes(answer):
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "The controller has moved")
            return answer

        async def learn_controller(_: KafkaError) -> None:
            await self.cluster.refresh(())

        return await retrying(attempt, self._backoff, recover=learn_controller)

    async def leaders(
        self, wanted: Mapping[TopicPartition, V], ask: Ask[TopicPartition, V]
    ) -> dict[TopicPartition, Any]:
        return await ask_leaders(self.cluster, wanted, ask, within=self.within)

    async def coordinators(
        self, wanted: Mapping[str, V], ask: Ask[str, V], *, kind: int = GROUP
    ) -> dict[str, Any]:
        """Ask the coordinators of groups or transactional ids."""

        async def locate(keys: Collection[str]) -> dict[str, int | KafkaError]:
            return await self._find_coordinators(sorted(keys), kind)

        return await ask_each(wanted, locate, ask, self._backoff)

    async def coordinator(
        self, group: str, api: ApiKey, request: Any, codes: Callable[[Any], Collection[int]]
    ) -> Any:
        """One request about one group; ``codes`` are the errors of an answer."""

        async def ask(node_id: int, _: dict[str, None]) -> dict[str, Any]:
            connection = await self.cluster.connection(node_id)
            answer = await connection.request(api, request)
            moved = [code for code in codes(answer) if code in _MOVED]
            return {group: error_of(moved[0]) if moved else answer}

        answer = (await self.coordinators({group: None}, ask))[group]
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    async def _find_coordinators(
        self, keys: Sequence[str], kind: int
    ) -> dict[str, int | KafkaError]:
        connection = await self.cluster.any_connection()
        batched = connection.version_of(ApiKey.FIND_COORDINATOR) >= _BATCHED_SINCE
        coordinators: dict[str, int | KafkaError] = {}
        for group in [keys] if batched else [[key] for key in keys]:
            request = make(FindCoordinatorRequest, key_type=kind, coordinator_keys=tuple(group))
            answer = await connection.request(ApiKey.FIND_COORDINATOR, request)
            for key, result in zip(group, answer.coordinators, strict=True):
                error = error_of(result.error_code, result.error_message)
                coordinators[result.key or key] = result.node_id if error is None else error
        unknown = {node for node in coordinators.values() if isinstance(node, int)}
        if unknown - self.cluster.metadata.nodes.keys():
            await self.cluster.refresh(())
        return coordinators
