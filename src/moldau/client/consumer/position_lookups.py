"""Finds the offsets that partitions wait for: committed ones, starts and ends, valid ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from moldau.client.cluster import Cluster
from moldau.client.consumer.committer import Committer
from moldau.client.consumer.partition_state import FetchState, PartitionState
from moldau.client.consumer.position import NO_EPOCH, Position
from moldau.client.consumer.reset import ResetPolicy
from moldau.client.consumer.subscription import SubscriptionState
from moldau.client.consumer.tasks import Tasks
from moldau.client.errors import (
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    unforeseen,
)
from moldau.client.offsets import epoch_ends, offsets_or_errors
from moldau.client.settings import ConsumerSettings
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition

logger: Final = logging.getLogger(__name__)

Waiting = dict[TopicPartition, PartitionState]


class PositionLookups:
    """One look-up of each kind at a time; what fails is tried again after a pause."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        subscription: SubscriptionState,
        committer: Committer | None,
        changed: Callable[[], None],
        failed: Callable[[KafkaError], None],
    ) -> None:
        self._cluster = cluster
        self._read_committed = settings.isolation_level == "read_committed"
        self._policy = ResetPolicy.parse(settings.auto_offset_reset)
        self._pause = settings.retry_backoff_ms / 1000
        self._subscription = subscription
        self._committer = committer
        self._changed = changed
        self._failed = failed
        self._now_ms = cluster.machine.clock.now_ms
        self._tasks = Tasks()
        self._running: set[FetchState] = set()

    @property
    def policy(self) -> ResetPolicy:
        return self._policy

    def step(self, now: float) -> None:
        waiting: dict[FetchState, Waiting] = {}
        for partition, state in self._subscription.partitions.items():
            if state.needs_work and now >= state.retry_at and not state.pending_revocation:
                waiting.setdefault(state.fetch_state, {})[partition] = state
        for kind, partitions in waiting.items():
            if kind not in self._running:
                self._running.add(kind)
                self._tasks.start(self._run(kind, partitions))

    def wake_at(self, now: float) -> float:
        """When something that failed may be tried again."""
        return min(
            (
                state.retry_at
                for state in self._subscription.partitions.values()
                if state.needs_work and state.retry_at > now
            ),
            default=float("inf"),
        )

    async def close(self) -> None:
        await self._tasks.cancel()

    async def _run(self, kind: FetchState, partitions: Waiting) -> None:
        work: dict[FetchState, Callable[[Waiting], Awaitable[None]]] = {
            FetchState.INITIALIZING: self._initialize,
            FetchState.AWAIT_RESET: self._reset,
            FetchState.AWAIT_VALIDATION: self._validate,
        }
        try:
            await work[kind](partitions)
        except KafkaError as error:
            self._later(partitions, error)
        except Exception as error:
            self._later(partitions, unforeseen("looking up offsets", error))
        finally:
            self._running.discard(kind)
            self._changed()

    async def _initialize(self, partitions: Waiting) -> None:
        committed = (
            {} if self._committer is None else await self._committer.committed_now(partitions)
        )
        without = []
        for partition, state in partitions.items():
            if self._is_over(partition, state, FetchState.INITIALIZING):
                continue
            last = committed.get(partition)
            if last is not None:
                epoch = NO_EPOCH if last.leader_epoch is None else last.leader_epoch
                state.seek(Position(last.offset, epoch))
                logger.debug("%s goes on at the committed offset %d", partition, last.offset)
            elif self._policy.timestamp(0) is None:
                without.append(partition)
                state.retry_later(self._now() + self._pause)
            else:
                state.request_reset(self._policy)
        if without:
            self._failed(NoOffsetForPartitionError(without))

    async def _reset(self, partitions: Waiting) -> None:
        versions = {partition: state.version for partition, state in partitions.items()}
        wanted = {}
        for partition, state in partitions.items():
            policy = state.reset_policy or self._policy
            timestamp = policy.timestamp(self._now_ms())
            if timestamp is not None:
                wanted[partition] = timestamp
        answers = await offsets_or_errors(
            self._cluster, wanted, read_committed=self._read_committed, within=0
        )
        ends = {key: -1 for key, answer in answers.items() if _is_past_the_end(answer)}
        if ends:  # by_duration, and no record is that young: new ones are
            answers |= await offsets_or_errors(
                self._cluster, ends, read_committed=self._read_committed, within=0
            )
        for partition, answer in answers.items():
            state = partitions[partition]
            if self._is_over(partition, state, FetchState.AWAIT_RESET):
                continue
            if state.version != versions[partition]:
                continue
            if isinstance(answer, KafkaError):
                self._later({partition: state}, answer)
            else:
                logger.info("%s is reset to offset %d", partition, answer.offset)
                state.seek(Position(answer.offset, answer.leader_epoch), answer.leader_epoch)

    async def _validate(self, partitions: Waiting) -> None:
        """Ask the new leaders where the epochs end that we have read (KIP-320)."""
        asked = {
            partition: (state.taken_to, state.leader_epoch, state.version)
            for partition, state in partitions.items()
            if state.taken_to is not None
        }
        answers = await epoch_ends(
            self._cluster,
            {key: (place.offset_epoch, epoch) for key, (place, epoch, _) in asked.items()},
            within=0,
        )
        for partition, answer in answers.items():
            state, (taken_to, _, version) = partitions[partition], asked[partition]
            if self._is_over(partition, state, FetchState.AWAIT_VALIDATION):
                continue
            if state.version != version:
                continue
            if not isinstance(answer, KafkaError):
                self._compare(state, taken_to, *answer)
            elif answer.code == ErrorCode.UNSUPPORTED_VERSION:
                state.validated(taken_to)
            else:
                self._later({partition: state}, answer)

    def _compare(self, state: PartitionState, taken_to: Position, epoch: int, end: int) -> None:
        if epoch >= 0 and end >= taken_to.offset:
            state.validated(taken_to)
            return
        partition = state.partition
        described = f"{partition}: the new leader's log ends at {end}, before {taken_to.offset}"
        if self._policy.timestamp(0) is None:
            state.retry_later(float("inf"))
            self._failed(
                OffsetOutOfRangeError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{described}, and auto.offset.reset is none",
                    {partition: taken_to.offset},
                )
            )
        elif epoch < 0 or end < 0:
            logger.warning("%s: the new leader knows nothing of what was read; reset", partition)
            state.request_reset(self._policy)
        else:
            logger.warning("%s; going on there", described)
            state.truncate(Position(end, epoch))

    def _later(self, partitions: Waiting, error: KafkaError) -> None:
        """Try again after a pause, with newer metadata; or tell the user."""
        at = self._now() + self._pause
        for state in partitions.values():
            state.retry_later(at)
        if error.retriable or error.code == ErrorCode.BROKER_NOT_AVAILABLE:
            logger.debug("offsets of %d partitions later: %s", len(partitions), error.message)
            self._cluster.request_update(*(partition.topic for partition in partitions))
        elif error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._failed(error)

    def _is_over(
        self, partition: TopicPartition, state: PartitionState, expected: FetchState
    ) -> bool:
        """Returns whether somebody else has decided meanwhile."""
        return (
            self._subscription.partitions.get(partition) is not state
            or state.fetch_state is not expected
        )

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _is_past_the_end(answer: object) -> bool:
    return not isinstance(answer, KafkaError) and getattr(answer, "offset", 0) < 0
