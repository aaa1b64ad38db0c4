"""Requests encoded beforehand, raw connections, and the few calls that prepare and check a load."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

from kio.schema.create_topics.v7.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.list_offsets.v11.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kio.schema.metadata.v13.request import MetadataRequest

from moldau.errors import ErrorCode
from moldau.fetch.request import FetchParams, PartitionFetch, without_session
from moldau.model import NO_TOPIC_ID, TopicPartition
from moldau.records.builder import build_batch
from moldau.records.record import Record
from moldau.wire.api import ApiKey
from moldau.wire.fetch import encode_fetch_request
from moldau.wire.make import make
from moldau.wire.messages import decode_response, encode_request
from moldau.wire.produce import encode_produce_request

PRODUCE_VERSION = 8
FETCH_VERSION = 11
TIMEOUT_S = 300
LATEST = -1
ALL_BYTES = 2**31 - 1


class LoadError(RuntimeError):
    """The broker returned an error, or nothing at all."""


def connect(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def read_frame(connection: socket.socket) -> bytes:
    size = struct.unpack(">i", _read_exactly(connection, 4))[0]
    return _read_exactly(connection, size)


def _read_exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = connection.recv_into(view)
        if count == 0:
            raise LoadError("the broker closed the connection")
        view = view[count:]
    return bytes(data)


def batch_of(payload_size: int, record_size: int = 1000) -> bytes:
    """A batch of about ``payload_size`` bytes; one record when it is no larger than
    ``record_size``.
    """
    count = max(1, payload_size // record_size)
    value = bytes(i * 31 % 256 for i in range(min(record_size, payload_size)))
    records = [Record(i, 1_700_000_000_000 + i, None, value, ()) for i in range(count)]
    return bytes(build_batch(records))


def produce_frame(topic: str, batch: bytes, partitions: Sequence[int] = (0,)) -> bytes:
    """One Produce request, acks=all, with the batch for each of the partitions."""
    data = [(topic, None, [(partition, batch) for partition in partitions])]
    return b"".join(encode_produce_request(PRODUCE_VERSION, 7, "bench", None, -1, 30_000, data))


def fetch_frame(
    topic: str,
    offset: int,
    max_bytes: int,
    partitions: Sequence[int] = (0,),
    *,
    max_wait_ms: int = 500,
) -> bytes:
    """One Fetch request without a session: ``max_bytes`` of each of the partitions."""
    wanted = {
        TopicPartition(topic, partition): PartitionFetch(NO_TOPIC_ID, offset, max_bytes)
        for partition in partitions
    }
    params = FetchParams(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=ALL_BYTES)
    return encode_fetch_request(FETCH_VERSION, 1, "bench", without_session(wanted).request(params))


def call(address: str, api: ApiKey, version: int, request: object) -> Any:
    with connect(address) as connection:
        connection.sendall(encode_request(api, version, 1, "bench", request))
        return decode_response(api, version, memoryview(read_frame(connection)))[1]


def create_topic(
    address: str, name: str, partitions: int = 1, replicas: Sequence[int] = ()
) -> None:
    """Creates a topic and returns when each of its partitions has taken one record. ``replicas``:
    where those of every partition are, the leader first, which the address must be of.
    """
    everywhere = tuple(
        make(CreatableReplicaAssignment, partition_index=partition, broker_ids=tuple(replicas))
        for partition in range(partitions)
    )
    topic = make(
        CreatableTopic,
        name=name,
        num_partitions=-1 if replicas else partitions,
        replication_factor=-1 if replicas else 1,
        assignments=everywhere if replicas else (),
        configs=(),
    )
    request = make(
        CreateTopicsRequest, topics=(topic,), timeout=TIMEOUT_S * 1000, validate_only=False
    )
    (result,) = call(address, ApiKey.CREATE_TOPICS, 5, request).topics
    if result.error_code is not ErrorCode.NONE:
        raise LoadError(f"{name} on {address}: {result.error_code} {result.error_message}")
    produce_to_each(address, name, partitions)


def delete_topic(address: str, name: str) -> None:
    topic = make(DeleteTopicState, name=name, topic_id=None)
    request = make(DeleteTopicsRequest, topics=(topic,), timeout=TIMEOUT_S * 1000)
    (result,) = call(address, ApiKey.DELETE_TOPICS, 5, request).responses
    if result.error_code is not ErrorCode.NONE:
        raise LoadError(f"{name} on {address}: {result.error_code}")


def count_records(address: str, topic: str, partitions: int = 1) -> int:
    """Returns the sum of the end offsets: every append shows in it, and shows once."""
    each = tuple(
        make(
            ListOffsetsPartition,
            partition_index=partition,
            current_leader_epoch=-1,
            timestamp=LATEST,
        )
        for partition in range(partitions)
    )
    request = make(
        ListOffsetsRequest,
        replica_id=-1,
        isolation_level=0,
        topics=(make(ListOffsetsTopic, name=topic, partitions=each),),
        timeout=TIMEOUT_S * 1000,
    )
    (answer,) = call(address, ApiKey.LIST_OFFSETS, 6, request).topics
    total = 0
    for partition in answer.partitions:
        if partition.error_code is not ErrorCode.NONE:
            raise LoadError(f"{topic}-{partition.partition_index}: {partition.error_code}")
        total += partition.offset
    return total


def in_sync(address: str, node: int) -> int:
    """Returns of how many partitions the broker is among the in-sync replicas."""
    request = make(
        MetadataRequest,
        topics=None,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    topics = call(address, ApiKey.METADATA, 12, request).topics
    return sum(node in partition.isr_nodes for topic in topics for partition in topic.partitions)


def produce_to_each(address: str, topic: str, partitions: int, *, in_flight: int = 16) -> None:
    """One record to each partition, a request each; one that is not ready yet is asked again."""
    batch = batch_of(100)
    waiting = list(range(partitions))
    deadline = time.monotonic() + TIMEOUT_S
    while waiting:
        codes = _produce_each(address, topic, batch, waiting, in_flight)
        waiting = [partition for partition, code in zip(waiting, codes, strict=True) if code]
        if time.monotonic() > deadline:
            raise LoadError(f"{len(waiting)} partitions of {topic} take no record")


def _produce_each(
    address: str, topic: str, batch: bytes, partitions: Sequence[int], in_flight: int
) -> list[int]:
    frames = [produce_frame(topic, batch, [partition]) for partition in partitions]
    codes: list[int] = []
    with connect(address) as connection:
        connection.sendall(b"".join(frames[:in_flight]))
        for index in range(len(frames)):
            codes.append(_produce_error(read_frame(connection), topic))
            if index + in_flight < len(frames):
                connection.sendall(frames[index + in_flight])
    return codes


def check_produced(answer: bytes, topic: str) -> None:
    code = _produce_error(answer, topic)
    if code:
        raise LoadError(f"error {code}")


def _produce_error(answer: bytes, topic: str) -> int:
    """The error code of the one partition in an answer of version 8."""
    position = 4 + 4 + 2 + len(topic.encode()) + 4 + 4
    code: int = struct.unpack_from(">h", answer, position)[0]
    return code


def first_acknowledged_record(
    address: str, topic: str, deadline: float, batch: bytes | None = None
) -> None:
    """Ask for a topic until it exists, produce one record (or the batch) and wait until it is
    acknowledged.
    """
    frame = produce_frame(topic, batch or batch_of(100))
    while True:
        try:
            with connect(address) as connection:
                connection.sendall(metadata_frame(topic))
                read_frame(connection)
                connection.sendall(frame)
                check_produced(read_frame(connection), topic)
                return
        except (OSError, LoadError):
            pass
        if time.monotonic() > deadline:
            raise LoadError(f"no record was acknowledged by {address}")
        time.sleep(0.005)


def metadata_frame(topic: str) -> bytes:
    """A Metadata request (version 4) that allows the topic to be created."""
    name = topic.encode()
    body = struct.pack(">ih", 1, len(name)) + name + b"\x01"
    header = struct.pack(">hhih", ApiKey.METADATA, 4, 1, 5) + b"bench"
    return struct.pack(">i", len(header) + len(body)) + header + body
