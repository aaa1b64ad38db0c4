"""The status page's connections: clients that are slow or many hold nobody up."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from tests.support.waiting import eventually

from moldau.mailalert import http_protocol
from moldau.mailalert.http_protocol import TimedProtocol

ASK = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def hello(_request: Request) -> Response:
    return PlainTextResponse("hello")


@pytest.fixture
def port() -> Iterator[int]:
    config = uvicorn.Config(
        Starlette(routes=[Route("/", hello)]),
        port=0,
        http=TimedProtocol,
        log_level="warning",
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    eventually(lambda: server.started)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join()


def answer(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        try:
            client.sendall(request)
            return b"".join(iter(lambda: client.recv(1000), b""))
        except ConnectionError:
            return b""


def test_a_request_that_never_ends_is_hung_up_on(
    monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    monkeypatch.setattr(http_protocol, "HEADERS_WITHIN", 0.1)
    assert answer(port, ASK[:20]) == b""


def test_more_connections_than_allowed_are_closed(
    monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    assert b"hello" in answer(port, ASK)
    monkeypatch.setattr(http_protocol, "CONNECTIONS", 0)
    assert answer(port, ASK) == b""
