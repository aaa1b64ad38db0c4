"""What all classes of settings do: take names with dots or underscores, and refuse what is wrong.

    ProducerSettings({"linger.ms": 10}, bootstrap_servers="localhost:9092")

A name that is unknown, belongs to another kind of client, or stands for something this client
cannot do is a ``ConfigError`` that says which of these it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, ClassVar, Final, Self

from moldau.config.option import HIDDEN, REQUIRED, AnyOption, ConfigError, Options

UNSUPPORTED: Final[Mapping[str, str]] = {
    "sasl.kerberos.": "this client has no GSSAPI (Kerberos)",
    "sasl.": "this client has no use for it",
    "ssl.cipher.suites": "Java's names mean nothing to OpenSSL; pass an ssl_context",
    "ssl.": "it is about Java's TLS; what is missing here an ssl_context can do",
    "security.providers": "there are no Java security providers in Python",
    "metric.reporters": "there are no Java metric reporters in Python; call metrics()",
    "config.providers": "there are no Java config providers in Python; pass the value itself",
}
"""Kafka's names that mean nothing here: they would be dangerous to ignore."""

ALIASES: Final[Mapping[str, str]] = {
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.location",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}
"""Names of librdkafka, which Python's programs know, and Kafka's names for the same."""

_KINDS: Final[dict[str, type[Settings]]] = {}
"""All kinds of clients, for telling that a setting belongs to another one."""


class Settings(Options):
    """Frozen, typed settings. ``explicit`` has the names that were given, not left at default."""

    kind: ClassVar[str] = ""
    """What the client is called in messages: a producer, a consumer, an admin client."""
    explicit: frozenset[str]
    _given: Mapping[str, object]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.kind:
            _KINDS[cls.kind] = cls

    def __init__(self, config: Mapping[str, object] | None = None, /, **settings: object) -> None:
        given = dict(self._named(config, settings))
        values = {
            option.attribute: option.read(given[name]) if name in given else self._default(option)
            for name, option in self.table.items()
        }
        values["explicit"] = frozenset(given)
        values["_given"] = given
        self._derive(values)
        vars(self).update(values)
        self._check()

    def replace(self, **changes: object) -> Self:
        """The same settings with some of them changed."""
        return type(self)({**self._given, **dict(self._named(None, changes))})

    def given(self, kind: type[Settings]) -> dict[str, object]:
        """What was given of the settings that clients of another kind have too."""
        return {name: value for name, value in self._given.items() if name in kind.table}

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"settings do not change; use replace({name}=...)")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Settings) or type(self) is not type(other):
            return False
        return all(
            getattr(self, option.attribute) == getattr(other, option.attribute)
            for option in self.table.values()
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{option.attribute}={self._shown(option)}"
            for option in (self.table[name] for name in sorted(self.explicit))
        )
        return f"{type(self).__name__}({shown})"

    def _derive(self, values: dict[str, Any]) -> None:
        """Change defaults that depend on what was given, before the values are frozen."""

    def _check(self) -> None:
        """Refuse settings that contradict each other."""

    def _shown(self, option: AnyOption) -> str:
        value = getattr(self, option.attribute)
        return HIDDEN if option.sensitive and value is not None else repr(value)

    def _default(self, option: AnyOption) -> object:
        if option.default is REQUIRED:
            what = self.kind or "a client"
            raise ConfigError(f"{what.capitalize()} needs {option.name}: {option.doc}")
        return option.default

    def _named(
        self, config: Mapping[str, object] | None, settings: Mapping[str, object]
    ) -> Iterator[tuple[str, object]]:
        if config is not None and not isinstance(config, Mapping):
            raise ConfigError(
                f"Settings are a dictionary or keyword arguments such as bootstrap_servers=..., "
                f"not {config!r}"
            )
        seen: set[str] = set()
        for source in (config or {}, settings):
            for key, value in source.items():
                # Kafka's names have no underscores, so either spelling means one setting.
                name = key.replace("_", ".")
                name = ALIASES.get(name, name)
                if name not in self.table:
                    raise ConfigError(self._unknown(key, name))
                if name in seen:
                    raise ConfigError(f"{name} is given twice")
                seen.add(name)
                yield name, value

    def _unknown(self, key: str, name: str) -> str:
        what = self.kind or "a client"
        for prefix, reason in UNSUPPORTED.items():
            if name.startswith(prefix):
                return f"{key!r} is not supported: {reason}"
        owners = [kind for kind, other in _KINDS.items() if name in other.table]
        if owners:
            return f"{key!r} is a setting of {' and '.join(owners)}, not of {what}"
        close = get_close_matches(name, self.table, n=1, cutoff=0.6)
        if not close:
            return f"There is no setting {key!r} of {what}; docs/client-settings.md lists them"
        meant = close[0] if "." in key or "_" not in key else close[0].replace(".", "_")
        return f"There is no setting {key!r} of {what}: did you mean {meant!r}?"
