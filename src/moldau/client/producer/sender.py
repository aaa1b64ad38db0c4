"""Sends batches to the leaders of their partitions until each is stored or has failed.

Driven by callbacks on the event loop rather than by a task: ``run`` looks at what is due, sends it,
and arms a timer for what is due next; every answer, new picture of the cluster or opened connection
runs it again. A request to a broker has at most one batch of each partition that the broker leads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final
from uuid import UUID

from moldau.client.cluster import Cluster
from moldau.client.errors import AuthenticationError, ClosedError, ConnectionLostError
from moldau.client.metadata import NO_LEADER, ClusterMetadata
from moldau.client.producer.accumulator import NEVER, Accumulator
from moldau.client.producer.answers import (
    METADATA_IS_OLD,
    Results,
    error_in,
    results_by_partition,
)
from moldau.client.producer.batch import ProducerBatch
from moldau.client.producer.identity import ProducerIdentity
from moldau.client.producer.metrics import ProducerMetrics
from moldau.client.producer.outcomes import Outcomes
from moldau.client.producer.queue import PartitionQueue, TopicState
from moldau.client.producer.topics import update_topic
from moldau.client.settings import ProducerSettings
from moldau.errors import ErrorCode, KafkaError
from moldau.model import TopicPartition
from moldau.net.broker_connection import BrokerConnection, Parts
from moldau.wire.api import ApiKey
from moldau.wire.errors import ProtocolError
from moldau.wire.produce import (
    ProduceResponse,
    decode_produce_response,
    encode_produce_request,
)

logger: Final = logging.getLogger("moldau.client.producer")

Load = list[tuple[PartitionQueue, ProducerBatch]]
"""The batches of one request."""


class NodeState:
    """A broker, as the sender sees it."""

    __slots__ = ("in_flight", "muted_until", "node_id", "waiting")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.waiting: asyncio.Task[None] | None = None
        """For a connection, or for room in its socket."""
        self.in_flight = 0
        self.muted_until = 0.0


class Sender:
    """Runs on one event loop; ``wake`` may be called from any thread."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        outcomes: Outcomes,
        identity: ProducerIdentity | None,
        settings: ProducerSettings,
        metrics: ProducerMetrics,
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._outcomes = outcomes
        self._identity = identity
        self._settings = settings
        self._metrics = metrics
        self._time = cluster.machine.clock.monotonic
        self._timeout = settings.request_timeout_ms / 1000
        self._most_in_flight = settings.max_in_flight_requests_per_connection
        self._one_at_a_time = identity is None and self._most_in_flight == 1
        self._nodes: dict[int, NodeState] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER
        self._stopped = False
        self.need_identity: Callable[[], object] = lambda: None
        """Called when batches wait for a producer id."""
        self.admits: Callable[[PartitionQueue], bool] = lambda _: True
        """Whether a partition's batches may go now; a transaction may have to learn of it first."""
        self.produce_at_most: int | None = None
        """The newest version of Produce to use."""
        cluster.on_update.append(self._cluster_updated)

    # Running

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.schedule()

    def stop(self) -> None:
        """Send nothing any more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for node in self._nodes.values():
            if node.waiting is not None:
                node.waiting.cancel()
        self._cluster.on_update.remove(self._cluster_updated)

    def call_from_thread(self, callback: Callable[[], object]) -> None:
        """Run something on the sender's loop, from any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(callback)

    def schedule(self) -> None:
        """Run in the loop's next turn."""
        if not self._scheduled and self._loop is not None and not self._stopped:
            self._scheduled = True
            self._loop.call_soon(self.run)

    def run(self) -> None:
        """Send what is due and arrange for what is due next."""
        self._scheduled = False
        if self._stopped:
            return
        try:
            self._run(self._time())
        except Exception as error:
            # No record may be left without a fate, whatever is wrong with us.
            logger.exception("the sender failed; all records that wait fail with it")
            broken = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The sender failed: {error!r}")
            self._outcomes.fail_all(broken, self._time())

    def _run(self, now: float) -> None:
        deadline = self._outcomes.expire(now)
        accumulator = self._accumulator
        by_leader: dict[int, list[PartitionQueue]] = {}
        with accumulator.home.lock:
            # A batch that is begun while this runs calls the sender again, whatever it finds now.
            accumulator.wake_at = NEVER
            accumulator.wake_pending = False
            accumulator.filled = False
            for queue in accumulator.active:
                due = accumulator.due(queue)
                if due > now:
                    deadline = min(deadline, due)
                else:
                    leader = accumulator.topics[queue.topic].leaders[queue.partition]
                    by_leader.setdefault(leader, []).append(queue)
        for leader, queues in by_leader.items():
            if leader == NO_LEADER:
                self._cluster.request_update(*(queue.topic for queue in queues))
            else:
                deadline = min(deadline, self._serve(leader, queues, now))
        self._arm(deadline, now)

    def _arm(self, deadline: float, now: float) -> None:
        with self._accumulator.home.lock:
            self._accumulator.wake_at = deadline
        if self._timer is not None:
            if deadline == self._timer_at:
                return
            self._timer.cancel()
            self._timer = None
        self._timer_at = deadline
        if deadline != NEVER and self._loop is not None:
            self._timer = self._loop.call_later(max(deadline - now, 0), self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self._timer_at = NEVER
        self.run()

    # Sending

    def _serve(self, leader: int, queues: list[PartitionQueue], now: float) -> float:
        """Send to one broker as long as it may take more; returns when to come back."""
        node = self._nodes.get(leader)
        if node is None:
            node = self._nodes[leader] = NodeState(leader)
        if node.muted_until > now:
            return node.muted_until
        if self._identity is not None and not self._identity.is_known:
            self.need_identity()
            return NEVER
        connection = self._cluster.open_connection(leader, "produce")
        if connection is None:
            self._connect(node)
            return NEVER
        while node.in_flight < self._most_in_flight:
            if self._settings.acks == 0 and connection.congested:
                self._drain(node, connection)
                break
            load = self._collect(queues, now)
            if not load:
                break
            self._send(node, connection, load, now)
        return NEVER

    def _drain(self, node: NodeState, connection: BrokerConnection) -> None:
        """Without answers, only a full socket says that the broker has enough for now."""
        if node.waiting is not None and not node.waiting.done():
            return

        async def drain() -> None:
            try:
                await connection.drain()
            except KafkaError as error:
                logger.debug("%s", error.message)
            self.schedule()

        node.waiting = asyncio.create_task(drain(), name=f"drain {node.node_id}")

    def _connect(self, node: NodeState) -> None:
        if node.waiting is not None and not node.waiting.done():
            return

        async def connect() -> None:
            try:
                await self._cluster.connection(node.node_id, "produce")
            except ClosedError:
                return
            except AuthenticationError as error:
                logger.error("no login, all records fail: %s", error.message)
                self._outcomes.fail_all(error, self._time())
            except KafkaError:
                # Somebody else may lead by now.
                self._cluster.request_update()
                await asyncio.sleep(self._settings.retry_backoff_ms / 1000)
            self.schedule()

        node.waiting = asyncio.create_task(connect(), name=f"connect to {node.node_id}")

    def _collect(self, queues: list[PartitionQueue], now: float) -> Load:
        """At most one batch of each queue, as much as a request may hold."""
        accumulator = self._accumulator
        limit = self._settings.max_request_size
        load: Load = []
        size = 0
        with accumulator.home.lock:
            for queue in queues:
                if accumulator.due(queue) > now or not self._may_send(queue):
                    continue
                batch = queue.waiting[0] if queue.waiting else queue.open
                assert batch is not None
                expected = batch.builder.size if batch.data is None else len(batch.data)
                if load and size + expected > limit:
                    break
                accumulator.take(queue)
                if self._identity is not None:
                    self._identity.number(queue, batch)
                queue.outstanding += 1
                batch.attempts += 1
                load.append((queue, batch))
                size += expected
        if len(load) > 1:
            # Whoever came first this time comes last next time.
            loaded = {queue for queue, _ in load}
            queues[:] = [q for q in queues if q not in loaded] + [q for q, _ in load]
        return load

    def _may_send(self, queue: PartitionQueue) -> bool:
        identity = self._identity
        if identity is None:
            return not (self._one_at_a_time and queue.outstanding)
        batch = queue.waiting[0] if queue.waiting else queue.open
        assert batch is not None
        if not identity.may_send(queue, batch):
            return False
        if queue.must_reset:
            identity.reset(queue)
            if not identity.is_known:
                return False
        return self.admits(queue)

    def _send(self, node: NodeState, connection: BrokerConnection, load: Load, now: float) -> None:
        settings = self._settings
        topics: dict[str, tuple[str, UUID, list[tuple[int, bytearray]]]] = {}
        records = size = 0
        for queue, batch in load:
            data = self._encoded(load, queue, batch, now)
            state = self._accumulator.topics[queue.topic]
            topic = topics.setdefault(queue.topic, (queue.topic, state.topic_id, []))
            topic[2].append((queue.partition, data))
            records += batch.count
            size += len(data)
        self._metrics.sent(len(load), records, size, now)

        def encode(version: int, correlation_id: int, client_id: str) -> Parts:
            return encode_produce_request(
                version,
                correlation_id,
                client_id,
                settings.transactional_id,
                settings.acks,
                settings.request_timeout_ms,
                list(topics.values()),
            )

        try:
            if settings.acks == 0:
                connection.post_oneway(ApiKey.PRODUCE, encode)
                for queue, batch in load:
                    queue.outstanding -= 1
                    self._outcomes.stored(queue, batch, -1, -1)
                return
            version, answer = connection.post(
                ApiKey.PRODUCE, encode, within=self._timeout, at_most=self.produce_at_most
            )
        except KafkaError as error:
            for queue, batch in load:
                queue.outstanding -= 1
                self._refused(queue, batch, error, now)
            return
        node.in_flight += 1
        names = {topic_id: name for name, topic_id, _ in topics.values()}
        answer.add_done_callback(
            partial(self._answered, node, connection, version, load, names, now)
        )

    def _encoded(
        self, load: Load, queue: PartitionQueue, batch: ProducerBatch, now: float
    ) -> bytearray:
        if batch.data is not None:
            return batch.data
        try:
            return self._encode(queue, batch, now)
        except Exception:
            # Nothing of the load is under way: its partitions must not wait for an answer.
            for waiting, _ in load:
                waiting.outstanding -= 1
            raise

    def _encode(self, queue: PartitionQueue, batch: ProducerBatch, now: float) -> bytearray:
        builder = batch.builder
        before = builder.size
        if self._identity is None:
            data = builder.build()
        else:
            data = builder.build(
                producer_id=queue.producer_id,
                producer_epoch=queue.producer_epoch,
                base_sequence=batch.sequence,
                transactional=self._settings.transactional_id is not None,
            )
        batch.data = data
        if builder.compression:
            with self._accumulator.home.lock:
                queue.compressed(before, len(data))
            self._metrics.compressed(len(data) / before)
        self._metrics.queued(now - batch.created)
        return data

    # Answers

    def _answered(
        self,
        node: NodeState,
        connection: BrokerConnection,
        version: int,
        load: Load,
        names: dict[UUID, str],
        sent_at: float,
        answer: asyncio.Future[memoryview],
    ) -> None:
        node.in_flight -= 1
        now = self._time()
        for queue, _ in load:
            queue.outstanding -= 1
        try:
            frame = answer.result()
            _, response = decode_produce_response(version, frame)
            results = results_by_partition(response, names)
        except ProtocolError as error:
            self._all_refused(load, connection.failure(error), now)
            connection.abandon()
        except (OSError, asyncio.CancelledError) as error:
            lost = (
                ConnectionLostError("The producer was closed before an answer")
                if isinstance(error, asyncio.CancelledError)
                else connection.failure(error)
            )
            self._all_refused(load, lost, now)
        else:
            connection.last_used = now
            self._metrics.answered(now - sent_at)
            if response.throttle_ms:
                node.muted_until = now + response.throttle_ms / 1000
            for queue, batch in load:
                self._settle(queue, batch, results, response, now)
        self.schedule()

    def _settle(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        results: Results,
        response: ProduceResponse,
        now: float,
    ) -> None:
        result = results.get((queue.topic, queue.partition))
        error = error_in(result)
        if error is None:
            assert result is not None
            self._outcomes.stored(queue, batch, result.base_offset, result.log_append_time_ms)
            return
        self._refused(queue, batch, error, now)
        if result is not None and result.current_leader is not None:
            leader, epoch = result.current_leader
            partition = TopicPartition(queue.topic, queue.partition)
            if self._cluster.learn_leader(partition, leader, epoch, response.node_endpoints):
                batch.not_before = now  # no need to wait: we know whom to ask (KIP-951)

    def _all_refused(self, load: Load, error: KafkaError, now: float) -> None:
        for queue, batch in load:
            self._refused(queue, batch, error, now)

    def _refused(
        self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError, now: float
    ) -> None:
        if error.code in METADATA_IS_OLD:
            self._cluster.request_update(queue.topic)
        self._outcomes.refused(queue, batch, error, now)

    # The cluster

    def add_topic(self, name: str, metadata: ClusterMetadata) -> None:
        """Records may be sent to this topic from now on."""
        settings = self._settings
        state = TopicState(
            name,
            settings.batch_size,
            max(settings.max_request_size, settings.batch_size),
            settings.partitioner_adaptive_partitioning_enable,
            self._cluster.machine.random,
        )
        update_topic(state, metadata)
        self._accumulator.topics.setdefault(name, state)

    def _cluster_updated(self, metadata: ClusterMetadata) -> None:
        with self._accumulator.home.lock:
            for state in self._accumulator.topics.values():
                update_topic(state, metadata)
        self.schedule()
