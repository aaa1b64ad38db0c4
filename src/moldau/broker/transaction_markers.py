"""Brings the markers of decided transactions to the leaders of their partitions.

The own broker's partitions are written at once, other brokers are asked by WriteTxnMarkers. What
does not succeed is tried again until it does, or the partition is gone; then the coordinator notes
that the transaction is complete. Who stops coordinating stops writing: the next coordinator finds
the decision in its log, and an epoch of its own makes its markers the later ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from inspect import isawaitable
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from moldau.broker.group_coordinator import OFFSETS_TOPIC
from moldau.controller import NO_LEADER
from moldau.coordinators import HostState, ShardHost
from moldau.errors import ErrorCode, KafkaError
from moldau.machine.backoff import Backoff
from moldau.model import TopicPartition
from moldau.records.control import TransactionMarker
from moldau.replication import ParkedProduce, Partition
from moldau.wire.api import ApiKey
from moldau.wire.make import make

if TYPE_CHECKING:
    from moldau.broker.broker import Broker
    from moldau.transactions.markers import Decision
    from moldau.transactions.shard import TransactionShard

log = logging.getLogger(__name__)

_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 1.0
_DONE: Final = (ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
_FENCED: Final = (ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
"""Another coordinator, or another epoch, was there before: this one is not to go on."""

Errors: TypeAlias = dict[TopicPartition, ErrorCode]
Host: TypeAlias = "ShardHost[TransactionShard]"


class TransactionMarkers:
    """``moldau.transactions.markers.Markers``, on a broker."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.broker: Broker
        """Set when it is made: it is made of its parts."""

    def write(self, decision: Decision) -> Coroutine[Any, Any, None] | None:
        host = self.broker.transactions.host_of(decision.transactional_id)
        return None if host is None else self._write(decision, host)

    async def _write(self, decision: Decision, host: Host) -> None:
        marker = TransactionMarker(
            decision.producer_id,
            decision.producer_epoch,
            decision.commit,
            host.leader_epoch,
            decision.version.bumps_epoch,
        )
        backoff = Backoff(self.broker.clock, self._random, _FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        left: Iterable[TopicPartition] = sorted(decision.partitions)
        while host.state is HostState.ACTIVE:
            try:
                errors = await self._write_to_leaders(marker, left)
            except Exception:
                # Whatever it is, nobody else would tell this decision before a change of leaders.
                log.exception("cannot write the markers of %s", decision)
                await backoff.wait()
                continue
            if any(code in _FENCED for code in errors.values()):
                log.error("a later coordinator of %s is there: %s", decision, errors)
                return
            left = [each for each, code in errors.items() if code not in _DONE]
            if not left:
                break
            await backoff.wait()
        while host.state is HostState.ACTIVE and host.shard.is_pending(decision):
            host.run(lambda shard, now_ms: shard.markers_written(decision, now_ms))
            if host.shard.is_pending(decision):  # the disk is full, or too few replicas are in sync
                await backoff.wait()

    async def _write_to_leaders(
        self, marker: TransactionMarker, partitions: Iterable[TopicPartition]
    ) -> Errors:
        """Returns what became of each partition; NONE if it is gone."""
        broker = self.broker
        errors: Errors = {}
        by_leader: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        for each in partitions:
            state = broker.metadata.partition(*each)
            if state is None:
                # A broker that is being told everything leads before it knows all topics.
                known = broker.metadata.is_complete
                errors[each] = ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif state.leader == NO_LEADER:
                errors[each] = ErrorCode.LEADER_NOT_AVAILABLE
            else:
                by_leader[state.leader].append(each)
        if by_leader.keys() <= {broker.node_id}:
            errors |= await write_markers(broker, marker, by_leader[broker.node_id])
        else:
            for written in await asyncio.gather(
                *(self._write_to(leader, marker, each) for leader, each in by_leader.items())
            ):
                errors |= written
        return errors

    async def _write_to(
        self, leader: int, marker: TransactionMarker, partitions: Sequence[TopicPartition]
    ) -> Errors:
        broker = self.broker
        if leader == broker.node_id:
            return await write_markers(broker, marker, partitions)
        registration = broker.metadata.brokers.get(leader)
        if registration is None or broker.peers is None:
            return dict.fromkeys(partitions, ErrorCode.BROKER_NOT_AVAILABLE)
        try:
            response = await broker.peers.request(
                registration,
                ApiKey.WRITE_TXN_MARKERS,
                _request(marker, partitions),
                within=broker.config.request_timeout_ms / 1000,
            )
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)
        errors = dict.fromkeys(partitions, ErrorCode.UNKNOWN_SERVER_ERROR)
        for result in response.markers:
            for topic in result.topics:
                for each in topic.partitions:
                    errors[TopicPartition(topic.name, each.partition_index)] = each.error_code
        return errors


def _request(marker: TransactionMarker, partitions: Iterable[TopicPartition]) -> Any:
    from kio.schema.write_txn_markers.v2.request import (
        WritableTxnMarker,
        WritableTxnMarkerTopic,
        WriteTxnMarkersRequest,
    )

    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        topics[topic].append(partition)
    written = make(
        WritableTxnMarker,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.commit,
        topics=tuple(
            make(WritableTxnMarkerTopic, name=topic, partition_indexes=tuple(indexes))
            for topic, indexes in topics.items()
        ),
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=2 if marker.raises_epoch else 0,
    )
    return make(WriteTxnMarkersRequest, markers=(written,))


async def write_markers(
    broker: Broker, marker: TransactionMarker, partitions: Iterable[TopicPartition]
) -> Errors:
    """Write a marker to partitions that this broker leads; returns what became of each, once it is
    committed. Offsets that were committed in the transaction hold from here on, or are gone.
    """
    errors: Errors = {}
    appended: dict[TopicPartition, tuple[Partition, int]] = {}
    answers: dict[TopicPartition, Any] = {}
    for each in partitions:
        if each.topic == OFFSETS_TOPIC:
            answers[each] = broker.groups.end_transaction(each.partition, marker)
            continue
        try:
            partition = broker.partition(each.topic, each.partition)
            info = partition.append_marker(marker, broker.clock.now_ms())
        except KafkaError as error:
            errors[each] = error.code
        else:
            appended[each] = partition, info.last_offset + 1
    errors |= await _committed(broker, appended)
    for each, answer in answers.items():
        errors[each] = await answer if isawaitable(answer) else answer
    return errors


async def _committed(
    broker: Broker, appended: Mapping[TopicPartition, tuple[Partition, int]]
) -> Errors:
    if all(partition.high_watermark >= end for partition, end in appended.values()):
        return dict.fromkeys(appended, ErrorCode.NONE)
    codes: asyncio.Future[list[ErrorCode]] = asyncio.get_running_loop().create_future()
    parked = ParkedProduce(
        broker.clock,
        tuple(appended.values()),
        timeout_ms=broker.config.request_timeout_ms,
        answer=codes.set_result,
    )
    try:
        return dict(zip(appended, await codes, strict=True))
    finally:
        parked.cancel()
