"""Requests and answers as they cross the network, put into words for a timeline."""

from __future__ import annotations

from struct import Struct
from typing import Final

from moldau.wire.api import ApiKey

_SIZE: Final = Struct(">i")
_REQUEST: Final = Struct(">hhi")
_CORRELATION: Final = Struct(">i")


class Conversation:
    """What two ends say to each other: frames of Kafka's protocol, told by API and number."""

    def __init__(self) -> None:
        self._unread: dict[bool, bytearray] = {True: bytearray(), False: bytearray()}
        self._asked: dict[int, str] = {}

    def hear(self, data: bytes, *, from_client: bool) -> list[str]:
        """Returns the frames that are whole now, in words."""
        unread = self._unread[from_client]
        unread += data
        said = []
        while len(unread) >= _SIZE.size:
            size: int = _SIZE.unpack_from(unread)[0]
            end = _SIZE.size + size
            if size < 0 or len(unread) < end:
                break
            frame = bytes(unread[_SIZE.size : end])
            del unread[:end]
            said.append(self._request(frame) if from_client else self._answer(frame))
        return said

    def _request(self, frame: bytes) -> str:
        if len(frame) < _REQUEST.size:
            return f"{len(frame)} bytes that are no request"
        key, version, correlation_id = _REQUEST.unpack_from(frame)
        name = ApiKey(key).name if key in ApiKey._value2member_map_ else f"API {key}"
        self._asked[correlation_id] = name
        return f"asks {name} v{version} #{correlation_id}, {len(frame)} bytes"

    def _answer(self, frame: bytes) -> str:
        if len(frame) < _CORRELATION.size:
            return f"{len(frame)} bytes that are no answer"
        correlation_id: int = _CORRELATION.unpack_from(frame)[0]
        name = self._asked.pop(correlation_id, "an unknown request")
        return f"answers {name} #{correlation_id}, {len(frame)} bytes"
