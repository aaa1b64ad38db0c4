"""The files that certificates and keys come in: PEM, PKCS12 through ``cryptography``, not JKS."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from moldau.config.option import ConfigError
from moldau.extras import how_to_install

_JKS_MAGIC: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_DER_SEQUENCE: Final = b"\x30"
_CONVERT_JKS: Final = (
    "keytool -importkeystore -srckeystore {path} -destkeystore new.p12 -deststoretype PKCS12"
)
_CONVERT_PKCS12: Final = "openssl pkcs12 -in {path} -nodes -out new.pem"


class Store(NamedTuple):
    """What a file held, as PEM."""

    certificates: bytes
    key: bytes = b""

    def __repr__(self) -> str:
        return "Store(...)"


def read_store(setting: str, path: str, kind: str | None, password: str | None) -> Store:
    """The certificates in a file, and the private key if it has one."""
    data = read_file(setting, path)
    if kind in (None, "JKS"):
        # Java reads PKCS12 under the name of JKS, too, and its tools have long made such files.
        kind = _looks_like(data)
    if kind == "JKS":
        raise ConfigError(
            f"{setting}: {path} is a JKS store, which only Java can read; convert it with "
            f"`{_CONVERT_JKS.format(path=path)}`, then `{_CONVERT_PKCS12.format(path='new.p12')}`"
        )
    if kind == "PKCS12":
        return _read_pkcs12(setting, path, data, password)
    if b"-----BEGIN " not in data:
        raise ConfigError(f"{setting}: {path} is neither PEM nor PKCS12")
    return Store(data, data if b"PRIVATE KEY-----" in data else b"")


def read_file(setting: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{setting}: {path}: {error.strerror}") from error


def _looks_like(data: bytes) -> str:
    if data[:4] in _JKS_MAGIC:
        return "JKS"
    return "PKCS12" if data[:1] == _DER_SEQUENCE else "PEM"


def _read_pkcs12(setting: str, path: str, data: bytes, password: str | None) -> Store:
    try:
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
            pkcs12,
        )
    except ImportError:
        raise ConfigError(
            f"{setting}: {path} is a PKCS12 store: {how_to_install('tls')} reads it, or make "
            f"it PEM with `{_CONVERT_PKCS12.format(path=path)}`"
        ) from None
    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError:
        raise ConfigError(
            f"{setting}: {path} cannot be opened as PKCS12: the password is wrong, or the file"
        ) from None
    own = [store.cert] if store.cert is not None else []
    entries = (*own, *store.additional_certs)
    chain = [entry.certificate.public_bytes(Encoding.PEM) for entry in entries]
    if store.key is None:
        return Store(b"".join(chain))
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Store(b"".join(chain), key)
