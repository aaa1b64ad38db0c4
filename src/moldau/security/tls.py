"""TLS contexts from certificate files, whose settings errors name.

The files are read here, and nowhere else: this is no part of a simulated machine.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Final

from moldau.config.option import ConfigError
from moldau.security.stores import Store, read_file, read_store

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, kw_only=True, repr=False)
class TlsFiles:
    """Whom to trust and who we are, by Kafka's settings of these names behind ``ssl.``."""

    truststore_location: str | None = None
    truststore_certificates: str | None = None
    truststore_type: str | None = None
    truststore_password: str | None = None
    keystore_location: str | None = None
    keystore_certificate_chain: str | None = None
    keystore_key: str | None = None
    keystore_type: str | None = None
    keystore_password: str | None = None
    key_location: str | None = None
    key_password: str | None = None


def client_context(
    files: TlsFiles, *, protocols: Sequence[str] = tuple(_VERSIONS), check_hostname: bool = True
) -> ssl.SSLContext:
    """The context of who connects. What is wrong with the files is a ``ConfigError``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    versions = sorted(_VERSIONS[name] for name in protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.check_hostname = check_hostname
    _trust(context, files)
    _identify(context, files)
    return context


def _trust(context: ssl.SSLContext, files: TlsFiles) -> None:
    location, text = files.truststore_location, files.truststore_certificates
    if location is None and text is None:
        context.load_default_certs()
        return
    setting = "ssl.truststore.location" if text is None else "ssl.truststore.certificates"
    try:
        if location is not None and Path(location).is_dir():
            context.load_verify_locations(capath=location)
        elif location is not None:
            kind, password = files.truststore_type, files.truststore_password
            store = read_store(setting, location, kind, password)
            context.load_verify_locations(cadata=store.certificates.decode("ascii", "ignore"))
        else:
            context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{setting} has no certificates that can be read: {error}") from None


def _identify(context: ssl.SSLContext, files: TlsFiles) -> None:
    store = _own_store(files)
    if store is None:
        return
    if not store.key:
        raise ConfigError(
            f"ssl.keystore.location: {files.keystore_location} has no private key, and "
            "ssl.key.location does not say where it is"
        )
    try:
        with _path_of(store.certificates) as chain, _path_of(store.key) as key:
            # A password there always is: without one, OpenSSL would ask at the terminal.
            context.load_cert_chain(chain, key, password=files.key_password or "")
    except (OSError, ValueError) as error:
        raise ConfigError(
            "The client's certificate and private key (ssl.keystore) cannot be used: they do "
            f"not belong together, or ssl.key.password is wrong ({_reason(error)})"
        ) from None


@contextmanager
def _path_of(pem: bytes) -> Iterator[str]:
    """The name of a pipe with these bytes: OpenSSL reads what has a name, and a private key,
    decrypted by us or given as text, must never be in a file, not even in one that is soon gone.
    """
    reading, writing = os.pipe()
    writer = Thread(target=_write, args=(writing, pem), daemon=True)
    writer.start()
    try:
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)
        writer.join()


def _write(descriptor: int, data: bytes) -> None:
    with suppress(BrokenPipeError), open(descriptor, "wb") as pipe:  # who reads may have enough
        pipe.write(data)


def _own_store(files: TlsFiles) -> Store | None:
    if files.keystore_key is not None:
        chain = files.keystore_certificate_chain or ""
        return Store(chain.encode(), files.keystore_key.encode())
    location = files.keystore_location
    if location is None:
        return None
    kind, password = files.keystore_type, files.keystore_password
    store = read_store("ssl.keystore.location", location, kind, password)
    if files.key_location is None:
        return store
    return store._replace(key=read_file("ssl.key.location", files.key_location))


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or type(error).__name__
