"""Tokens of OAUTHBEARER: the message, who gives them, how long they are kept."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from moldau.client.errors import AuthenticationError, ConnectionLostError
from moldau.config.option import ConfigError
from moldau.security.logins import ClientCredentials
from moldau.security.oauthbearer import OAuthBearer
from moldau.security.oidc import fetch_token
from moldau.security.tokens import Token, Tokens, from_provider


def test_the_message_of_rfc_7628() -> None:
    login = OAuthBearer("abc.def-_~+/==", {"cluster": "one two"})
    expected = b"n,,\x01auth=Bearer abc.def-_~+/==\x01cluster=one two\x01\x01"
    assert login.respond(b"") == expected
    assert login.respond(b"") is None


def test_a_refusal_is_acknowledged_so_that_the_broker_says_why() -> None:
    login = OAuthBearer("abc")
    login.respond(b"")
    assert login.respond(b'{"status":"invalid_token"}') == b"\x01"


@pytest.mark.parametrize("token", ["", "two words", "a\x01auth=Bearer b"])
def test_what_is_no_token_is_not_sent(token: str) -> None:
    with pytest.raises(AuthenticationError, match="no bearer token"):
        OAuthBearer(token)


@pytest.mark.parametrize("extensions", [{"a1": "x"}, {"a": "x\x01y"}, {"a": ""}])
def test_extensions_that_would_break_the_message_are_refused(extensions: dict[str, str]) -> None:
    with pytest.raises(AuthenticationError, match="cannot be sent"):
        OAuthBearer("abc", extensions)


class Source:
    def __init__(self) -> None:
        self.now = 1000.0
        self.asked = 0
        self.failure: Exception | None = None
        self.lasts: float | None = 100.0

    async def fetch(self) -> Token:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return Token(f"token-{self.asked}", None if self.lasts is None else self.now + self.lasts)


def tokens_of(source: Source) -> Tokens:
    return Tokens(source.fetch, 0.8, lambda: source.now)


async def test_a_token_is_kept_for_the_larger_part_of_its_life() -> None:
    source = Source()
    tokens = tokens_of(source)
    assert [await tokens.get() for _ in range(3)] == ["token-1"] * 3
    source.now += 79
    assert await tokens.get() == "token-1"
    source.now += 2
    assert await tokens.get() == "token-2"


async def test_a_token_without_an_end_is_for_one_login() -> None:
    source = Source()
    source.lasts = None
    tokens = tokens_of(source)
    assert [await tokens.get(), await tokens.get()] == ["token-1", "token-2"]


async def test_the_old_token_serves_while_no_new_one_can_be_had() -> None:
    source = Source()
    tokens = tokens_of(source)
    await tokens.get()
    source.now += 90
    source.failure = ConnectionLostError("the endpoint is away")
    assert await tokens.get() == "token-1"
    source.now += 20
    with pytest.raises(ConnectionLostError, match="away"):
        await tokens.get()


async def test_a_refused_token_is_not_used_again() -> None:
    tokens = tokens_of(Source())
    await tokens.get()
    tokens.forget()
    assert await tokens.get() == "token-2"


class WithMethod:
    def token(self) -> tuple[str, float]:
        return "abc", 5


async def coroutine() -> str:
    return "abc"


@pytest.mark.parametrize(
    ("provider", "expires_at"),
    [
        (lambda: "abc", None),
        (lambda: ("abc", 5), 5.0),
        (coroutine, None),
        (WithMethod(), 5.0),
    ],
)
async def test_providers(provider: Any, expires_at: float | None) -> None:
    token = await from_provider(provider, asyncio.to_thread)()
    assert (token.value, token.expires_at) == ("abc", expires_at)


async def test_a_provider_runs_beside_the_event_loop() -> None:
    where: list[threading.Thread] = []

    def provider() -> str:
        where.append(threading.current_thread())
        return "abc"

    await from_provider(provider, asyncio.to_thread)()
    assert where != [threading.current_thread()]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [(OSError("no route"), ConnectionLostError), (ValueError("bad key"), AuthenticationError)],
)
async def test_a_provider_that_fails(failure: Exception, expected: type[Exception]) -> None:
    def provider() -> str:
        raise failure

    with pytest.raises(expected, match=str(failure)):
        await from_provider(provider, asyncio.to_thread)()


async def test_a_provider_that_gives_something_else() -> None:
    with pytest.raises(AuthenticationError, match="not NoneType"):
        await from_provider(lambda: None, asyncio.to_thread)()


class Endpoint(BaseHTTPRequestHandler):
    """Knows the client ``c`` with the secret ``hush``."""

    seen: dict[str, list[str]]
    status = 200
    body = b'{"access_token": "abc", "expires_in": 60}'

    def do_POST(self) -> None:
        pair = base64.b64encode(b"c:hush").decode()
        length = int(self.headers["Content-Length"])
        type(self).seen = parse_qs(self.rfile.read(length).decode())
        known = self.headers["Authorization"] == f"Basic {pair}"
        refusal = json.dumps({"error": "invalid_client", "error_description": "who?"}).encode()
        self.send_response(self.status if known else 401)
        self.end_headers()
        self.wfile.write(self.body if known else refusal)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def endpoint() -> Iterator[tuple[type[Endpoint], str]]:
    handler = type("Own", (Endpoint,), {})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield handler, f"http://127.0.0.1:{server.server_port}/token"
        server.shutdown()
        thread.join()


def credentials(url: str, secret: str = "hush") -> ClientCredentials:
    return ClientCredentials(url, "c", secret, "read write", 30.0)


def test_a_token_from_an_endpoint(endpoint: tuple[type[Endpoint], str]) -> None:
    handler, url = endpoint
    before = time.time()
    token = fetch_token(credentials(url), time.time)
    assert token.value == "abc"
    assert token.expires_at is not None
    assert before + 60 <= token.expires_at <= time.time() + 60
    assert handler.seen == {"grant_type": ["client_credentials"], "scope": ["read write"]}


def test_an_endpoint_that_refuses(endpoint: tuple[type[Endpoint], str]) -> None:
    with pytest.raises(AuthenticationError, match=r"401 invalid_client: who\?") as caught:
        fetch_token(credentials(endpoint[1], "wrong-secret"), time.time)
    assert "wrong-secret" not in str(caught.value)


def test_an_endpoint_in_trouble_is_asked_again(endpoint: tuple[type[Endpoint], str]) -> None:
    handler, url = endpoint
    handler.status = 503
    with pytest.raises(ConnectionLostError, match="503") as caught:
        fetch_token(credentials(url), time.time)
    assert caught.value.retriable


def test_an_endpoint_that_talks_nonsense(endpoint: tuple[type[Endpoint], str]) -> None:
    handler, url = endpoint
    handler.body = b"<html>"
    with pytest.raises(AuthenticationError, match="no JSON with an access_token"):
        fetch_token(credentials(url), time.time)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 900_000,
        b'{"access_token": "abc", "expires_in": 1e999}',
        b'{"access_token": "abc", "expires_in": NaN}',
        b'{"access_token": "abc", "expires_in": ' + b"9" * 400 + b"}",
    ],
    ids=["deep", "for ever", "no number", "huge"],
)
def test_an_endpoint_that_means_harm(endpoint: tuple[type[Endpoint], str], body: bytes) -> None:
    handler, url = endpoint
    handler.body = body
    with pytest.raises(AuthenticationError, match="no JSON with an access_token"):
        fetch_token(credentials(url), time.time)


def test_what_an_endpoint_complains_about_is_one_short_line(
    endpoint: tuple[type[Endpoint], str],
) -> None:
    handler, url = endpoint
    handler.status = 400
    handler.body = json.dumps({"error": "\x1b]0;x\x07\n" * 100_000}).encode()
    with pytest.raises(AuthenticationError) as caught:
        fetch_token(credentials(url), time.time)
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 2000


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("elsewhere", ["http://localhost:{port}/x", "//localhost:{port}/x", "/x"])
def test_the_secret_follows_no_redirect(
    endpoint: tuple[type[Endpoint], str], status: int, elsewhere: str
) -> None:
    handler, url = endpoint
    asked: list[tuple[str, str]] = []
    place = elsewhere.format(port=urlsplit(url).port)

    def redirect(request: Endpoint) -> None:
        asked.append((request.command, request.path))
        request.send_response(status)
        request.send_header("Location", place)
        request.end_headers()

    for method in ("do_GET", "do_POST"):
        setattr(handler, method, redirect)
    with pytest.raises(AuthenticationError, match=f"answers {status} and sends us to") as caught:
        fetch_token(credentials(url), time.time)
    assert asked == [("POST", "/token")]
    assert not caught.value.retriable


def test_the_secret_goes_through_no_proxy_unencrypted(
    endpoint: tuple[type[Endpoint], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert fetch_token(credentials(endpoint[1]), time.time).value == "abc"


@pytest.mark.parametrize(
    "url",
    [
        "http://idp.example.org/token",
        "http://10.0.0.1/token",
        "http://127.0.0.1.example.org/token",
        "http://127.0.0.1@example.org/token",
        "https://user:word@example.org/token",
        "http://[2001:db8::1]/token",
        "http://0.0.0.0/token",
        "http:///token",
        "https://",
        "https://[::1/token",
        "ftp://localhost/token",
        "localhost/token",
    ],
)
def test_where_no_secret_is_sent(url: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.token\.endpoint\.url"):
        credentials(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://idp.example.org/token",
        "https://10.0.0.1:8443",
        "http://localhost:8080/token",
        "http://127.0.0.5/token",
        "http://[::1]:8080/token",
    ],
)
def test_where_a_secret_may_be_sent(url: str) -> None:
    assert credentials(url).url == url


def test_an_endpoint_that_is_away() -> None:
    with pytest.raises(ConnectionLostError, match="No token from"):
        fetch_token(credentials("http://127.0.0.1:1/token"), time.time)
