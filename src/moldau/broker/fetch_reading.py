"""Reading what one Fetch asks for, in one turn of the event loop or in several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias
from uuid import UUID

from moldau.broker.broker import Broker
from moldau.broker.fetch_session import SessionPartition
from moldau.broker.fetch_sessions import PARTITIONS_PER_TURN, FetchContext
from moldau.broker.follower_session import FollowerPartition
from moldau.broker.leader_hints import HINTED, current_leader, leader_endpoints
from moldau.broker.traffic import EXPECTED_OF_CONSUMERS
from moldau.broker.turns import others_turn
from moldau.errors import ErrorCode, KafkaError
from moldau.machine import FileSlice
from moldau.model import Node
from moldau.replication import ParkedFetch, Partition
from moldau.wire.fetch import FetchedPartition, FetchedTopic, FetchRequest

READ_COMMITTED: Final = 1
NO_RECORDS: Final = b""
# A partition that does not exist ends no wait for the others: whoever keeps asking for it would
# never wait again.
UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})

Reads: TypeAlias = list[tuple[SessionPartition, FetchedPartition]]
Gathered: TypeAlias = list[tuple[str | None, UUID | None, list[FetchedPartition]]]


class Response:
    __slots__ = ("endpoints", "error_code", "session_id", "topics")

    def __init__(
        self,
        error_code: int,
        session_id: int,
        topics: Sequence[FetchedTopic],
        endpoints: Sequence[Node] = (),
    ) -> None:
        self.error_code = error_code
        self.session_id = session_id
        self.topics = topics
        self.endpoints = endpoints
        """Where the leaders are that are named in it (KIP-951)."""

    @property
    def size(self) -> int:
        return 0

    def told(self, _throttle_ms: int) -> Response:
        return self


def failed(index: int, error: KafkaError) -> FetchedPartition:
    return FetchedPartition(index, error.code, records=NO_RECORDS)


class Fetch:
    """One fetch request, read as often as it takes and answered once. The session starts, or takes
    note of what was read, when it is told: not if the client's quota holds it back.
    """

    __slots__ = (
        "_body",
        "_broker",
        "_context",
        "_has_failed",
        "_leaders",
        "_listener",
        "_reads",
        "_unknown",
        "_uses_topic_ids",
        "size",
    )

    def __init__(
        self,
        broker: Broker,
        body: FetchRequest,
        context: FetchContext,
        *,
        uses_topic_ids: bool,
        listener: str,
    ) -> None:
        """``listener`` is where the client asked, and would find other brokers."""
        self._broker = broker
        self._listener = listener
        self._leaders: set[int] | None = None
        self._body = body
        self._context = context
        self._uses_topic_ids = uses_topic_ids
        self._reads: Reads = []
        self._unknown = 0
        self._has_failed = False
        self.size = 0
        """Bytes of records that were read."""

    @property
    def partition_count(self) -> int:
        return len(self._context.partitions)

    def read(self) -> bool:
        """See what is there. Returns whether waiting would be pointless."""
        self.forget()
        self._context.look()
        self._read_some(self._context.partitions)
        return self._is_settled

    async def read_in_turns(self, parked: ParkedFetch | None) -> bool:
        """As ``read``, also if the fetch ``lags``. Whoever is ``parked`` is told of everything that
        comes after a partition was read.
        """
        self.forget()
        self._context.look()
        lags = False
        partitions = self._context.partitions
        if parked is not None and self.wait_in_session(parked):
            parked = None
        for start in range(0, len(partitions), PARTITIONS_PER_TURN):
            some = partitions[start : start + PARTITIONS_PER_TURN]
            if parked is not None:
                for partition in self._local(some):
                    parked.watch(partition)
            self._read_some(some)
            lags = lags or self._lag(self._reads[start:])
            await others_turn()
        return lags or self._is_settled

    def wait_in_session(self, parked: ParkedFetch | None) -> bool:
        """A follower's session tells of progress itself, of all its partitions; returns whether
        this is one.
        """
        follower = self._context.follower
        if follower is None:
            return False
        follower.parked = parked
        return True

    def forget(self) -> None:
        """What was read is not answered."""
        self._reads = []
        self._leaders = None
        self.size = self._unknown = 0
        self._has_failed = self._context.error != 0

    def end(self) -> list[list[Any]]:
        """It is answered, and holds on to nothing. Returns what it held."""
        context, self._context = self._context, FetchContext()
        if context.session is None:
            context.known.clear()
        return [self._reads, context.partitions]

    @property
    def _is_settled(self) -> bool:
        if self._context.follower is not None:
            return self._has_failed or self._unknown > 0
        return self._has_failed or self._unknown == len(self._reads)

    def _read_some(self, partitions: list[SessionPartition]) -> None:
        room = min(self._body.max_bytes, self._broker.config.fetch_max_bytes)
        reads = self._reads
        total = self.size
        for wanted in partitions:
            answer = wanted.last_answer() or self._read_partition(
                wanted, room - total, first=total == 0
            )
            reads.append((wanted, answer))
            if isinstance(answer.records, FileSlice):
                total += answer.records.size
            elif answer.error_code in UNKNOWN:
                self._unknown += 1
            elif answer.error_code or answer.diverging_epoch is not None:
                self._has_failed = True
        self.size = total

    def _read_partition(
        self, wanted: SessionPartition, room: int, *, first: bool
    ) -> FetchedPartition:
        index = wanted.key[2]
        try:
            partition = self._partition(wanted)
            fetches = None
            if isinstance(wanted, FollowerPartition):
                wanted.watch(partition)
                fetches = wanted.fetches
            read = partition.read(
                wanted.fetch_offset,
                max(min(wanted.max_bytes, room), 0),
                current_leader_epoch=wanted.current_leader_epoch,
                last_fetched_epoch=wanted.last_fetched_epoch,
                committed_only=self._body.isolation_level == READ_COMMITTED,
                follower_id=self._body.replica_id,
                follower_epoch=self._body.replica_epoch,
                follower_log_start=wanted.log_start_offset,
                fetches=fetches,
                min_one_batch=first,
            )
        except KafkaError as error:
            if error.code not in EXPECTED_OF_CONSUMERS:
                self._broker.traffic.failed_fetches += 1
            answer = failed(index, error)
            if error.code in HINTED:
                answer.current_leader = self._current_leader(wanted)
            return answer
        answer = FetchedPartition(
            index,
            0,
            read.high_watermark,
            read.last_stable_offset,
            read.log_start_offset,
            read.aborted,
            -1,
            read.records or NO_RECORDS,
            read.diverging_epoch,
        )
        if isinstance(wanted, FollowerPartition):
            end = partition.log.log_end_offset
            wanted.was_read(answer, has_more=read.records is None and wanted.fetch_offset < end)
        elif wanted.fetch_offset >= read.high_watermark == read.last_stable_offset and (
            wanted.last_fetched_epoch < 0
        ):
            # Until the high watermark moves there is nothing, committed or not.
            wanted.remember(partition, answer)
        return answer

    def _partition(self, wanted: SessionPartition) -> Partition:
        name, topic_id, index = wanted.key
        if name is None:
            topic = self._broker.metadata.topics_by_id.get(topic_id) if topic_id else None
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            name = topic.name
        return self._broker.partition(name, index)

    def _current_leader(self, wanted: SessionPartition) -> tuple[int, int] | None:
        name, topic_id, index = wanted.key
        if name is None:
            topic = self._broker.metadata.topics_by_id.get(topic_id) if topic_id else None
            if topic is None:
                return None
            name = topic.name
        leader = current_leader(self._broker, name, index)
        if leader is not None:
            if self._leaders is None:
                self._leaders = set()
            self._leaders.add(leader[0])
        return leader

    def _endpoints(self) -> Sequence[Node]:
        leaders = self._leaders
        return () if leaders is None else leader_endpoints(self._broker, self._listener, leaders)

    def lags(self) -> bool:
        """Returns whether what was read ends with its segment: no append can ever make it more."""
        return self._lag(self._reads)

    def _lag(self, reads: Reads) -> bool:
        for wanted, answer in reads:
            if isinstance(answer.records, FileSlice):
                offset, end = wanted.fetch_offset, answer.high_watermark
                if self._body.isolation_level == READ_COMMITTED:
                    end = answer.last_stable_offset
                try:
                    if self._partition(wanted).in_later_segment(offset, end):
                        return True
                except KafkaError:
                    return True  # its disk has just failed, under another partition of the request
        return False

    def local_partitions(self) -> list[Partition]:
        """Returns the partitions whose progress matters to this fetch."""
        return self._local(self._context.partitions)

    def _local(self, wanted: Iterable[SessionPartition]) -> list[Partition]:
        found = []
        for one in wanted:
            name, topic_id, index = one.key
            if name is None:
                topic = self._broker.metadata.topics_by_id.get(topic_id) if topic_id else None
                if topic is None:
                    continue
                name = topic.name
            partitions = self._broker.replicas.topics.get(name)
            partition = partitions.get(index) if partitions is not None else None
            if partition is not None:
                found.append(partition)
        return found

    def told(self, throttle_ms: int) -> Response:
        """Returns the answer; to a client that has to hold back it has no partitions (KIP-219)."""
        topics: Gathered = []
        if not throttle_ms:
            self._begin_telling()
            _gather(topics, self._context.select(self._reads))
        context = self._context
        return Response(context.error, context.session_id, topics, self._endpoints())

    async def told_in_turns(self, throttle_ms: int) -> Response:
        topics: Gathered = []
        if not throttle_ms:
            self._begin_telling()
            for start in range(0, len(self._reads), PARTITIONS_PER_TURN):
                some = self._reads[start : start + PARTITIONS_PER_TURN]
                _gather(topics, self._context.select(some))
                await others_turn()
        context = self._context
        return Response(context.error, context.session_id, topics, self._endpoints())

    def _begin_telling(self) -> None:
        broker, context = self._broker, self._context
        replica_id = self._body.replica_id
        if context.starts_session:
            broker.fetch_sessions.start(
                context,
                uses_topic_ids=self._uses_topic_ids,
                now=broker.clock.monotonic(),
                replica_id=replica_id,
            )
        traffic = broker.traffic
        traffic.fetched_partitions += len(self._reads)
        if replica_id >= 0:
            traffic.replication_bytes_out += self.size
        else:
            traffic.bytes_out += self.size


def _gather(topics: Gathered, reads: Reads) -> None:
    """Add partitions to their topics, in their order."""
    current: tuple[str | None, UUID | None] | None = None
    partitions: list[FetchedPartition] = []
    if topics:
        last_name, last_id, partitions = topics[-1]
        current = (last_name, last_id)
    for wanted, partition in reads:
        name, topic_id, _ = wanted.key
        if (name, topic_id) != current:
            current = (name, topic_id)
            partitions = []
            topics.append((name, topic_id, partitions))
        partitions.append(partition)
