"""Who somebody logs in as. Without a ``repr``: there are passwords in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.config.option import ConfigError

ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"


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

    def __post_init__(self) -> None:
        """A secret for everybody on the way to read is refused."""
        from urllib.parse import urlsplit

        from moldau.security.loopback import is_loopback

        try:
            url = urlsplit(self.url)
            host = url.hostname or ""
        except ValueError as error:
            raise ConfigError(f"{ENDPOINT} is no address: {error}") from None
        if "@" in url.netloc:  # not shown: there may be a password in it
            raise ConfigError(f"{ENDPOINT} must be without a user's name")
        if url.scheme not in ("https", "http") or not host:
            raise ConfigError(f"{ENDPOINT} must begin with https:// and a host, not {self.url!r}")
        if url.scheme == "http" and not is_loopback(host):
            raise ConfigError(
                f"{ENDPOINT} is {self.url!r}: the client's secret goes there, so it must begin "
                "with https:// (http:// is for this machine only, as http://127.0.0.1/...)"
            )


@dataclass(frozen=True, repr=False)
class TokenLogin:
    source: ClientCredentials | Any
    """Anything else is a provider of tokens."""
    refresh_factor: float
    extensions: Mapping[str, str] = field(default_factory=dict)


Login = PasswordLogin | TokenLogin
