"""The other half of SCRAM (RFC 5802): makes sure that a peer knows a password, without learning it.

What is kept of a password are two keys that are made of it once, with a salt: who reads them can
neither log in with them nor guess a good password. No channel is bound: a proof says who the peer
is, TLS says whom the bytes after it are from.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from enum import Enum
from typing import NamedTuple, Self

from moldau.security.mechanism import login_failed
from moldau.security.scram import HASHES, salted_password


class ScramKeys(NamedTuple):
    """What a server keeps of a password."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    @classmethod
    def of(cls, name: str, password: str, salt: bytes, iterations: int) -> Self:
        """Takes a millisecond for each few thousand iterations."""
        salted = salted_password(name, password, salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", HASHES[name])
        stored_key = hashlib.new(HASHES[name], client_key).digest()
        return cls(salt, iterations, stored_key, hmac.digest(salted, b"Server Key", HASHES[name]))


class ServerState(Enum):
    """Each message leads to the next; anything unexpected is the end."""

    START = "nothing has come yet"
    CHALLENGED = "the name is known, salt and nonce are sent; the proof is to come"
    DONE = "the peer has proved that it knows the password"
    FAILED = "it has not"


class ScramServer:
    """One login of a peer. Each of ``begin`` and ``finish`` is called once, in this order."""

    def __init__(self, name: str, nonce: str) -> None:
        """``nonce`` is for this login alone: it keeps proofs from being used twice."""
        self.state = ServerState.START
        self._hash = HASHES[name]
        self._nonce = nonce
        self._messages = ""
        self._keys: ScramKeys
        self.username = ""

    def begin(self, client_first: bytes) -> None:
        """Read who the peer says to be, into ``username``."""
        self._expect(ServerState.START)
        header, comma, bare = _text(client_first).partition(",,")
        if header != "n" or not comma:
            raise login_failed("SCRAM: neither channel binding nor another's name is served")
        name, nonce = _attributes(bare, "n", "r")
        if not nonce or "," in nonce:
            raise login_failed("SCRAM: the peer has no nonce")
        self.username = _unescaped(name)
        self._messages = bare
        self._nonce = nonce + self._nonce

    def challenge(self, keys: ScramKeys) -> bytes:
        """Returns the server's first message, once it is known which password is to be proved."""
        salt = base64.b64encode(keys.salt).decode()
        server_first = f"r={self._nonce},s={salt},i={keys.iterations}"
        self._keys = keys
        self._messages += f",{server_first}"
        self.state = ServerState.CHALLENGED
        return server_first.encode()

    def finish(self, client_final: bytes) -> bytes:
        """Returns the server's last message, which shows that it knows the password as well.

        Raises SASL_AUTHENTICATION_FAILED if the peer does not.
        """
        self._expect(ServerState.CHALLENGED)
        self.state = ServerState.FAILED
        without_proof, comma, proof = _text(client_final).rpartition(",p=")
        binding, nonce = _attributes(without_proof, "c", "r")
        if not comma or binding != "biws" or nonce != self._nonce:  # biws: n,, in base64
            raise login_failed("SCRAM: the peer's proof is of another login")
        message = f"{self._messages},{without_proof}".encode()
        signature = hmac.digest(self._keys.stored_key, message, self._hash)
        client_key = _xor(_decode(proof, len(signature)), signature)
        stored_key = hashlib.new(self._hash, client_key).digest()
        if not hmac.compare_digest(stored_key, self._keys.stored_key):
            raise login_failed("SCRAM: the peer does not know the password")
        self.state = ServerState.DONE
        verifier = hmac.digest(self._keys.server_key, message, self._hash)
        return b"v=" + base64.b64encode(verifier)

    def _expect(self, state: ServerState) -> None:
        if self.state is not state:
            raise login_failed(f"SCRAM: a message out of turn; {self.state.value}")


def _attributes(message: str, first: str, second: str) -> tuple[str, str]:
    """Returns the values of two attributes that must come in this order; what follows is a part of
    the second.
    """
    one, comma, other = message.partition(",")
    if not (one.startswith(f"{first}=") and comma and other.startswith(f"{second}=")):
        raise login_failed("SCRAM: the peer's message makes no sense")
    return one[2:], other[2:]


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise login_failed("SCRAM: the peer's message is no text") from None


def _decode(text: str, size: int) -> bytes:
    try:
        decoded = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        decoded = b""
    if len(decoded) != size:
        raise login_failed("SCRAM: the peer's proof makes no sense")
    return decoded


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
