"""Requests over a socket, built from plain values; every answer is also read by kio.

    async with await WireClient.connect(address) as client:
        answer = await client.call(ApiKey.METADATA, 12, topics=[{"name": "t"}])

Fields that are not given have their schema's defaults. Answers come in the newest shape of their
API. kio must be able to read the same bytes in the version that was asked for, to the last one.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from itertools import count
from typing import Any, Self, TypeAlias
from uuid import UUID

from kio.serial import entity_reader

from moldau.records.batch import iter_headers
from moldau.records.builder import build_batch
from moldau.records.reader import read_records
from moldau.records.record import Record
from moldau.wire.api import SERVED, ApiKey
from moldau.wire.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    decode_fetch_response,
    encode_fetch_request,
)
from moldau.wire.messages import decode_response, encode_request, newest_class
from moldau.wire.produce import (
    PartitionProduceResult,
    ProduceResponse,
    decode_produce_response,
    encode_produce_request,
)
from moldau.wire.schema import fields_of, message_class

TIMEOUT_S = 60.0
SIZE = struct.Struct(">i")
CLIENT_ID = "tests"

Topic: TypeAlias = str | UUID
"""A topic by name (up to Produce 12 and Fetch 12) or by id (from 13 on)."""
Wanted: TypeAlias = Mapping[Topic, Mapping[int, "FetchPartition | int"]]
"""Offsets to fetch from, by topic and partition."""


class ConnectionClosedError(Exception):
    """The broker closed the connection."""


def build(kind: type, values: Mapping[str, Any]) -> Any:
    """A kio message; nested ones are given as mappings."""
    fields: dict[str, Any] = {}
    for spec in fields_of(kind):
        value = values.get(spec.name, spec.default)
        if spec.entity is not None and value is not None and not is_dataclass(value):
            if spec.is_array:
                value = tuple(build(spec.entity, one) for one in value)
            else:
                value = build(spec.entity, value)
        fields[spec.name] = tuple(value) if isinstance(value, list) else value
    unknown = values.keys() - fields.keys()
    assert not unknown, f"{kind.__name__} has no {unknown}"
    return kind(**fields)


def read_with_kio(api: ApiKey, version: int, frame: bytes) -> Any:
    """The body of a response frame, which kio reads without a byte left over."""
    kind: Any = message_class(api, version, "response")
    _, size = entity_reader(kind.__header_schema__)(frame, 0)
    body, used = entity_reader(kind)(frame, size)
    assert size + used == len(frame), f"{len(frame) - size - used} bytes too many"
    return body


class WireClient:
    """One connection. ``send`` and ``receive`` are separate, so that requests can be pipelined."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._correlation_ids = count(1)
        self.closed = False
        self.patient = False
        """Wait until a new topic can be used, where the answer does not mean that."""

    @classmethod
    async def connect(cls, address: str, limit: int = 1 << 26) -> Self:
        """``limit`` bytes of unread answers are taken from the socket, not more."""
        host, port = address.rsplit(":", 1)
        reader, writer = await asyncio.open_connection(host, int(port), limit=limit)
        return cls(reader, writer)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        self.closed = True
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    def abort(self) -> None:
        """Reset the connection, as a crashed client's kernel would."""
        self.closed = True
        linger_not = struct.pack("ii", 1, 0)
        sock: socket.socket = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_not)
        self._writer.transport.abort()

    # Bytes ---------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def end_of_requests(self) -> None:
        """Close this direction only."""
        self._writer.write_eof()

    async def read_frame(self) -> bytes:
        """The next answer without its size."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                (size,) = SIZE.unpack(await self._reader.readexactly(4))
                return await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise ConnectionClosedError from error

    async def wait_closed_by_peer(self) -> bytes:
        """What still comes before the broker closes the connection."""
        async with asyncio.timeout(TIMEOUT_S):
            try:
                return await self._reader.read()
            except ConnectionError:
                return b""

    # Any API -------------------------------------------------------------------------------------

    def send(self, api: ApiKey, version: int | None = None, **values: Any) -> int:
        """Send a request; its correlation id."""
        version = SERVED[api].newest if version is None else version
        correlation_id = next(self._correlation_ids)
        request = build(newest_class(api, "request"), values)
        self.write(encode_request(api, version, correlation_id, CLIENT_ID, request))
        return correlation_id

    async def receive(self, api: ApiKey, correlation_id: int, version: int | None = None) -> Any:
        """The next answer, which must be the one to ``correlation_id``."""
        version = SERVED[api].newest if version is None else version
        frame = await self.read_frame()
        answered, response = decode_response(api, version, frame)
        assert answered == correlation_id
        read_with_kio(api, version, frame)
        return response

    async def call(self, api: ApiKey, version: int | None = None, **values: Any) -> Any:
        return await self.receive(api, self.send(api, version, **values), version)

    # Produce and Fetch ---------------------------------------------------------------------------

    def send_produce(
        self,
        topics: Mapping[Topic, Mapping[int, bytes | bytearray | None]],
        *,
        version: int = 12,
        acks: int = -1,
        timeout_ms: int = 10_000,
        transactional_id: str | None = None,
    ) -> int:
        correlation_id = next(self._correlation_ids)
        listed = [
            (*_name_and_id(topic), list(partitions.items())) for topic, partitions in topics.items()
        ]
        for part in encode_produce_request(
            version, correlation_id, CLIENT_ID, transactional_id, acks, timeout_ms, listed
        ):
            self.write(bytes(part))
        return correlation_id

    async def receive_produce(self, correlation_id: int, version: int = 12) -> ProduceResponse:
        frame = await self.read_frame()
        answered, response = decode_produce_response(version, frame)
        assert answered == correlation_id
        read_with_kio(ApiKey.PRODUCE, version, frame)
        return response

    async def produce(
        self,
        topic: Topic,
        records: bytes | bytearray | None,
        *,
        partition: int = 0,
        version: int | None = None,
        **settings: Any,
    ) -> PartitionProduceResult:
        """Append to one partition; what became of it."""
        if version is None:
            version = 13 if isinstance(topic, UUID) else 12
        sent = self.send_produce({topic: {partition: records}}, version=version, **settings)
        response = await self.receive_produce(sent, version)
        ((name, topic_id, (result,)),) = response.topics
        assert topic in (name, topic_id)
        assert result.index == partition
        return result

    def send_fetch(
        self,
        topics: Wanted,
        *,
        version: int = 12,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 24,
        partition_max_bytes: int = 1 << 20,
        isolation_level: int = 0,
        session_id: int = 0,
        session_epoch: int = -1,
        forgotten: Mapping[Topic, Sequence[int]] | None = None,
        replica_id: int = -1,
    ) -> int:
        correlation_id = next(self._correlation_ids)
        request = FetchRequest(
            replica_id=replica_id,
            replica_epoch=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=[
                FetchTopic(
                    *_name_and_id(topic),
                    [
                        want
                        if isinstance(want, FetchPartition)
                        else FetchPartition(index, -1, want, -1, -1, partition_max_bytes)
                        for index, want in partitions.items()
                    ],
                )
                for topic, partitions in topics.items()
            ],
            forgotten=[
                (*_name_and_id(topic), list(indexes))
                for topic, indexes in (forgotten or {}).items()
            ],
        )
        self.write(encode_fetch_request(version, correlation_id, CLIENT_ID, request))
        return correlation_id

    async def receive_fetch(self, correlation_id: int, version: int = 12) -> FetchResponse:
        frame = await self.read_frame()
        answered, response = decode_fetch_response(version, frame)
        assert answered == correlation_id
        read_with_kio(ApiKey.FETCH, version, frame)
        return response

    async def fetch_all(self, topics: Wanted, *, version: int = 12, **how: Any) -> FetchResponse:
        sent = self.send_fetch(topics, version=version, **how)
        return await self.receive_fetch(sent, version)

    async def fetch(
        self,
        topic: Topic,
        offset: int | FetchPartition = 0,
        *,
        partition: int = 0,
        version: int | None = None,
        **how: Any,
    ) -> FetchedPartition:
        """Read one partition."""
        if version is None:
            version = 13 if isinstance(topic, UUID) else 12
        response = await self.fetch_all({topic: {partition: offset}}, version=version, **how)
        assert response.error_code == 0
        ((name, topic_id, (fetched,)),) = response.topics
        assert topic in (name, topic_id)
        return fetched

    # What nearly every test needs ----------------------------------------------------------------

    async def create_topic(
        self, name: str, partitions: int = 1, *, configs: Mapping[str, str] | None = None
    ) -> UUID:
        answer = await self.call(
            ApiKey.CREATE_TOPICS,
            topics=[
                {
                    "name": name,
                    "num_partitions": partitions,
                    "replication_factor": 1,
                    "configs": [
                        {"name": key, "value": value} for key, value in (configs or {}).items()
                    ],
                }
            ],
        )
        (topic,) = answer.topics
        assert topic.error_code == 0, topic
        topic_id: UUID = topic.topic_id
        while self.patient and not await self._is_led(name, partitions):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return topic_id

    async def _is_led(self, name: str, partitions: int) -> bool:
        asked = [{"partition_index": n, "timestamp": -1} for n in range(partitions)]
        answer = await self.call(
            ApiKey.LIST_OFFSETS, replica_id=-1, topics=[{"name": name, "partitions": asked}]
        )
        return all(p.error_code == 0 for topic in answer.topics for p in topic.partitions)


def _name_and_id(topic: Topic) -> tuple[str | None, UUID | None]:
    return (None, topic) if isinstance(topic, UUID) else (topic, None)


def one_batch(
    *values: bytes | None,
    timestamp: int = 1_700_000_000_000,
    key: bytes | None = b"k",
    **settings: Any,
) -> bytearray:
    """A record batch as a producer would send it."""
    return build_batch([Record(0, timestamp, key, value) for value in values], **settings)


def values_of(fetched: FetchedPartition) -> list[bytes | None]:
    """The values in the whole batches of an answer; an incomplete last one does not count."""
    return [record.value for record in records_of(fetched)]


def records_of(fetched: FetchedPartition) -> list[Record]:
    data = memoryview(bytes(fetched.records or b""))  # type: ignore[arg-type]
    return [record for position, _ in iter_headers(data) for record in read_records(data, position)]


def base_offsets(fetched: FetchedPartition) -> list[int]:
    data = memoryview(bytes(fetched.records or b""))  # type: ignore[arg-type]
    return [header.base_offset for _, header in iter_headers(data)]


def size_of(fetched: FetchedPartition) -> int:
    return len(bytes(fetched.records or b""))  # type: ignore[arg-type]


def flatten(response: FetchResponse) -> Iterable[tuple[Topic | None, FetchedPartition]]:
    for name, topic_id, partitions in response.topics:
        for partition in partitions:
            yield name if name is not None else topic_id, partition
