"""TLS and login of one client, made once from its settings, used for each of its connections."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from moldau.client.errors import AuthenticationError
from moldau.client.security.login_settings import (
    ClientCredentials,
    PasswordLogin,
    TokenLogin,
    login_of,
)
from moldau.client.security.mechanism import Mechanism
from moldau.client.security.session import SaslSession
from moldau.client.settings.security import SecuritySettings

if TYPE_CHECKING:
    from moldau.client.connection import BrokerConnection
    from moldau.client.security.tokens import Tokens


class Security:
    """Of a client whose protocol is not PLAINTEXT."""

    def __init__(self, settings: SecuritySettings) -> None:
        """Reads certificates; what is wrong with them is a ``ConfigError``."""
        self.tls: ssl.SSLContext | None = None
        self.has_certificate = False
        if settings.uses_tls:
            from moldau.client.security.tls import has_certificate, tls_context

            self.tls = tls_context(settings)
            self.has_certificate = has_certificate(settings)
        self._new_mechanism: Callable[[], Awaitable[Mechanism]] | None = None
        self._tokens: Tokens | None = None
        if settings.uses_sasl:
            self._new_mechanism = self._mechanisms(login_of(settings))

    async def log_in(self, connection: BrokerConnection, within: float) -> bool:
        """Log in, now and later, on a new connection; False if there is no login."""
        if self._new_mechanism is None:
            return False
        try:
            await SaslSession(connection, self._new_mechanism, within).start()
        except AuthenticationError:
            if self._tokens is not None:
                self._tokens.forget()
            raise
        return True

    def _mechanisms(self, login: PasswordLogin | TokenLogin) -> Callable[[], Awaitable[Mechanism]]:
        if isinstance(login, PasswordLogin):
            return _with_password(login)
        tokens = self._tokens = _tokens(login)

        async def with_token() -> Mechanism:
            from moldau.client.security.oauthbearer import OAuthBearer

            return OAuthBearer(await tokens.get(), login.extensions)

        return with_token


def _with_password(login: PasswordLogin) -> Callable[[], Awaitable[Mechanism]]:
    async def make() -> Mechanism:
        if login.mechanism == "PLAIN":
            from moldau.client.security.plain import Plain

            return Plain(login.username, login.password)
        from moldau.client.security.scram import Scram

        return Scram(login.mechanism, login.username, login.password, token=login.token)

    return make


def _tokens(login: TokenLogin) -> Tokens:
    from moldau.client.security.tokens import Tokens, from_provider

    if isinstance(login.source, ClientCredentials):
        from moldau.client.security.oidc import from_endpoint

        return Tokens(from_endpoint(login.source), login.refresh_factor)
    from moldau.client.components import load

    provider = load(login.source, "sasl.oauthbearer.token.provider")
    return Tokens(from_provider(provider), login.refresh_factor)
