"""Microseconds per message of the wire codecs, for one topic with one partition.

Run it as ``python -m bench.wire``. Numbers of different runs on a busy machine differ by half;
compare versions of the code in one sitting.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v13.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from moldau.machine.disk import FileSlice
from moldau.machine.real.disk import open_for_reading
from moldau.wire.api import ApiKey
from moldau.wire.api_versions import encode_api_versions_response
from moldau.wire.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    decode_fetch_request,
    decode_fetch_response,
    encode_fetch_request,
    encode_fetch_response,
)
from moldau.wire.headers import read_request_header
from moldau.wire.make import make
from moldau.wire.messages import decode_request, decode_response, encode_request, encode_response
from moldau.wire.produce import (
    PartitionProduceResult,
    decode_produce_request,
    decode_produce_response,
    encode_produce_request,
    encode_produce_response,
)

TOPIC = "some-topic"
TOPIC_ID = UUID(int=7)
Case = tuple[str, Callable[[], object]]


def produce(version: int) -> Iterator[Case]:
    batches = [(TOPIC, TOPIC_ID, [(0, b"x" * 200)])]

    def request() -> list[Any]:
        return encode_produce_request(version, 1, "client", None, -1, 30_000, batches)

    frame = memoryview(bytearray(b"".join(request())))[4:]
    _, pos = read_request_header(frame)
    results = [(TOPIC, TOPIC_ID, [PartitionProduceResult(0, 0, 100, -1, 0)])]
    answer = encode_produce_response(version, 1, results)[4:]
    yield "request header", lambda: read_request_header(frame)
    yield f"Produce {version}: decode request", lambda: decode_produce_request(version, frame, pos)
    yield f"Produce {version}: encode answer", lambda: encode_produce_response(version, 1, results)
    yield f"Produce {version}: encode request", request
    yield f"Produce {version}: decode answer", lambda: decode_produce_response(version, answer)


def fetch(version: int) -> Iterator[Case]:
    wanted = [FetchTopic(TOPIC, TOPIC_ID, [FetchPartition(0, 5, 1000, -1, -1, 1 << 20)])]
    request = FetchRequest(-1, -1, 500, 1, 50 << 20, 0, 0, -1, wanted)
    frame = memoryview(bytearray(encode_fetch_request(version, 1, "client", request)))[4:]
    _, pos = read_request_header(frame)

    def answer(records: Any) -> list[Any]:
        found = FetchedPartition(0, 0, 100, 100, 0, None, -1, records)
        return encode_fetch_response(version, 1, 0, 0, 0, [(TOPIC, TOPIC_ID, [found])])

    received = b"".join(answer(b"x" * 200))[4:]
    file_slice = FileSlice(open_for_reading(__file__), 0, 1 << 20)
    yield f"Fetch {version}: decode request", lambda: decode_fetch_request(version, frame, pos)
    yield f"Fetch {version}: build and encode answer", lambda: answer(file_slice)
    yield (
        f"Fetch {version}: encode empty answer",
        lambda: encode_fetch_response(version, 1, 0, 0, 9, []),
    )
    yield (
        f"Fetch {version}: encode request",
        lambda: encode_fetch_request(version, 1, "client", request),
    )
    yield f"Fetch {version}: decode answer", lambda: decode_fetch_response(version, received)


def from_the_schema() -> Iterator[Case]:
    request = make(
        MetadataRequest,
        topics=(make(MetadataRequestTopic, topic_id=None, name=TOPIC),),
        allow_auto_topic_creation=True,
        include_topic_authorized_operations=False,
    )
    frame = memoryview(encode_request(ApiKey.METADATA, 12, 1, "client", request))[4:]
    _, pos = read_request_header(frame)
    partition = make(
        MetadataResponsePartition,
        error_code=0,
        partition_index=0,
        leader_id=1,
        leader_epoch=0,
        replica_nodes=(1,),
        isr_nodes=(1,),
        offline_replicas=(),
    )
    topic = make(
        MetadataResponseTopic,
        error_code=0,
        name=TOPIC,
        topic_id=TOPIC_ID,
        partitions=(partition,) * 100,
    )
    response = make(
        MetadataResponse,
        throttle_time=0,
        brokers=(make(MetadataResponseBroker, node_id=1, host="localhost", port=9092),),
        topics=(topic,),
        error_code=0,
    )
    answer = encode_response(ApiKey.METADATA, 12, 1, response)[4:]
    offsets = make(
        ListOffsetsResponse,
        throttle_time=0,
        topics=(
            make(
                ListOffsetsTopicResponse,
                name=TOPIC,
                partitions=(make(ListOffsetsPartitionResponse, partition_index=0, error_code=0),),
            ),
        ),
    )
    yield "Metadata 12: decode request", lambda: decode_request(ApiKey.METADATA, 12, frame, pos)
    yield (
        "Metadata 12: encode answer, 100 partitions",
        lambda: encode_response(ApiKey.METADATA, 12, 1, response),
    )
    yield (
        "Metadata 12: decode answer, 100 partitions",
        lambda: decode_response(ApiKey.METADATA, 12, answer),
    )
    yield (
        "ListOffsets 7: encode answer",
        lambda: encode_response(ApiKey.LIST_OFFSETS, 7, 1, offsets),
    )
    yield "ApiVersions 3: encode answer", lambda: encode_api_versions_response(3, 1)


def microseconds(call: Callable[[], object]) -> float:
    """The best of some runs of about 20 ms each."""
    timer = timeit.Timer(call)
    number = max(1, int(0.02 / max(timer.timeit(10) / 10, 1e-7)))
    return min(timer.repeat(7, number)) / number * 1e6


def main() -> int:
    print(f"{'message':<44} µs")
    for case in (produce(7), produce(9), produce(13), fetch(11), fetch(12), fetch(17)):
        for name, call in case:
            print(f"{name:<44} {microseconds(call):.2f}")
    for name, call in from_the_schema():
        print(f"{name:<44} {microseconds(call):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
