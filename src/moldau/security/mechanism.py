"""What the ways to log in have in common. They know no network: bytes in, bytes out."""

from __future__ import annotations

from typing import Protocol

from moldau.errors import ErrorCode
from moldau.request_errors import AuthenticationError


class Mechanism(Protocol):
    """One login; a new one is made for the next."""

    @property
    def name(self) -> str:
        """As in ``sasl.mechanism``."""
        ...

    def respond(self, challenge: bytes) -> bytes | None:
        """What to send next: first for nothing, then for each answer; None when logged in."""
        ...


def login_failed(why: str) -> AuthenticationError:
    """What this side found wrong with the other one."""
    return AuthenticationError(ErrorCode.SASL_AUTHENTICATION_FAILED, why)
