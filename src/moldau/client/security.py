"""From the settings of a client to its TLS context and its login.

``login_of`` does no IO: settings that describe no login are refused when a client is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from moldau.client.plugins import load_plugin
from moldau.config.option import ConfigError
from moldau.machine import Machine
from moldau.security.client import ClientSecurity
from moldau.security.jaas import LoginModule, parse_jaas
from moldau.security.logins import ENDPOINT, ClientCredentials, Login, PasswordLogin, TokenLogin

if TYPE_CHECKING:
    from ssl import SSLContext

    from moldau.client.settings.security import SecuritySettings

_WITH_PASSWORD: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_OAUTHBEARER: Final = "OAUTHBEARER"
_PROVIDER: Final = "sasl.oauthbearer.token.provider"
_CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
_EXTENSION: Final = "extension_"
# Which of the two a user name and a password come in makes no difference, as in Java.
_PASSWORD_MODULES: Final = ("PlainLoginModule", "ScramLoginModule")
_TOKEN_MODULE: Final = "OAuthBearerLoginModule"  # noqa: S105 - a name


def security_of(settings: SecuritySettings, machine: Machine) -> ClientSecurity:
    """For a protocol other than PLAINTEXT. Reads certificates; ``ConfigError`` if they are bad."""
    login = login_of(settings) if settings.uses_sasl else None
    if isinstance(login, TokenLogin) and not isinstance(login.source, ClientCredentials):
        login = replace(login, source=load_plugin(login.source, _PROVIDER))
    tls = tls_of(settings) if settings.uses_tls else None
    return ClientSecurity(machine, tls, login, has_certificate=_has_certificate(settings))


def tls_of(settings: SecuritySettings) -> SSLContext:
    """The TLS context that the settings give, or describe."""
    if settings.ssl_context is not None:
        context: SSLContext = settings.ssl_context
        return context
    from moldau.security.tls import TlsFiles, client_context

    files = TlsFiles(
        truststore_location=settings.ssl_truststore_location,
        truststore_certificates=settings.ssl_truststore_certificates,
        truststore_type=settings.ssl_truststore_type,
        truststore_password=settings.ssl_truststore_password,
        keystore_location=settings.ssl_keystore_location,
        keystore_certificate_chain=settings.ssl_keystore_certificate_chain,
        keystore_key=settings.ssl_keystore_key,
        keystore_type=settings.ssl_keystore_type,
        keystore_password=settings.ssl_keystore_password,
        key_location=settings.ssl_key_location,
        key_password=settings.ssl_key_password,
    )
    return client_context(
        files,
        protocols=settings.ssl_enabled_protocols,
        check_hostname=settings.ssl_endpoint_identification_algorithm == "https",
    )


def _has_certificate(settings: SecuritySettings) -> bool:
    """Returns whether brokers that ask for a certificate get one, as far as the settings say."""
    return any(
        value is not None
        for value in (
            settings.ssl_context,
            settings.ssl_keystore_location,
            settings.ssl_keystore_key,
        )
    )


def login_of(settings: SecuritySettings) -> Login:
    """The login of a client whose protocol has one."""
    mechanism = settings.sasl_mechanism
    known = ", ".join((*_WITH_PASSWORD, _OAUTHBEARER))
    if "sasl.mechanism" not in settings.explicit:
        raise ConfigError(
            f"security.protocol={settings.security_protocol} needs sasl.mechanism: one of {known}"
        )
    if mechanism == "GSSAPI":
        raise ConfigError(f"sasl.mechanism=GSSAPI (Kerberos) is not supported; there is {known}")
    jaas = None if settings.sasl_jaas_config is None else parse_jaas(settings.sasl_jaas_config)
    if mechanism == _OAUTHBEARER:
        return _with_token(settings, jaas)
    if mechanism in _WITH_PASSWORD:
        return _with_password(settings, jaas)
    raise ConfigError(f"sasl.mechanism={mechanism} is not supported; there is {known}")


def _with_password(settings: SecuritySettings, jaas: LoginModule | None) -> PasswordLogin:
    username, password, token = settings.sasl_username, settings.sasl_password, False
    if jaas is not None:
        if username is not None or password is not None:
            raise ConfigError("sasl.jaas.config excludes sasl.username and sasl.password")
        _expect(jaas, *_PASSWORD_MODULES)
        username, password = jaas.options.get("username"), jaas.options.get("password")
        token = jaas.options.get("tokenauth", "").lower() == "true"
        if username is None or password is None:
            raise ConfigError("sasl.jaas.config has no username or no password")
    if username is None or password is None:
        raise ConfigError(
            f"sasl.mechanism={settings.sasl_mechanism} needs sasl.username and sasl.password, or "
            "sasl.jaas.config"
        )
    if not username or "\0" in username + password:
        raise ConfigError("The SASL user name is empty, or it or the password has a zero byte")
    return PasswordLogin(settings.sasl_mechanism, username, password, token)


def _with_token(settings: SecuritySettings, jaas: LoginModule | None) -> TokenLogin:
    options: Mapping[str, str] = {}
    if jaas is not None:
        _expect(jaas, _TOKEN_MODULE)
        options = jaas.options
    extensions = {
        name.removeprefix(_EXTENSION): value
        for name, value in options.items()
        if name.startswith(_EXTENSION)
    }
    factor = settings.sasl_login_refresh_window_factor
    provider, url = (
        settings.sasl_oauthbearer_token_provider,
        settings.sasl_oauthbearer_token_endpoint_url,
    )
    if (provider is None) == (url is None):
        raise ConfigError(
            f"sasl.mechanism={_OAUTHBEARER} needs {_PROVIDER} or {ENDPOINT}"
            + (", not both" if url is not None else "")
        )
    if url is None:
        return TokenLogin(provider, factor, extensions)
    client_id = settings.sasl_oauthbearer_client_credentials_client_id or options.get("clientId")
    secret = settings.sasl_oauthbearer_client_credentials_client_secret or options.get(
        "clientSecret"
    )
    if not client_id or not secret:
        raise ConfigError(f"{ENDPOINT} needs {_CLIENT_ID} and ...client.secret")
    scope = settings.sasl_oauthbearer_scope or options.get("scope")
    timeout = settings.sasl_login_read_timeout_ms / 1000
    return TokenLogin(ClientCredentials(url, client_id, secret, scope, timeout), factor, extensions)


def _expect(jaas: LoginModule, *names: str) -> None:
    if jaas.name not in names:
        raise ConfigError(
            f"sasl.jaas.config names {jaas.name}, and this sasl.mechanism needs "
            f"{' or '.join(names)}"
        )
