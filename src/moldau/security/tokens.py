"""Tokens of OAUTHBEARER: got when a login needs one, and kept while they are fresh."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from moldau.errors import KafkaError
from moldau.machine import RunInThread
from moldau.request_errors import ConnectionLostError
from moldau.security.mechanism import login_failed


class Token:
    """Without a ``repr``: whoever has it is the user."""

    __slots__ = ("expires_at", "value")

    def __init__(self, value: str, expires_at: float | None = None) -> None:
        self.value = value
        self.expires_at = expires_at
        """Seconds since 1970; a token without it is not kept for another login."""


class Tokens:
    """``get`` returns the token for a login. Use it from one event loop."""

    def __init__(
        self,
        fetch: Callable[[], Awaitable[Token]],
        refresh_factor: float,
        now: Callable[[], float],
    ) -> None:
        """``now`` returns seconds since 1970."""
        self._fetch = fetch
        self._factor = refresh_factor
        self._now = now
        self._kept: Token | None = None
        self._refresh_at = 0.0
        self._fetching = asyncio.Lock()

    async def get(self) -> str:
        async with self._fetching:
            if self._kept is not None and self._now() < self._refresh_at:
                return self._kept.value
            try:
                token = await self._fetch()
            except KafkaError as error:
                # The old one is as good as ever until it expires.
                if self._kept is None or not error.retriable or not self._is_valid(self._kept):
                    raise
                return self._kept.value
            if token.expires_at is not None:
                now = self._now()
                self._kept = token
                self._refresh_at = now + (token.expires_at - now) * self._factor
            return token.value

    def forget(self) -> None:
        """The broker refused it."""
        self._kept = None

    def _is_valid(self, token: Token) -> bool:
        return token.expires_at is not None and self._now() < token.expires_at


def from_provider(provider: Any, run_in_thread: RunInThread) -> Callable[[], Awaitable[Token]]:
    """What a program gave, a function or an object with ``token()``, as a coroutine function."""
    call = getattr(provider, "token", provider)

    async def fetch() -> Token:
        try:
            # It may well ask a server, and nothing else may wait for that.
            token = call() if inspect.iscoroutinefunction(call) else await run_in_thread(call)
            if inspect.isawaitable(token):
                token = await token
        except KafkaError:
            raise
        except OSError as error:
            raise ConnectionLostError(f"The token provider failed: {error}") from error
        except Exception as error:
            raise login_failed(
                f"The token provider failed: {type(error).__name__}: {error}"
            ) from error
        return _token(token)

    return fetch


def _token(provided: object) -> Token:
    match provided:
        case str():
            return Token(provided)
        case (str() as value, int() | float() as expires_at):
            return Token(value, float(expires_at))
    raise login_failed(
        "The token provider must give a token, or a pair of it and the time when it expires, not "
        f"{type(provided).__name__}"
    )
