"""From a frame to a handler and back to an answer.

Produce and Fetch have codecs of their own and work on the connection's buffer. Every other API goes
through the kio adapter: its handler module is loaded at the first request (start-up pays for none
of them), is given the newest shape of its request and returns the newest shape of its response, at
once or as a coroutine.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import Any

from moldau.broker.answer_cache import AnswerCache
from moldau.broker.context import Broker, RequestContext
from moldau.broker.handlers import fetch, produce
from moldau.errors import ErrorCode
from moldau.machine import Part
from moldau.net import Pending, ServerConnection
from moldau.wire.api import ApiKey, is_served
from moldau.wire.api_versions import encode_api_versions_response, is_valid_software
from moldau.wire.errors import DecodeError
from moldau.wire.headers import RequestHeader, read_request_header
from moldau.wire.messages import decode_request, encode_response

log = logging.getLogger(__name__)

Answer = Sequence[Part] | Pending | None
Handler = Callable[[RequestContext, Any], Any]

HANDLER_MODULES: dict[ApiKey, str] = {
    ApiKey.LIST_OFFSETS: "list_offsets",
    ApiKey.METADATA: "metadata",
    ApiKey.OFFSET_COMMIT: "offset_commit",
    ApiKey.OFFSET_FETCH: "offset_fetch",
    ApiKey.FIND_COORDINATOR: "find_coordinator",
    ApiKey.JOIN_GROUP: "join_group",
    ApiKey.HEARTBEAT: "heartbeat",
    ApiKey.LEAVE_GROUP: "leave_group",
    ApiKey.SYNC_GROUP: "sync_group",
    ApiKey.DESCRIBE_GROUPS: "describe_groups",
    ApiKey.LIST_GROUPS: "list_groups",
    ApiKey.CREATE_TOPICS: "create_topics",
    ApiKey.DELETE_TOPICS: "delete_topics",
    ApiKey.DELETE_RECORDS: "delete_records",
    ApiKey.INIT_PRODUCER_ID: "init_producer_id",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "offset_for_leader_epoch",
    ApiKey.DESCRIBE_CONFIGS: "describe_configs",
    ApiKey.ALTER_CONFIGS: "alter_configs",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "alter_replica_log_dirs",
    ApiKey.DESCRIBE_LOG_DIRS: "describe_log_dirs",
    ApiKey.CREATE_PARTITIONS: "create_partitions",
    ApiKey.DELETE_GROUPS: "delete_groups",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "incremental_alter_configs",
    ApiKey.OFFSET_DELETE: "offset_delete",
    ApiKey.DESCRIBE_CLUSTER: "describe_cluster",
    ApiKey.DESCRIBE_PRODUCERS: "describe_producers",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "consumer_group_heartbeat",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "consumer_group_describe",
    ApiKey.LIST_CONFIG_RESOURCES: "list_config_resources",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "describe_topic_partitions",
}

FIRST_VERSION_WITH_SOFTWARE = 3


class Router:
    """The handler of every connection of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._handlers: dict[int, Handler] = {}
        self._metadata_answers = AnswerCache()
        self._requests = broker.traffic.requests

    def __call__(self, connection: ServerConnection, frame: memoryview) -> Answer:
        header, position = read_request_header(frame)
        api_key = header.api_key
        if api_key == ApiKey.PRODUCE and is_served(api_key, header.api_version):
            self._requests[api_key] += 1
            return produce.handle(
                self._broker, connection, header.api_version, header.correlation_id, frame, position
            )
        if api_key == ApiKey.FETCH and is_served(api_key, header.api_version):
            self._requests[api_key] += 1
            return fetch.handle(
                self._broker, connection, header.api_version, header.correlation_id, frame, position
            )
        return self._route(connection, header, frame, position)

    def _route(
        self, connection: ServerConnection, header: RequestHeader, frame: memoryview, position: int
    ) -> Answer:
        api_key, version = header.api_key, header.api_version
        if api_key == ApiKey.API_VERSIONS:
            self._requests[api_key] += 1
            return [_api_versions(header, frame, position)]
        if not is_served(api_key, version):
            raise DecodeError(f"API key {api_key} version {version} is not served")
        self._requests[api_key] += 1
        if api_key == ApiKey.METADATA:
            return self._metadata(connection, header, frame, position)
        request = decode_request(ApiKey(api_key), version, frame, position)
        return self._dispatch(connection, header, request)

    def _dispatch(
        self,
        connection: ServerConnection,
        header: RequestHeader,
        request: Any,
        keep: Callable[[bytes], None] | None = None,
    ) -> Answer:
        # Up to milliseconds, not microseconds: nobody should wait for a whole pipeline of these.
        connection.end_turn()
        context = RequestContext(self._broker, header, connection.listener, connection.peer_host)
        answer = self._handler(header.api_key)(context, request)
        if inspect.isawaitable(answer):
            pending = Pending()
            self._broker.tasks.spawn(self._answer_later(connection, header, answer, pending, keep))
            return pending
        return [_encode(header, answer)]

    def _handler(self, api_key: int) -> Handler:
        handler = self._handlers.get(api_key)
        if handler is None:
            name = HANDLER_MODULES[ApiKey(api_key)]
            module = import_module(f"moldau.broker.handlers.{name}")
            handler = self._handlers[api_key] = module.handle
        return handler

    async def _answer_later(
        self,
        connection: ServerConnection,
        header: RequestHeader,
        answer: Awaitable[Any],
        pending: Pending,
        keep: Callable[[bytes], None] | None,
    ) -> None:
        try:
            frame = _encode(header, await answer)
        except Exception:
            # There is no answer that every API could carry; the client sees the connection close.
            log.exception("%s failed for %s", ApiKey(header.api_key).name, connection.peer)
            connection.close()
            return
        if keep is not None:
            keep(frame)
        pending.complete([frame])

    def _metadata(
        self, connection: ServerConnection, header: RequestHeader, frame: memoryview, position: int
    ) -> Answer:
        """Metadata answers are kept by the bytes of their request until the metadata changes."""
        metadata = self._broker.metadata
        version_before = metadata.version
        key = (header.api_version, connection.listener, bytes(frame[position:]))
        known = self._metadata_answers.get(key, version_before)
        if known is not None:
            return [known[:4] + header.correlation_id.to_bytes(4, "big", signed=True) + known[8:]]

        def keep(answer: bytes) -> None:
            if metadata.version == version_before:
                self._metadata_answers.put(key, version_before, answer)

        request = decode_request(ApiKey.METADATA, header.api_version, frame, position)
        # A topic that is missing may have to be created: each request tries that anew.
        complete = all(
            topic.topic_id is not None or topic.name in metadata.topics
            for topic in request.topics or ()
        )
        return self._dispatch(connection, header, request, keep if complete else None)


def _api_versions(header: RequestHeader, frame: memoryview, position: int) -> bytes:
    """The first request of a connection; a version from the future is answered as in version 0."""
    code = ErrorCode.NONE
    if is_served(header.api_key, header.api_version):
        request = decode_request(ApiKey.API_VERSIONS, header.api_version, frame, position)
        software = (request.client_software_name, request.client_software_version)
        if header.api_version >= FIRST_VERSION_WITH_SOFTWARE and not all(
            is_valid_software(text) for text in software
        ):
            code = ErrorCode.INVALID_REQUEST
    return encode_api_versions_response(header.api_version, header.correlation_id, code)


def _encode(header: RequestHeader, response: Any) -> bytes:
    return encode_response(
        ApiKey(header.api_key), header.api_version, header.correlation_id, response
    )
