"""What brokers of one cluster ask of each other: Kafka's frames and request header, bodies of our
own.

The keys are far above Kafka's, and no broker advertises them: a peer that has not shown to be a
broker of the cluster gets to know no more than that they are not served. A body is msgpack of plain
data, read by its type; the version in the header is the number of the format. An answer is an error
code and its sentence, or the result.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from struct import Struct
from typing import Any, Final

import msgspec

from moldau.errors import ErrorCode
from moldau.request_errors import check
from moldau.wire.errors import DecodeError
from moldau.wire.headers import FIRST_PRIVATE_KEY
from moldau.wire.primitives import legacy_string

VERSION: Final = 0
"""The format of all bodies; brokers of another one do not talk to each other."""

_FIXED: Final = Struct(">ihhi")
_ANSWER: Final = Struct(">ii")


class PrivateApi(IntEnum):
    AUTHENTICATE_BROKER = FIRST_PRIVATE_KEY
    """Both sides show that they are brokers of the cluster; all else is refused before."""
    BROKER_UPDATE = FIRST_PRIVATE_KEY + 1
    """The controller's word to a broker."""
    CONTROLLER_REQUEST = FIRST_PRIVATE_KEY + 2
    """What a broker, or a client of it, asks of the controller."""


class _Answer(msgspec.Struct, array_like=True):
    error: int
    message: str | None
    result: msgspec.Raw


_encode: Final = msgspec.msgpack.Encoder().encode
_NOTHING: Final = msgspec.Raw(_encode(None))


def encode_request(api: PrivateApi, correlation_id: int, client_id: str, body: object) -> bytes:
    """Returns a whole frame."""
    encoded = _encode(body)
    client = legacy_string(client_id)
    size = _FIXED.size - 4 + len(client) + len(encoded)
    return b"".join((_FIXED.pack(size, api, VERSION, correlation_id), client, encoded))


def decode_body(frame: memoryview, position: int, kind: Any) -> Any:
    """Returns the body of a request, as an object of this type."""
    return _decode(frame[position:], kind)


def encode_result(correlation_id: int, result: object) -> bytes:
    """Returns the whole frame of an answer."""
    return _encode_answer(
        correlation_id, _Answer(ErrorCode.NONE, None, msgspec.Raw(_encode(result)))
    )


def encode_error(correlation_id: int, error: ErrorCode, message: str | None) -> bytes:
    """Returns the whole frame of a refusal."""
    return _encode_answer(correlation_id, _Answer(error, message, _NOTHING))


def decode_answer(frame: memoryview, kind: Any) -> Any:
    """Returns the result in an answer (a frame without its size), as an object of this type.

    Raises KafkaError if the other broker answers with one, DecodeError if it makes no sense.
    """
    answer = _decode(frame[4:], _Answer)
    check(answer.error, answer.message)
    return _decode(answer.result, kind)


def _encode_answer(correlation_id: int, answer: _Answer) -> bytes:
    encoded = _encode(answer)
    return _ANSWER.pack(4 + len(encoded), correlation_id) + encoded


@cache
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind)


def _decode(data: memoryview | msgspec.Raw, kind: Any) -> Any:
    try:
        return _decoder(kind).decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f"a body between brokers makes no sense: {error}") from error
