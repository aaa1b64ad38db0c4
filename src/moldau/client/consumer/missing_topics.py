"""Topics that a consumer wants to read and that are not there: said once, and looked for again.

A consumer waits for its topics, which may be created later; but nobody should have to guess why
nothing comes. Topics that cannot be read at all (a name that none can have, no permission) are an
error of the next poll.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final

from moldau.client.cluster import Cluster
from moldau.client.metadata import ClusterMetadata
from moldau.client.settings import ConsumerSettings
from moldau.errors import ErrorCode, KafkaError

logger: Final = logging.getLogger(__name__)


class MissingTopics:
    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        failed: Callable[[KafkaError], None],
    ) -> None:
        self._cluster = cluster
        self._may_create = settings.allow_auto_create_topics
        self._pause = settings.retry_backoff_max_ms / 1000
        self._failed = failed
        self._since: dict[str, float] = {}
        """When a topic was first found missing."""
        self._told: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    def look(self, metadata: ClusterMetadata, wanted: Collection[str]) -> None:
        """There is a new picture of the cluster, in which these topics should be."""
        loop = asyncio.get_running_loop()
        missing = {name: metadata.errors[name] for name in wanted if name in metadata.errors}
        self._since = {name: self._since.get(name, loop.time()) for name in missing}
        self._told &= missing.keys()
        for name, error in missing.items():
            if name not in self._told and self._is_certain(name, error, loop.time()):
                self._told.add(name)
                self._tell(name, error)
        if self._timer is None and any(error.retriable for error in missing.values()):
            self._timer = loop.call_later(self._pause, self._look_again)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _is_certain(self, name: str, error: KafkaError, now: float) -> bool:
        """Our own question may be creating it: then it is there a moment later."""
        return not (error.retriable and self._may_create) or now - self._since[name] >= self._pause

    def _tell(self, name: str, error: KafkaError) -> None:
        if not error.retriable:
            self._failed(error)
            return
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            what = f"cannot be read yet ({error.code.name})"
        elif self._may_create:
            what = "does not exist, and the cluster does not create it by itself"
        else:
            what = "does not exist, and allow.auto.create.topics is false"
        logger.warning("topic %r %s; it is waited for", name, what)

    def _look_again(self) -> None:
        self._timer = None
        self._cluster.request_update()
