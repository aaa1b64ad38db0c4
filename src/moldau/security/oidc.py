"""Tokens from an OpenID Connect endpoint for a client's own credentials (KIP-768).

The secret goes to the host of the settings and to no other: redirects are not followed, nor is a
proxy used where the connection is not encrypted (``logins`` allows that on this machine only).
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Awaitable, Callable
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import (
    HTTPRedirectHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from moldau.machine import RunInThread
from moldau.printable import printable
from moldau.request_errors import ConnectionLostError
from moldau.security.logins import ENDPOINT, ClientCredentials
from moldau.security.mechanism import login_failed
from moldau.security.tokens import Token

_MAX_ANSWER: Final = 1 << 20
_MAX_COMPLAINT: Final = 500


def from_endpoint(
    credentials: ClientCredentials, run_in_thread: RunInThread, now: Callable[[], float]
) -> Callable[[], Awaitable[Token]]:
    async def fetch() -> Token:
        return await run_in_thread(fetch_token, credentials, now)

    return fetch


def fetch_token(credentials: ClientCredentials, now: Callable[[], float]) -> Token:
    """Ask for one; a refusal is not worth another attempt, silence is."""
    url = credentials.url
    try:
        with _opener(url).open(_request(credentials), timeout=credentials.timeout) as answer:
            body = answer.read(_MAX_ANSWER)
    except HTTPError as error:
        with error:
            said = f"{url} answers {error.code} {_complaint(error.read(_MAX_ANSWER))}".rstrip()
        if 300 <= error.code < 400:
            where = printable(error.headers.get("Location", "nowhere"), _MAX_COMPLAINT)
            raise login_failed(
                f"{said} and sends us to {where}, but no secret is sent where an answer says: "
                f"{ENDPOINT} must be the address itself"
            ) from error
        if 400 <= error.code < 500 and error.code != 429:
            raise login_failed(f"No token for {credentials.client_id!r}: {said}") from error
        raise ConnectionLostError(f"No token: {said}") from error
    except (OSError, HTTPException) as error:
        raise ConnectionLostError(f"No token from {url}: {error}") from error
    return _token(url, body, now())


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """None makes an error of every redirect."""


def _opener(url: str) -> OpenerDirector:
    if url.startswith("https:"):
        return build_opener(_NoRedirects)
    return build_opener(_NoRedirects, ProxyHandler({}))


def _request(credentials: ClientCredentials) -> Request:
    form = {"grant_type": "client_credentials"}
    if credentials.scope:
        form["scope"] = credentials.scope
    pair = f"{credentials.client_id}:{credentials.secret}".encode()
    headers = {
        "Accept": "application/json",
        "Authorization": f"Basic {base64.b64encode(pair).decode()}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    return Request(credentials.url, urlencode(form).encode(), headers)  # noqa: S310


def _token(url: str, body: bytes, now: float) -> Token:
    try:
        answer = json.loads(body)
        value, lasts = answer["access_token"], answer.get("expires_in")
        expires_at = None if lasts is None else now + float(lasts)
        if expires_at is not None and not math.isfinite(expires_at):
            raise ValueError("no time")
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        raise login_failed(f"{url} answers no JSON with an access_token") from None
    return Token(str(value), expires_at)


def _complaint(body: bytes) -> str:
    """``error`` and ``error_description`` of RFC 6749, if these are there."""
    try:
        answer = json.loads(body)
        said = [str(answer[name]) for name in ("error", "error_description") if name in answer]
        return printable(": ".join(said), _MAX_COMPLAINT)
    except (ValueError, TypeError, RecursionError):
        return ""
