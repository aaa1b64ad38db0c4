"""SASL OAUTHBEARER (RFC 7628, KIP-255): a token instead of a password."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from moldau.security.mechanism import login_failed

_SEPARATOR: Final = "\x01"
_TOKEN: Final = re.compile(r"[-A-Za-z0-9._~+/]+=*")
"""RFC 6750: nothing that could end the field."""
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")


class OAuthBearer:
    name = "OAUTHBEARER"

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        if not _TOKEN.fullmatch(token):
            raise login_failed("OAUTHBEARER: what the token provider gave is no bearer token")
        fields = [f"auth=Bearer {token}"]
        for name, value in (extensions or {}).items():
            if not _EXTENSION_NAME.fullmatch(name) or not _EXTENSION_VALUE.fullmatch(value):
                raise login_failed(f"OAUTHBEARER: extension {name!r} cannot be sent")
            fields.append(f"{name}={value}")
        text = "n,," + "".join(f"{_SEPARATOR}{field}" for field in fields) + _SEPARATOR * 2
        self._message: bytes | None = text.encode()

    def respond(self, challenge: bytes) -> bytes | None:
        if self._message is not None:
            message, self._message = self._message, None
            return message
        # An answer that is not empty says what is wrong, in JSON. The broker refuses the login,
        # with a sentence, when it has got this byte.
        return _SEPARATOR.encode() if challenge else None
