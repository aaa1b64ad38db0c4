"""Messages that are neither request nor response: stored in a log, or embedded in other messages.

Kafka calls them data. kio has a few, a class for each version; the others are declared by ourselves
(:mod:`moldau.wire.declaring`). Readers and writers are those of requests, so lengths are checked
before anything is allocated, tags that are not known are skipped, and bytes after the end of a
message are ignored. Whatever does not fit raises ``DecodeError`` or ``EncodeError``.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from struct import Struct
from typing import Final, TypeVar

from moldau.wire.declaring import declared_version, newest_declared
from moldau.wire.decoding import Reader, reader
from moldau.wire.encoding import UNENCODABLE, Writer, writer
from moldau.wire.errors import DecodeError, EncodeError
from moldau.wire.primitives import MALFORMED, MAX_ELEMENTS

M = TypeVar("M")

_PREFIX: Final = Struct(">h")


def encode(message: object, version: int) -> bytes:
    """The fields of a message as this version has them."""
    return bytes(_encoded(bytearray(), message, version))


def decode(shape: type[M], version: int, data: bytes, pos: int = 0) -> M:
    """The message of this version whose fields begin at ``pos``."""
    kind: type = shape
    try:
        message: M = _reader(kind, version)(memoryview(data), pos, [MAX_ELEMENTS])[0]
    except MALFORMED as error:
        raise DecodeError(f"{shape.__name__} version {version}: {error}") from error
    except DecodeError as error:
        raise DecodeError(f"{shape.__name__} version {version}: {error}") from None
    return message


def encode_prefixed(prefix: int, message: object, version: int) -> bytes:
    """A message behind two bytes; nearly everywhere they are its version."""
    return bytes(_encoded(bytearray(_PREFIX.pack(prefix)), message, version))


def read_prefix(data: bytes) -> int:
    """The number in the two bytes in front of a message."""
    if len(data) < _PREFIX.size:
        raise DecodeError(f"{len(data)} bytes are no message")
    prefix: int = _PREFIX.unpack_from(data)[0]
    return prefix


def decode_prefixed(shape: type[M], data: bytes, version: int | None = None) -> M:
    """The message behind two bytes, which are its version unless that is given."""
    return decode(shape, read_prefix(data) if version is None else version, data, _PREFIX.size)


def _encoded(out: bytearray, message: object, version: int) -> bytearray:
    kind: type = type(message)
    try:
        _writer(kind, version)(out, message)
    except UNENCODABLE as error:
        raise EncodeError(f"{kind.__name__} version {version}: {error}") from error
    return out


@cache
def _reader(shape: type, version: int) -> Reader:
    newest: int = getattr(shape, "__version__", newest_declared(shape))
    if not 0 <= version <= newest:
        raise DecodeError(f"versions 0 to {newest} can be read")
    return reader(_version_class(shape, version), shape)


@cache
def _writer(shape: type, version: int) -> Writer:
    return writer(shape, _version_class(shape, version))


def _version_class(shape: type, version: int) -> type:
    kio_version: int | None = getattr(shape, "__version__", None)
    if kio_version is None:
        return declared_version(shape, version)
    module = import_module(shape.__module__.replace(f".v{kio_version}.", f".v{version}."))
    loaded: type = getattr(module, shape.__name__)
    return loaded
