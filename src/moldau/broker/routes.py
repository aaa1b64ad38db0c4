"""A row of the table of APIs, ready to be used: its handler imported, its codec chosen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from moldau.broker.apis import APIS, Codec
from moldau.broker.request import Request
from moldau.errors import KafkaError
from moldau.late_imports import late_import
from moldau.machine import Part
from moldau.wire.api import SERVED, ApiKey
from moldau.wire.messages import decode_request, encode_response


class Route:
    """Where requests of one API go."""

    __slots__ = (
        "api",
        "decode",
        "encode",
        "error_answer",
        "handle",
        "handle_large",
        "is_cached",
        "is_hot",
        "key",
        "newest",
        "oldest",
    )

    def __init__(self, key: ApiKey) -> None:
        """Imports the handler: start-up pays for none of them, the first request does."""
        self.key = key
        self.api = api = APIS[key]
        self.oldest, self.newest = SERVED[key]
        self.is_cached = api.is_cached
        self.is_hot = api.codec is not Codec.SCHEMA
        module = late_import(f"moldau.broker.handlers.{api.handler}")
        self.handle: Callable[[Request[Any]], Any] = module.handle
        self.handle_large: Callable[[Request[Any]], Awaitable[Any]] | None
        self.handle_large = getattr(module, "handle_large", None)
        self.error_answer: Callable[[Request[Any], KafkaError], Any] = module.error_answer
        self.decode: Callable[[int, memoryview, int, int], Any]
        """Version, frame, where in it the body starts, and how many array elements it may have."""
        self.encode: Callable[[int, int, Any, int], Sequence[Part]]
        """Version, correlation id, response, throttle time in milliseconds."""
        if self.is_hot:
            self.decode, self.encode = module.decode, module.encode
        else:
            self.decode, self.encode = partial(decode_request, key), partial(_encode, key)


def load_handlers() -> None:
    """Import every handler, and what it needs: no request should wait for that, and no import fail
    for want of a descriptor.
    """
    for key in APIS:
        Route(key)
    late_import("moldau.groups.shard")


def _encode(
    key: ApiKey, version: int, correlation_id: int, response: Any, throttle_ms: int
) -> Sequence[Part]:
    return (encode_response(key, version, correlation_id, response, throttle_ms),)
