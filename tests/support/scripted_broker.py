"""A broker that says what a test wants: for answers that real ones give on bad days only."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kio.schema.api_versions.v4.response import ApiVersion, ApiVersionsResponse
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.schema.metadata.v13.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from moldau.errors import ErrorCode
from moldau.wire.api import KNOWN, ApiKey
from moldau.wire.headers import read_request_header
from moldau.wire.make import make
from moldau.wire.messages import decode_request, encode_response

_APIS = (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.LIST_OFFSETS, ApiKey.DESCRIBE_CONFIGS)


@dataclass
class ScriptedBroker:
    """All topics have one partition."""

    topics: Mapping[str, ErrorCode] = field(default_factory=dict)
    """What Metadata says of each topic; of others, that there is none."""
    end: int = 0
    """Where every partition ends."""
    configs: Mapping[str, str] = field(default_factory=dict)
    port: int = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @contextmanager
    def serving(self) -> Iterator[ScriptedBroker]:
        broker = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                while size := self.rfile.read(4):
                    self.wfile.write(broker._answer(self.rfile.read(int.from_bytes(size))))

        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
            self.port = server.server_address[1]
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()

    def _answer(self, frame: bytes) -> bytes:
        header, at = read_request_header(memoryview(frame))
        api, version = ApiKey(header.api_key), header.api_version
        request = decode_request(api, version, frame, at)
        return encode_response(api, version, header.correlation_id, self._say(api, request))

    def _say(self, api: ApiKey, request: Any) -> Any:
        match api:
            case ApiKey.API_VERSIONS:
                ranges = tuple(
                    make(
                        ApiVersion,
                        api_key=int(one),
                        min_version=KNOWN[one].oldest,
                        max_version=KNOWN[one].newest,
                    )
                    for one in _APIS
                )
                return make(ApiVersionsResponse, error_code=0, api_keys=ranges)
            case ApiKey.METADATA:
                return self._metadata(request)
            case ApiKey.LIST_OFFSETS:
                return make(ListOffsetsResponse, topics=tuple(map(self._ends, request.topics)))
            case _:
                return make(
                    DescribeConfigsResponse,
                    results=tuple(map(self._described, request.resources)),
                )

    def _metadata(self, request: Any) -> MetadataResponse:
        if request.topics is None:
            said = {name: code for name, code in self.topics.items() if not code}
        else:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            said = {one.name: self.topics.get(one.name, unknown) for one in request.topics}
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
        return make(
            MetadataResponse,
            brokers=(
                make(
                    MetadataResponseBroker, node_id=1, host="127.0.0.1", port=self.port, rack=None
                ),
            ),
            cluster_id=f"cluster at {self.port}",
            controller_id=1,
            topics=tuple(
                make(
                    MetadataResponseTopic,
                    error_code=int(code),
                    name=name,
                    topic_id=UUID(int=7),
                    is_internal=False,
                    partitions=() if code else (partition,),
                )
                for name, code in said.items()
            ),
            error_code=0,
        )

    def _ends(self, topic: Any) -> ListOffsetsTopicResponse:
        answers = tuple(
            make(
                ListOffsetsPartitionResponse,
                partition_index=one.partition_index,
                error_code=0,
                timestamp=-1,
                offset=self.end,
                leader_epoch=0,
            )
            for one in topic.partitions
        )
        return make(ListOffsetsTopicResponse, name=topic.name, partitions=answers)

    def _described(self, resource: Any) -> DescribeConfigsResult:
        entries = tuple(
            make(
                DescribeConfigsResourceResult,
                name=name,
                value=value,
                read_only=False,
                config_source=5,
                is_sensitive=False,
                synonyms=(),
                config_type=1,
                documentation=None,
            )
            for name, value in self.configs.items()
        )
        return make(
            DescribeConfigsResult,
            error_code=0,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=entries,
        )


@contextmanager
def silent() -> Iterator[str]:
    """The address of a server that takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def powered_off() -> Iterator[str]:
    """An address where connections are neither taken nor refused: its queue of them is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        address = server.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        try:
            for one in waiting:
                one.setblocking(False)
                one.connect_ex(address)
            yield f"127.0.0.1:{address[1]}"
        finally:
            for one in waiting:
                one.close()
