"""Loads on a raw socket, from requests encoded beforehand: the broker is the limit.

Every produce load checks that it was really stored: the answers carry no error, and the last one's
base offset says that each request before it was appended once.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from moldau.fetch.request import FetchParams, PartitionFetch, without_session
from moldau.model import NO_TOPIC_ID, TopicPartition
from moldau.records.builder import build_batch
from moldau.records.record import Record
from moldau.wire.api import ApiKey
from moldau.wire.fetch import encode_fetch_request
from moldau.wire.messages import decode_response, encode_request
from moldau.wire.produce import encode_produce_request

PRODUCE_VERSION = 8
FETCH_VERSION = 11
TIMEOUT_S = 60


class Outcome(NamedTuple):
    requests: int
    payload_bytes: int
    seconds: float


class LoadError(RuntimeError):
    """The broker answered with an error, or not at all."""


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


def produce_frame(topic: str, batch: bytes, acks: int = -1, partition: int = 0) -> bytes:
    parts = encode_produce_request(
        PRODUCE_VERSION, 7, "bench", None, acks, 30_000, [(topic, None, [(partition, batch)])]
    )
    return b"".join(parts)


def call(connection: socket.socket, api: ApiKey, version: int, request: object) -> Any:
    connection.sendall(encode_request(api, version, 1, "bench", request))
    return decode_response(api, version, memoryview(read_frame(connection)))[1]


def first_acknowledged_record(address: str, topic: str, batch: bytes, deadline: float) -> None:
    """Ask for a topic until it exists, produce one record and wait for its acknowledgement."""
    frame = produce_frame(topic, batch)
    while True:
        try:
            with connect(address) as connection:
                create_by_metadata(connection, topic)
                connection.sendall(frame)
                code, _ = _produce_result(read_frame(connection), topic)
                if code == 0:
                    return
        except (OSError, LoadError):
            pass
        if time.monotonic() > deadline:
            raise LoadError(f"no record was acknowledged by {address}")
        time.sleep(0.005)


def create_by_metadata(connection: socket.socket, topic: str) -> None:
    """A Metadata request (version 4) that allows the topic to be created."""
    name = topic.encode()
    body = struct.pack(">ih", 1, len(name)) + name + b"\x01"
    header = struct.pack(">hhih", ApiKey.METADATA, 4, 1, 5) + b"bench"
    connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
    read_frame(connection)


def _produce_result(answer: bytes, topic: str) -> tuple[int, int]:
    """Error code and base offset of the one partition in a version 8 answer."""
    position = 4 + 4 + 2 + len(topic.encode()) + 4
    _, code, base_offset = struct.unpack_from(">ihq", answer, position)
    return code, base_offset


def check_produced(answer: bytes, topic: str) -> None:
    code, _ = _produce_result(answer, topic)
    if code:
        raise LoadError(f"error {code}")


def produce(
    address: str, topic: str, batch: bytes, *, requests: int, in_flight: int, records: int
) -> Outcome:
    """Send ``requests`` copies of one request, ``in_flight`` at a time."""
    frame = produce_frame(topic, batch)
    with connect(address) as connection:
        connection.sendall(frame)
        first = read_frame(connection)
        code, first_offset = _produce_result(first, topic)
        if code:
            raise LoadError(f"error {code} from {address}")
        answer_size = len(first) + 4
        window = min(in_flight, requests)
        buffer = bytearray(answer_size * (window + 1))
        view = memoryview(buffer)
        started = time.perf_counter()
        connection.sendall(frame * window)
        sent, done, held = window, 0, 0
        last = b""
        while done < requests:
            count = connection.recv_into(view[held:])
            if count == 0:
                raise LoadError("the broker closed the connection")
            held += count
            whole = held // answer_size
            if not whole:
                continue
            end = whole * answer_size
            last = bytes(view[end - answer_size + 4 : end])
            view[: held - end] = view[end:held]
            held -= end
            done += whole
            more = min(whole, requests - sent)
            if more:
                connection.sendall(frame if more == 1 else frame * more)
                sent += more
        seconds = time.perf_counter() - started
    code, last_offset = _produce_result(last, topic)
    if code or last_offset != first_offset + requests * records:
        raise LoadError(f"error {code}, last offset {last_offset} from {address}")
    return Outcome(requests, requests * len(batch), seconds)


def fetch_frame(topic: str, offset: int, max_bytes: int) -> bytes:
    """A sessionless Fetch (version 11) of partition 0."""
    wanted = {TopicPartition(topic, 0): PartitionFetch(NO_TOPIC_ID, offset, max_bytes)}
    params = FetchParams(max_wait_ms=500, min_bytes=1, max_bytes=2**31 - 1)
    request = without_session(wanted).request(params)
    return encode_fetch_request(FETCH_VERSION, 1, "bench", request)


def fetch(address: str, topic: str, offsets: Sequence[int], max_bytes: int) -> Outcome:
    """Fetch ``max_bytes`` from each offset in turn; the bytes are received and thrown away."""
    frames = [fetch_frame(topic, offset, max_bytes) for offset in offsets]
    scratch = memoryview(bytearray(1 << 20))
    received = 0
    with connect(address) as connection:
        started = time.perf_counter()
        for frame in frames:
            connection.sendall(frame)
            received += _discard_frame(connection, scratch)
        seconds = time.perf_counter() - started
    if received < len(frames) * max_bytes * 0.9:
        raise LoadError(f"{received} bytes for {len(frames)} fetches of {max_bytes}")
    return Outcome(len(frames), received, seconds)


def _discard_frame(connection: socket.socket, scratch: memoryview) -> int:
    size: int = struct.unpack(">i", _read_exactly(connection, 4))[0]
    left = size
    while left:
        count = connection.recv_into(scratch[: min(left, len(scratch))])
        if count == 0:
            raise LoadError("the broker closed the connection")
        left -= count
    return size


def produce_each(
    address: str, topic: str, batch: bytes, partitions: Sequence[int], *, in_flight: int
) -> list[int]:
    """One request per partition, ``in_flight`` at a time; the error code of each."""
    frames = [produce_frame(topic, batch, partition=partition) for partition in partitions]
    codes: list[int] = []
    with connect(address) as connection:
        connection.sendall(b"".join(frames[:in_flight]))
        for index in range(len(frames)):
            codes.append(_produce_result(read_frame(connection), topic)[0])
            if index + in_flight < len(frames):
                connection.sendall(frames[index + in_flight])
    return codes
