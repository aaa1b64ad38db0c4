"""Requests by hand over a plain socket: what no well-behaved client would send."""

from __future__ import annotations

import io
import socket
import struct
from itertools import count
from typing import Any

from kio.index import load_response_schema
from kio.serial import entity_reader, entity_writer

TIMEOUT_S = 60.0


class RawClient:
    """One connection, to the first of the brokers; sends kio's request objects and returns its
    response objects.
    """

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.split(",")[0].rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._correlation_ids = count(1)

    def close(self) -> None:
        self._socket.close()

    def call(self, request: Any) -> Any:
        kind = type(request)
        correlation_id = next(self._correlation_ids)
        header = kind.__header_schema__(
            request_api_key=kind.__api_key__,
            request_api_version=kind.__version__,
            correlation_id=correlation_id,
            client_id="raw",
        )
        frame = io.BytesIO()
        entity_writer(type(header))(frame, header)
        entity_writer(kind)(frame, request)
        self.send(frame.getvalue())
        return self._decode(self.receive(), kind, correlation_id)

    def send(self, frame: bytes) -> None:
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _decode(self, frame: bytes, request: Any, correlation_id: int) -> Any:
        response = load_response_schema(request.__api_key__, request.__version__)
        header, size = entity_reader(response.__header_schema__)(frame, 0)
        assert header.correlation_id == correlation_id
        body, _ = entity_reader(response)(frame, size)
        return body

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self._socket.recv(size - len(data))
            if not chunk:
                raise ConnectionError("the broker closed the connection")
            data += chunk
        return bytes(data)
