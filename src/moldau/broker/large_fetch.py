"""A fetch of very many partitions: read and answered some at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from moldau.broker.broker import Broker
from moldau.broker.collector import YoungObjectsOnly
from moldau.broker.fetch_reading import Fetch
from moldau.broker.fetch_sessions import (
    PARTITIONS_PER_TURN,
    WITHOUT_PLACE_S,
    Waiting,
    are_legal,
)
from moldau.broker.request import Request
from moldau.broker.turns import others_turn
from moldau.machine import Part
from moldau.net import Pending
from moldau.replication import ParkedFetch
from moldau.wire.fetch import FetchRequest, FetchResponseWriter, fetch_response_head


class LargeFetch:
    """A fetch of so many partitions that others would have to wait for it: it is read, and its
    answer is made, some partitions at a time.
    """

    __slots__ = (
        "_deadline",
        "_fetch",
        "_is_final",
        "_parked",
        "_request",
        "_waiting",
        "_woken",
        "pending",
    )

    def __init__(self, request: Request[FetchRequest], fetch: Fetch) -> None:
        self._request = request
        self._fetch = fetch
        self._parked: ParkedFetch | None = None
        self._waiting: Waiting | None = None
        self._woken = asyncio.Event()
        self._is_final = False
        """There is nothing more to wait for."""
        self._deadline = 0.0
        self.pending = Pending()
        self.pending.on_abandoned = self._abandon

    async def begin(self) -> None:
        """Answer, or wait until that is possible."""
        request = self._request
        broker, body = request.broker, request.body
        try:
            if body.max_wait_ms > 0 and are_legal(body):
                self._waiting = broker.fetch_sessions.wait(
                    self._fetch.partition_count, body.replica_id
                )
                self._deadline = broker.clock.monotonic() + body.max_wait_ms / 1000
            with YoungObjectsOnly():
                if await self._is_enough():
                    if body.max_wait_ms > 0 and self._waiting is None:
                        await self._pause()
                    await self._answer()
                    return
        except Exception as error:
            self._fail(error)
            return
        wanted, body.topics, body.forgotten = body.topics, [], []
        broker.tasks.spawn(_let_go([topic.partitions for topic in wanted]))
        broker.tasks.spawn(request.timed(self._go_on()))

    async def _go_on(self) -> None:
        try:
            while True:
                await self._woken.wait()
                if self.pending.abandoned:
                    self._complete(None)
                    return
                with YoungObjectsOnly():
                    if await self._is_enough():
                        await self._answer()
                        return
        except Exception as error:
            self._fail(error)

    async def _is_enough(self) -> bool:
        """Read. Returns whether it is time to answer; if not, somebody will wake this fetch."""
        request, fetch = self._request, self._fetch
        broker, body = request.broker, request.body
        parked: ParkedFetch | None = None
        if self._waiting is not None and not self._is_final:
            self._woken.clear()
            left = max(self._deadline - broker.clock.monotonic(), 0.0)
            parked = self._parked = ParkedFetch(
                broker.clock,
                (),
                min_bytes=body.min_bytes,
                available=0,
                max_wait_ms=int(left * 1000),
                attempt=self._wake,
                as_follower=body.replica_id >= 0,
            )
        settled = await fetch.read_in_turns(parked)
        if parked is None or settled or fetch.size >= body.min_bytes:
            self._leave()
            return True
        size = fetch.size
        fetch.forget()
        if not self._woken.is_set():
            parked.progress(size)
        return False

    def _wake(self, is_final: bool) -> int | None:
        self._is_final = self._is_final or is_final
        self._woken.set()
        return None

    def _leave(self) -> None:
        if self._parked is not None:
            self._parked.cancel()
        if self._waiting is not None:
            self._waiting.end()

    def _abandon(self) -> None:
        """The client is gone; what is under way comes to its end, which nobody hears of."""
        self._leave()
        self._wake(True)

    async def _pause(self) -> None:
        """There is no place to wait; see ``WITHOUT_PLACE_S``."""
        delay = min(self._request.body.max_wait_ms / 1000, WITHOUT_PLACE_S)
        timer = self._request.broker.clock.call_later(delay, self._woken.set)
        await self._woken.wait()
        timer.cancel()

    async def _answer(self) -> None:
        if self.pending.abandoned:
            self._complete(None)
            return
        request = self._request
        request.charge(self._fetch)
        response = await self._fetch.told_in_turns(request.throttle_ms)
        head = fetch_response_head(
            request.version,
            request.header.correlation_id,
            request.throttle_ms,
            response.error_code,
            response.session_id,
        )
        writer = FetchResponseWriter(request.version, head, len(response.topics))
        size = 0
        for name, topic_id, partitions in response.topics:
            writer.begin_topic(name, topic_id, len(partitions))
            for start in range(0, len(partitions), PARTITIONS_PER_TURN):
                some = partitions[start : start + PARTITIONS_PER_TURN]
                writer.put(some)
                size += len(some)
                if size >= PARTITIONS_PER_TURN:
                    size = 0
                    await others_turn()
            writer.end_topic()
        self._complete(writer.end(response.endpoints))

    def _fail(self, error: Exception) -> None:
        self._leave()
        self._complete(self._request.fail(error))

    def _complete(self, parts: Sequence[Part] | None) -> None:
        """Answer; and nothing is left that refers to each other: it is too much to wait for the
        garbage collector.
        """
        self.pending.on_abandoned = None
        self.pending.complete(parts)
        self._parked = None
        request, fetch = self._request, self._fetch
        wanted, request.body.topics = request.body.topics, []
        request.broker.tasks.spawn(_let_go([*(topic.partitions for topic in wanted), *fetch.end()]))


def free_discarded(broker: Broker) -> None:
    """Free the partitions of large sessions that have ended."""
    sessions = broker.fetch_sessions
    discarded, sessions.discarded = sessions.discarded, []
    broker.tasks.spawn(_let_go(discarded))


async def _let_go(lists: list[list[Any]]) -> None:
    """Free some items at a time: for hundreds of thousands that takes long, too."""
    for items in lists:
        while items:
            del items[-PARTITIONS_PER_TURN:]
            await others_turn()
