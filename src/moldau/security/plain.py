"""SASL PLAIN (RFC 4616): name and password as they are, so it belongs inside TLS."""

from __future__ import annotations


class Plain:
    name = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        self._message: bytes | None = f"\0{username}\0{password}".encode()

    def respond(self, challenge: bytes) -> bytes | None:  # noqa: ARG002 - there are none
        message, self._message = self._message, None
        return message
