"""The status page's connections: clients that are slow, many or misled hold nobody up."""

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
from moldau.mailalert.http_hosts import KnownHosts
from moldau.mailalert.http_protocol import TimedProtocol

ASK = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def hello(_request: Request) -> Response:
    return PlainTextResponse("hello")


@pytest.mark.parametrize(
    ("hosts", "known"),
    [
        (["localhost:8090"], True),
        (["LOCALHOST"], True),
        (["localhost.:80"], True),
        (["127.0.0.1:8090"], True),
        (["10.1.2.3"], True),
        (["[::1]:8090"], True),
        (["alerts.example.org"], True),
        (["alerts.example.org:443"], True),
        ([socket.gethostname()], True),
        (["evil.example.org"], False),
        (["localhost.evil.example.org"], False),
        (["127.0.0.1.evil.example.org"], False),
        (["evil.example.org:127.0.0.1"], False),
        (["evil@localhost"], False),
        (["2130706433"], False),
        (["[::1"], False),
        ([""], False),
        ([], False),
        (["localhost", "evil.example.org"], False),
    ],
)
def test_hosts(hosts: list[str], known: bool) -> None:
    assert KnownHosts(PlainTextResponse(""), ["Alerts.example.org"]).knows(hosts) is known


@pytest.fixture
def port() -> Iterator[int]:
    config = uvicorn.Config(
        KnownHosts(Starlette(routes=[Route("/", hello)]), ["x"]),
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


def test_another_host_is_refused_before_anything_is_done(port: int) -> None:
    assert b" 200 " in answer(port, ASK)
    for line in (b"Host: evil.example\r\n", b"Host: x\r\nHost: evil.example\r\n", b""):
        refused = answer(port, ASK.replace(b"Host: x\r\n", line))
        assert b"hello" not in refused
        assert refused.startswith((b"HTTP/1.1 421 ", b"HTTP/1.1 400 "))
    old = answer(port, b"GET / HTTP/1.0\r\n\r\n")
    assert old.startswith(b"HTTP/1.1 421 ")


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
