"""TLS and login of whoever connects, made once, used for each of its connections."""

from __future__ import annotations

import ssl
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING

from moldau.errors import KafkaError
from moldau.machine import Machine
from moldau.request_errors import AuthenticationError
from moldau.security.logins import ClientCredentials, Login, PasswordLogin, TokenLogin
from moldau.security.mechanism import Mechanism
from moldau.security.session import LoginConnection, SaslSession

if TYPE_CHECKING:
    from moldau.security.tokens import Tokens

_NONCE_BYTES = 24


class ClientSecurity:
    """Of a client, or a broker that talks to another, whose protocol is not PLAINTEXT."""

    def __init__(
        self,
        machine: Machine,
        tls: ssl.SSLContext | None,
        login: Login | None,
        *,
        has_certificate: bool = False,
    ) -> None:
        """``has_certificate``: whether peers that ask for a certificate get one."""
        self.tls = tls
        self._machine = machine
        self._login = login
        self._has_certificate = has_certificate
        self._tokens = _tokens(login, machine) if isinstance(login, TokenLogin) else None

    async def log_in(self, connection: LoginConnection, within: float) -> bool:
        """Log in, now and later, on a new connection; False if there is no login."""
        if self._login is None:
            return False
        try:
            await SaslSession(connection, self._mechanism, within, self._machine.random).start()
        except AuthenticationError:
            if self._tokens is not None:
                self._tokens.forget()
            raise
        return True

    def tls_failure(self, error: BaseException, where: str) -> KafkaError:
        """What an error of the TLS handshake, or of the connection right after it, means."""
        from moldau.security.tls_errors import tls_failure

        return tls_failure(error, where, has_certificate=self._has_certificate)

    async def _mechanism(self) -> Mechanism:
        """For one login."""
        login = self._login
        if isinstance(login, TokenLogin):
            from moldau.security.oauthbearer import OAuthBearer

            assert self._tokens is not None
            return OAuthBearer(await self._tokens.get(), login.extensions)
        assert isinstance(login, PasswordLogin)
        if login.mechanism == "PLAIN":
            from moldau.security.plain import Plain

            return Plain(login.username, login.password)
        from moldau.security.scram import Scram

        nonce = urlsafe_b64encode(self._machine.secrets.randbytes(_NONCE_BYTES)).decode()
        return Scram(login.mechanism, login.username, login.password, nonce, token=login.token)


def _tokens(login: TokenLogin, machine: Machine) -> Tokens:
    from moldau.security.tokens import Tokens, from_provider

    def now() -> float:
        return machine.clock.now_ms() / 1000

    run = machine.threads.run
    if isinstance(login.source, ClientCredentials):
        from moldau.security.oidc import from_endpoint

        fetch = from_endpoint(login.source, run, now)
    else:
        fetch = from_provider(login.source, run)
    return Tokens(fetch, login.refresh_factor, now)
