"""Any bytes in the frames of a client, sent to a whole broker in memory.

An input is a row of requests, each behind two bytes that hold its size and what else to do. Only
the connection may end of it: nothing is logged as an error, each answer is one that a client of the
version asked in can read, in the order of the requests, and others are still served.

A broker lives for some inputs, since a start takes longer than most of them; a finding that one
input does not show by itself is told with those before it.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from tests.fuzz.target import Choices, Target
from tests.support.costly_requests import modest_requests, smallest_request
from tests.support.embedded_protocol import write_assignment
from tests.support.memory_broker import PORT, MemoryBroker
from tests.support.memory_network import LoopTransport, frame
from tests.support.wire import build, one_batch, read_with_kio
from tests.unit.groups.migration.scenario import metadata

from moldau.broker.apis import APIS
from moldau.broker.routes import load_handlers
from moldau.controller import create_topics
from moldau.records.batch import HEADER_SIZE, LENGTH_OFFSET, LOG_OVERHEAD, write_crc
from moldau.wire.api import SERVED, ApiKey
from moldau.wire.errors import DecodeError
from moldau.wire.headers import read_request_header
from moldau.wire.messages import decode_response, encode_request, newest_class
from moldau.wire.produce import decode_produce_request

SEAL_BATCHES: Final = 0x8000
"""Flag of a request: lengths and CRCs of the batches in it are made right."""
LET_TIME_PASS: Final = 0x4000
"""Flag of a request: afterwards it is later."""
SIZE_MASK: Final = 0x3FFF
PASSED_S: Final = 11.0

TOPIC_ID: Final = b"id of topic t..."
"""Stands for the id of topic ``t``, which is another in every broker."""
CLIENT: Final = "fuzz"
MEMBER: Final = f"{CLIENT}-{UUID(int=0)}"
"""Stands for the id of the member that joined last, if its client has an id of this length."""

INPUTS_PER_BROKER: Final = 50
MOST_PARTITIONS: Final = 100
"""Of a broker that goes on."""
PARTITIONS_PER_REQUEST: Final = 40
"""Instead of 10,000: to make them all takes a while, and is no news."""
MOST_ANSWERED: Final = 1 << 20
MOST_MEMORY: Final = 64 << 20

SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "num.partitions": "2",
}


class ErrorLog(logging.Handler):
    """What was logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter().format(record))


class Answers(asyncio.StreamReader):
    """What a peer has got so far, without waiting for it."""

    def __init__(self) -> None:
        super().__init__()
        self.got = bytearray()
        self.is_over = False

    def feed_data(self, data: Any) -> None:
        self.got += data

    def feed_eof(self) -> None:
        self.is_over = True

    def take(self) -> Iterator[bytes]:
        while len(self.got) >= 4:
            (size,) = struct.unpack_from(">i", self.got)
            assert 0 <= size <= MOST_ANSWERED, f"an answer of {size} bytes"
            assert len(self.got) >= 4 + size, "half an answer"
            yield bytes(self.got[4 : 4 + size])
            del self.got[: 4 + size]


class Client:
    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._transport: LoopTransport = broker.network.acceptors[PORT].connect()
        self.answers = self._transport.stream = Answers()
        self.asked: list[tuple[ApiKey, int, int]] = []

    @property
    def is_closed(self) -> bool:
        return self.answers.is_over

    async def send(self, body: bytes | bytearray) -> None:
        try:
            header, _ = read_request_header(memoryview(body))
        except DecodeError:
            pass
        else:
            key = ApiKey(header.api_key)
            self.asked.append((key, header.api_version, header.correlation_id))
        self._transport.receive(frame(bytes(body)))
        await self._broker.settle()

    def receive(self) -> Iterator[tuple[ApiKey, Any]]:
        """Answers that have come, each of which kio can read."""
        for answer in self.answers.take():
            (correlation_id,) = struct.unpack_from(">i", answer)
            while True:
                assert self.asked, "an answer to nothing"
                api, version, asked = self.asked.pop(0)
                if asked == correlation_id:
                    break
                assert api is ApiKey.PRODUCE, f"{api.name} was not answered"  # acks=0
            if version in SERVED[api]:
                read_with_kio(api, version, answer)
                yield api, decode_response(api, version, answer)[1]
            else:
                assert api is ApiKey.API_VERSIONS

    async def close(self) -> None:
        self._transport.abort()
        await self._broker.settle()


class Requests(Target):
    LONGEST_INPUT = 8192

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._note)
        self._log = ErrorLog()
        self._logger = logging.getLogger("moldau")
        self._logger.addHandler(self._log)
        self._logger.propagate = False
        self._most_partitions = create_topics.MAX_PARTITIONS_PER_BATCH
        create_topics.MAX_PARTITIONS_PER_BATCH = PARTITIONS_PER_REQUEST
        self._broker: MemoryBroker | None = None
        self._topic_id = bytes(16)
        self._inputs: list[bytes] = []
        load_handlers()

    def close(self) -> None:
        self._loop.run_until_complete(self._end_broker())
        self._loop.close()
        self._logger.removeHandler(self._log)
        self._logger.propagate = True
        create_topics.MAX_PARTITIONS_PER_BATCH = self._most_partitions

    def run(self, data: bytes) -> None:
        self._inputs.append(data)
        try:
            self._loop.run_until_complete(self._run(data))
        except Exception:
            self._loop.run_until_complete(self._end_broker(is_sound=False))
            raise

    @property
    def blamed(self) -> bytes:
        return b"".join(self._inputs)

    def _note(self, _loop: object, context: Mapping[str, Any]) -> None:
        self._log.lines.append(f"{context['message']}: {context.get('exception')!r}")

    async def _run(self, data: bytes) -> None:
        broker = self._broker or await self._new_broker()
        before = _peak_memory()
        client = Client(broker)
        choices = Choices(data)
        member = b""
        while not choices.is_over and not client.is_closed:
            head = choices.number()
            body = bytearray(choices.take(head & SIZE_MASK))
            body = body.replace(TOPIC_ID, self._topic_id)
            if len(member) == len(MEMBER):
                body = body.replace(MEMBER.encode(), member)
            if head & SEAL_BATCHES:
                seal_batches(body)
            await client.send(body)
            if head & LET_TIME_PASS:
                await self._let_time_pass(broker)
            for api, answer in client.receive():
                if api is ApiKey.JOIN_GROUP:
                    member = answer.member_id.encode()
        await client.close()
        assert not self._log.lines, "\n".join(self._log.lines)
        assert _peak_memory() - before <= MOST_MEMORY, "it took too much memory"
        await self._ask_another(broker)
        if len(self._inputs) >= INPUTS_PER_BROKER or self._partitions() > MOST_PARTITIONS:
            await self._end_broker()

    async def _let_time_pass(self, broker: MemoryBroker) -> None:
        broker.clock.advance(PASSED_S)
        await broker.settle()

    async def _ask_another(self, broker: MemoryBroker) -> None:
        other = Client(broker)
        await other.send(smallest_request(ApiKey.METADATA, 12, UUID(bytes=self._topic_id))[4:])
        assert [api for api, _ in other.receive()] == [ApiKey.METADATA], "others are not served"
        await other.close()

    def _partitions(self) -> int:
        assert self._broker is not None
        return sum(map(len, self._broker.parts.replicas.topics.values()))

    async def _new_broker(self) -> MemoryBroker:
        self._broker = broker = await MemoryBroker(SETTINGS).start()
        client = await broker.connect()
        self._topic_id = (await client.create_topic("t", 2)).bytes
        await client.call(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
        await client.close()
        await broker.settle()
        return broker

    async def _end_broker(self, is_sound: bool = True) -> None:
        broker, self._broker = self._broker, None
        if broker is not None:
            await broker.stop()
        if is_sound:
            assert not self._log.lines, "\n".join(self._log.lines)
            self._inputs.clear()
        self._log.lines.clear()

    # Inputs

    def seeds(self) -> Iterable[bytes]:
        for api in APIS:
            for version in range(SERVED[api].oldest, SERVED[api].newest + 1):
                yield from _seeds_of(api, version)
        yield from conversations()


def _peak_memory() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _seeds_of(api: ApiKey, version: int) -> Iterator[bytes]:
    topic_id = UUID(bytes=TOPIC_ID)
    yield step(smallest_request(api, version, topic_id)[4:], SEAL_BATCHES)
    for request in modest_requests(api, version, topic_id, 2):
        yield step(request.frame[4:], SEAL_BATCHES)


def step(body: bytes, flags: int = 0) -> bytes:
    """A request as it stands in an input."""
    return struct.pack(">H", len(body) | flags) + body


def seal_batches(body: bytearray) -> None:
    try:
        header, at = read_request_header(memoryview(body))
        if header.api_key != ApiKey.PRODUCE or header.api_version not in SERVED[ApiKey.PRODUCE]:
            return
        request = decode_produce_request(header.api_version, memoryview(body), at)
    except DecodeError:
        return
    for topic in request.topics:
        for _, records in topic.partitions:
            if records is not None and len(records) >= HEADER_SIZE:
                struct.pack_into(">i", records, LENGTH_OFFSET, len(records) - LOG_OVERHEAD)
                write_crc(records, 0, len(records))


class Conversation:
    """Requests that follow one another, as an input."""

    def __init__(self) -> None:
        self.data = b""
        self._number = 0

    def ask(self, api: ApiKey, version: int | None = None, flags: int = 0, **values: Any) -> None:
        self._number += 1
        version = SERVED[api].newest if version is None else version
        request = build(newest_class(api, "request"), values)
        self.data += step(encode_request(api, version, self._number, CLIENT, request)[4:], flags)


def conversations() -> Iterator[bytes]:
    for talk in (_classic_group, _consumer_group, _records, _topics, _quotas):
        conversation = Conversation()
        talk(conversation)
        yield conversation.data


def _classic_group(talk: Conversation) -> None:
    group: dict[str, Any] = {"group_id": "g"}
    member = {**group, "member_id": MEMBER}
    join = {
        **group,
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": metadata("t")}],
    }
    talk.ask(ApiKey.JOIN_GROUP, 3, member_id="", **join)
    assignments = [{"member_id": MEMBER, "assignment": write_assignment({"t": [0, 1]}, 1)}]
    talk.ask(ApiKey.SYNC_GROUP, 3, generation_id=1, assignments=assignments, **member)
    talk.ask(ApiKey.HEARTBEAT, generation_id=1, **member)
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"}
    topics = [{"name": "t", "partitions": [partition]}]
    commit: dict[str, Any] = {"generation_id_or_member_epoch": 1, "topics": topics}
    talk.ask(ApiKey.OFFSET_COMMIT, 8, **commit, **member)
    talk.ask(ApiKey.JOIN_GROUP, 9, LET_TIME_PASS, member_id=MEMBER, **join)
    talk.ask(ApiKey.DESCRIBE_GROUPS, groups=["g"])
    talk.ask(ApiKey.LIST_GROUPS)
    talk.ask(
        ApiKey.OFFSET_DELETE,
        topics=[{"name": "t", "partitions": [{"partition_index": 0}]}],
        **group,
    )
    talk.ask(ApiKey.LEAVE_GROUP, 5, members=[{"member_id": MEMBER}], **group)
    talk.ask(ApiKey.DELETE_GROUPS, groups_names=["g"])


def _consumer_group(talk: Conversation) -> None:
    member = {"group_id": "c", "member_id": "m"}
    beat: dict[str, Any] = {**member, "rebalance_timeout": 10_000}
    talk.ask(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        member_epoch=0,
        subscribed_topic_names=["t"],
        topic_partitions=[],
        **beat,
    )
    talk.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, member_epoch=1, subscribed_topic_regex="t.*", **beat)
    topic_id = UUID(bytes=TOPIC_ID)
    owned = [{"topic_id": topic_id, "partitions": [0, 1]}]
    talk.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, member_epoch=1, topic_partitions=owned, **beat)
    talk.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, group_ids=["c"])
    talk.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, flags=LET_TIME_PASS, member_epoch=-1, **beat)
    talk.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, flags=LET_TIME_PASS, group_ids=["c"])


def _records(talk: Conversation) -> None:
    partition = {"index": 0, "records": bytes(one_batch(b"v", b"w"))}
    topic_id = UUID(bytes=TOPIC_ID)
    topics = [{"topic_id": topic_id, "partition_data": [partition]}]
    for acks in (1, -1, 0):
        talk.ask(ApiKey.PRODUCE, acks=acks, timeout=1000, topic_data=topics)
    places = [{"partition_index": 0, "timestamp": time} for time in (-1, -2, -3, 1_700_000_000_000)]
    for place in places:
        talk.ask(ApiKey.LIST_OFFSETS, replica_id=-1, topics=[{"name": "t", "partitions": [place]}])
    cut = [{"name": "t", "partitions": [{"partition_index": 0, "offset": 1}]}]
    talk.ask(ApiKey.DELETE_RECORDS, timeout=1000, topics=cut)
    talk.ask(ApiKey.INIT_PRODUCER_ID, transaction_timeout=1000, producer_id=-1, producer_epoch=-1)


def _topics(talk: Conversation) -> None:
    new = {"name": "u", "num_partitions": 1, "replication_factor": 1}
    talk.ask(ApiKey.CREATE_TOPICS, topics=[new], timeout=1000)
    more = {"name": "u", "count": 3, "assignments": None}
    talk.ask(ApiKey.CREATE_PARTITIONS, topics=[more], timeout=1000, validate_only=False)
    compact = {"name": "cleanup.policy", "config_operation": 0, "value": "compact"}
    changed = {"resource_type": 2, "resource_name": "u", "configs": [compact]}
    talk.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=[changed], validate_only=False)
    asked = {"resource_type": 2, "resource_name": "u", "configuration_keys": None}
    talk.ask(ApiKey.DESCRIBE_CONFIGS, resources=[asked])
    talk.ask(ApiKey.DELETE_TOPICS, topics=[{"name": "u"}], timeout=1000)


def _quotas(talk: Conversation) -> None:
    entity = [{"entity_type": "client-id", "entity_name": CLIENT}]
    ops = [{"key": "request_percentage", "value": 0.01, "remove": False}]
    entries = [{"entity": entity, "ops": ops}]
    talk.ask(ApiKey.ALTER_CLIENT_QUOTAS, entries=entries, validate_only=False)
    parts = [{"entity_type": "client-id", "match_type": 2, "match": None}]
    talk.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, components=parts, strict=False)
    talk.ask(ApiKey.METADATA, flags=LET_TIME_PASS, topics=None)
    talk.ask(ApiKey.METADATA, flags=LET_TIME_PASS, topics=None)
