"""Who somebody logs in as. Without a ``repr``: there are passwords in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, repr=False)
class PasswordLogin:
    mechanism: str
    username: str
    password: str
    token: bool = False
    """Whether these are of a delegation token."""


@dataclass(frozen=True, repr=False)
class ClientCredentials:
    """What a token endpoint gives tokens for."""

    url: str
    client_id: str
    secret: str
    scope: str | None
    timeout: float


@dataclass(frozen=True, repr=False)
class TokenLogin:
    source: ClientCredentials | Any
    """Anything else is a provider of tokens."""
    refresh_factor: float
    extensions: Mapping[str, str] = field(default_factory=dict)


Login = PasswordLogin | TokenLogin
