"""The TLS context that the settings describe."""

from __future__ import annotations

import ssl
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Final

from moldau.client.security.stores import Store, read_file, read_store
from moldau.config.option import ConfigError

if TYPE_CHECKING:
    from moldau.client.settings.security import SecuritySettings

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def tls_context(settings: SecuritySettings) -> ssl.SSLContext:
    """Reads the files; what is wrong with them is a ``ConfigError``."""
    if settings.ssl_context is not None:
        given: ssl.SSLContext = settings.ssl_context
        return given
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    versions = sorted(_VERSIONS[name] for name in settings.ssl_enabled_protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.check_hostname = settings.ssl_endpoint_identification_algorithm == "https"
    _trust(context, settings)
    _identify(context, settings)
    return context


def has_certificate(settings: SecuritySettings) -> bool:
    """Whether brokers that ask for a certificate get one, as far as the settings say."""
    return any(
        value is not None
        for value in (
            settings.ssl_context,
            settings.ssl_keystore_location,
            settings.ssl_keystore_key,
        )
    )


def _trust(context: ssl.SSLContext, settings: SecuritySettings) -> None:
    location, text = settings.ssl_truststore_location, settings.ssl_truststore_certificates
    if location is None and text is None:
        context.load_default_certs()
        return
    setting = "ssl.truststore.location" if text is None else "ssl.truststore.certificates"
    try:
        if location is not None and Path(location).is_dir():
            context.load_verify_locations(capath=location)
        elif location is not None:
            kind, password = settings.ssl_truststore_type, settings.ssl_truststore_password
            store = read_store(setting, location, kind, password)
            context.load_verify_locations(cadata=store.certificates.decode("ascii", "ignore"))
        else:
            context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{setting} has no certificates that can be read: {error}") from None


def _identify(context: ssl.SSLContext, settings: SecuritySettings) -> None:
    store = _own_store(settings)
    if store is None:
        return
    if not store.key:
        raise ConfigError(
            f"ssl.keystore.location: {settings.ssl_keystore_location} has no private key, and "
            "ssl.key.location does not say where it is"
        )
    # OpenSSL reads these from files only; this one is gone before anybody is connected.
    with NamedTemporaryFile(prefix="moldau-", suffix=".pem") as file:
        file.write(store.key)
        if store.certificates is not store.key:
            file.write(b"\n" + store.certificates)
        file.flush()
        try:
            # A password there always is: without one, OpenSSL would ask at the terminal.
            context.load_cert_chain(file.name, password=settings.ssl_key_password or "")
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(
                "The client's certificate and private key (ssl.keystore) cannot be used: they do "
                f"not belong together, or ssl.key.password is wrong ({_reason(error)})"
            ) from None


def _own_store(settings: SecuritySettings) -> Store | None:
    if settings.ssl_keystore_key is not None:
        chain = settings.ssl_keystore_certificate_chain or ""
        return Store(chain.encode(), settings.ssl_keystore_key.encode())
    location = settings.ssl_keystore_location
    if location is None:
        return None
    kind, password = settings.ssl_keystore_type, settings.ssl_keystore_password
    store = read_store("ssl.keystore.location", location, kind, password)
    if settings.ssl_key_location is None:
        return store
    return store._replace(key=read_file("ssl.key.location", settings.ssl_key_location))


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or type(error).__name__
