"""Which login the settings describe. No IO: a wrong one is refused when the client is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from moldau.client.security.jaas import LoginModule, parse_jaas
from moldau.config.option import ConfigError

if TYPE_CHECKING:
    from moldau.client.settings.security import SecuritySettings

_WITH_PASSWORD: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_OAUTHBEARER: Final = "OAUTHBEARER"
_CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
_EXTENSION: Final = "extension_"
# Which of the two a user name and a password come in makes no difference, as in Java.
_PASSWORD_MODULES: Final = ("PlainLoginModule", "ScramLoginModule")
_TOKEN_MODULE: Final = "OAuthBearerLoginModule"  # noqa: S105 - a name


@dataclass(frozen=True, repr=False)
class PasswordLogin:
    mechanism: str
    username: str
    password: str
    token: bool = False
    """Whether these are of a delegation token."""


@dataclass(frozen=True, repr=False)
class ClientCredentials:
    """What a token endpoint gives tokens for."""

    url: str
    client_id: str
    secret: str
    scope: str | None
    timeout: float


@dataclass(frozen=True, repr=False)
class TokenLogin:
    source: ClientCredentials | Any
    """Anything else is a provider, or the name of one."""
    refresh_factor: float
    extensions: Mapping[str, str] = field(default_factory=dict)


def login_of(settings: SecuritySettings) -> PasswordLogin | TokenLogin:
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
            f"sasl.mechanism={_OAUTHBEARER} needs sasl.oauthbearer.token.provider or {_ENDPOINT}"
            + (", not both" if url is not None else "")
        )
    if url is None:
        return TokenLogin(provider, factor, extensions)
    if not url.startswith(("https://", "http://")):
        raise ConfigError(f"{_ENDPOINT} must begin with https:// or http://, not {url!r}")
    client_id = settings.sasl_oauthbearer_client_credentials_client_id or options.get("clientId")
    secret = settings.sasl_oauthbearer_client_credentials_client_secret or options.get(
        "clientSecret"
    )
    if not client_id or not secret:
        raise ConfigError(f"{_ENDPOINT} needs {_CLIENT_ID} and ...client.secret")
    scope = settings.sasl_oauthbearer_scope or options.get("scope")
    timeout = settings.sasl_login_read_timeout_ms / 1000
    return TokenLogin(ClientCredentials(url, client_id, secret, scope, timeout), factor, extensions)


def _expect(jaas: LoginModule, *names: str) -> None:
    if jaas.name not in names:
        raise ConfigError(
            f"sasl.jaas.config names {jaas.name}, and this sasl.mechanism needs "
            f"{' or '.join(names)}"
        )
