"""SASL SCRAM (RFC 5802, RFC 7677): proves a password without sending it, and asks for the same.

The broker's signature is checked: one that does not know the password is not talked to. Names and
passwords are taken as they are, in UTF-8: RFC 5802 wants them prepared (SASLprep), but Kafka's
brokers, tools and clients never did, and a password prepared on one side only would not fit.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from enum import Enum
from typing import Final

from moldau.printable import LONGEST_LINE, printable
from moldau.security.mechanism import login_failed

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

MIN_ITERATIONS: Final = 4096
"""Fewer would make the password easy to guess for who listens; Kafka has the same limit."""
MAX_ITERATIONS: Final = 16 * 16_384
"""Sixteen times what Kafka allows: no server may keep this client busy for seconds."""
_MAX_DIGITS: Final = 10


class State(Enum):
    """Each answer leads to the next; anything unexpected is the end."""

    START = "nothing is sent yet"
    FIRST_SENT = "name and nonce are sent; salt and iterations are to come"
    FINAL_SENT = "the proof is sent; the broker's signature is to come"
    DONE = "both sides have proved that they know the password"


class Scram:
    """One login."""

    def __init__(
        self,
        name: str,
        username: str,
        password: str,
        nonce: str,
        *,
        token: bool = False,
    ) -> None:
        """``nonce`` is for this login alone; ``token`` says that name and password are of a
        delegation token (KIP-48).
        """
        self.name = name
        self.state = State.START
        self._hash = HASHES[name]
        self._password = password.encode()
        self._nonce = nonce
        escaped = username.replace("=", "=3D").replace(",", "=2C")
        self._first = f"n={escaped},r={self._nonce}" + (",tokenauth=true" if token else "")
        self._signature = b""

    def respond(self, challenge: bytes) -> bytes | None:
        match self.state:
            case State.START:
                self.state = State.FIRST_SENT
                return f"n,,{self._first}".encode()
            case State.FIRST_SENT:
                answer = self._prove(_text(challenge))
                self.state = State.FINAL_SENT
                return answer
            case State.FINAL_SENT:
                self._verify(_text(challenge))
                self.state = State.DONE
                return None
            case State.DONE:
                raise login_failed(f"{self.name}: the broker goes on after the end of the login")

    def _prove(self, server_first: str) -> bytes:
        fields = _fields(server_first)
        nonce = fields.get("r", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise login_failed(f"{self.name}: the broker's nonce does not continue ours")
        salt = _decode(fields.get("s", ""))
        iterations = self._iterations(fields.get("i", ""))
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        final = f"c={_encode(b'n,,')},r={nonce}"
        message = f"{self._first},{server_first},{final}".encode()
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash, client_key).digest()
        client_signature = self._hmac(stored_key, message)
        proof = bytes(a ^ b for a, b in zip(client_key, client_signature, strict=True))
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), message)
        return f"{final},p={_encode(proof)}".encode()

    def _iterations(self, text: str) -> int:
        # Longer numbers are too large anyway, and Python refuses to read those of 5,000 digits.
        is_number = text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS
        iterations = int(text) if is_number else 0
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            asked = printable(text, 20) or "no"
            raise login_failed(
                f"{self.name}: the broker asks for {asked} iterations; this client takes "
                f"{MIN_ITERATIONS} to {MAX_ITERATIONS}"
            )
        return iterations

    def _verify(self, server_final: str) -> None:
        fields = _fields(server_final)
        if "e" in fields:
            raise login_failed(f"{self.name}: {printable(fields['e'], LONGEST_LINE)}")
        if not hmac.compare_digest(_decode(fields.get("v", "")), self._signature):
            raise login_failed(
                f"{self.name}: the broker's signature is wrong, so it does not know the password"
            )

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def salted_password(name: str, password: str, salt: bytes, iterations: int) -> bytes:
    """What a cluster is told when a user is made (KIP-554), instead of the password."""
    return hashlib.pbkdf2_hmac(HASHES[name], password.encode(), salt, iterations)


def _fields(message: str) -> dict[str, str]:
    fields = {}
    for field in message.split(","):
        name, equals, value = field.partition("=")
        if not equals or len(name) != 1:
            raise login_failed("SCRAM: the broker's message makes no sense")
        fields[name] = value
    if "m" in fields:
        raise login_failed("SCRAM: the broker demands an extension that this client does not know")
    return fields


def _text(challenge: bytes) -> str:
    try:
        return challenge.decode()
    except UnicodeDecodeError:
        raise login_failed("SCRAM: the broker's message is no text") from None


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise login_failed("SCRAM: the broker's message makes no sense") from None
