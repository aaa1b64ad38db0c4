"""The settings file, in TOML. A mistake is explained with its place and a suggestion.

    recipients = ["ops@example.org"]

    [mail]
    host = "smtp.example.org"
    sender = "alerts@example.org"

Everything else has a default; ``moldau mailalert run`` without a file reads from a broker on this
machine and mails to a server on this machine.
"""

from __future__ import annotations

import os
import re
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import msgspec

from moldau import durations
from moldau.client.settings.base import ALIASES
from moldau.client.settings.security import SecuritySettings
from moldau.config.option import ConfigError
from moldau.mailalert.alert import InvalidAlertError, Severity, check_address
from moldau.mailalert.database import DEFAULT_URL
from moldau.mailalert.grouping import GroupingRules
from moldau.mailalert.routing import Route
from moldau.mailalert.sending import RetryRules
from moldau.mailalert.smtp import SmtpSettings


def parse_duration_ms(text: str) -> int:
    """``"500ms"``, ``"1.5s"``, ``"10m"``, ``"24h"``, ``"3d"`` in milliseconds."""
    try:
        return durations.parse_duration_ms(text)
    except ValueError as error:
        raise ConfigError(str(error)) from None


class QueueTable(msgspec.Struct, forbid_unknown_fields=True):
    length: int = 100_000


class MailTable(msgspec.Struct, forbid_unknown_fields=True):
    host: str = "127.0.0.1"
    port: int = 25
    starttls: bool = False
    tls: bool = False
    ca_file: str | None = None
    username: str | None = None
    password: str | None = None
    password_env: str | None = None
    """The name of an environment variable, so that the file needs no secret."""
    sender: str = "moldau@localhost"
    timeout: str = "30s"
    workers: int = 0
    """0 is four per core, at most 16: workers wait for the server most of the time."""
    rate: float = 200.0
    burst: int = 1
    warm_up: str = "0s"
    retry_first: str = "1s"
    retry_max: str = "5m"
    max_attempts: int = 20
    give_up_after: str = "24h"
    uncertain: str = "resend"
    """``resend`` or ``hold``: mails whose fate a crash has left open."""


class DigestTable(msgspec.Struct, forbid_unknown_fields=True):
    window: str = "60s"
    samples: int = 5
    bypass: str = "critical"
    """Alerts of this severity and above go out alone and at once; ``never`` for none."""
    dedupe_window: str = "10m"
    templates: str | None = None


class DatabaseTable(msgspec.Struct, forbid_unknown_fields=True):
    url: str = DEFAULT_URL
    keep: str = "3d"
    keep_failed: str = "30d"
    purge_every: str = "1h"


class HttpTable(msgspec.Struct, forbid_unknown_fields=True):
    listen: str = ""
    """``"127.0.0.1:8090"``; empty for no status page and no webhook."""
    token: str | None = None
    token_env: str | None = None


class RouteTable(msgspec.Struct, forbid_unknown_fields=True):
    recipients: list[str]
    subject: str = "*"
    min_severity: str = "debug"
    go_on: bool = False


class WatchTable(msgspec.Struct, forbid_unknown_fields=True):
    group: str
    topic: str | None = None
    records: int | None = None
    seconds: float | None = None
    clear_below: float = 0.8
    """The part of the threshold below which the alert is cleared."""
    lasting: str = "0s"
    """How long the lag must be above the threshold before anybody is told."""
    quiet_hours: str | None = None
    """``"22:00-06:00"``, local time."""
    severity: str = "error"
    recipients: list[str] = []


class Settings(msgspec.Struct, forbid_unknown_fields=True):
    """The whole file."""

    bootstrap_servers: str = "127.0.0.1:9092"
    topic: str = "alerts"
    group_id: str = "mailalert"
    recipients: list[str] = []
    """For alerts that name nobody and match no route."""
    kafka: dict[str, Any] = {}
    """Further settings of the consumer, by Kafka's names."""
    queue: QueueTable = msgspec.field(default_factory=QueueTable)
    mail: MailTable = msgspec.field(default_factory=MailTable)
    digest: DigestTable = msgspec.field(default_factory=DigestTable)
    database: DatabaseTable = msgspec.field(default_factory=DatabaseTable)
    http: HttpTable = msgspec.field(default_factory=HttpTable)
    routes: list[RouteTable] = []
    watch: list[WatchTable] = []
    watch_every: str = "30s"

    def security(self) -> dict[str, object]:
        """What of ``kafka`` is about TLS and SASL: for the clients beside the consumer, too."""
        given = {ALIASES.get(name, name): value for name, value in self.kafka.items()}
        return {name: value for name, value in given.items() if name in SecuritySettings.table}

    def smtp(self) -> SmtpSettings:
        mail = self.mail
        return SmtpSettings(
            host=mail.host,
            port=mail.port,
            starttls=mail.starttls,
            tls=mail.tls,
            ca_file=mail.ca_file,
            username=mail.username,
            password=_secret(mail.password, mail.password_env),
            sender=mail.sender,
            timeout=parse_duration_ms(mail.timeout) / 1000,
        )

    def retries(self) -> RetryRules:
        mail = self.mail
        return RetryRules(
            first_delay_ms=parse_duration_ms(mail.retry_first),
            max_delay_ms=parse_duration_ms(mail.retry_max),
            max_attempts=mail.max_attempts,
            give_up_after_ms=parse_duration_ms(mail.give_up_after),
            hold_uncertain=mail.uncertain == "hold",
        )

    def grouping(self) -> GroupingRules:
        digest = self.digest
        return GroupingRules(
            window_ms=parse_duration_ms(digest.window),
            bypass=None if digest.bypass == "never" else Severity.parse(digest.bypass),
            dedupe_window_ms=parse_duration_ms(digest.dedupe_window),
        )

    def route_rules(self) -> list[Route]:
        return [
            Route(
                recipients=tuple(route.recipients),
                subject=route.subject,
                min_severity=Severity.parse(route.min_severity),
                go_on=route.go_on,
            )
            for route in self.routes
        ]

    def workers(self) -> int:
        return self.mail.workers or min(16, 4 * (os.cpu_count() or 1))

    def http_token(self) -> str | None:
        return _secret(self.http.token, self.http.token_env)

    def http_address(self) -> tuple[str, int] | None:
        if not self.http.listen:
            return None
        host, _, port = self.http.listen.rpartition(":")
        if not port.isdecimal() or int(port) > 65535:
            raise ConfigError(f"http.listen is {self.http.listen!r}, but must be HOST:PORT")
        return host.strip("[]") or "127.0.0.1", int(port)


def load_settings(path: Path | None) -> Settings:
    """Read and check a file; ``ConfigError`` names the file and what is wrong in it."""
    if path is None:
        return parse_settings({})
    try:
        table = tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    try:
        return parse_settings(table)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def parse_settings(table: dict[str, Any]) -> Settings:
    try:
        settings = msgspec.convert(table, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(_explain(str(error))) from None
    _check(settings)
    return settings


def _check(settings: Settings) -> None:
    """Everything that would fail later fails now."""
    for name, value, least in (
        ("queue.length", settings.queue.length, 1),
        ("mail.burst", settings.mail.burst, 1),
        ("mail.max_attempts", settings.mail.max_attempts, 1),
        ("mail.workers", settings.mail.workers, 0),
        ("digest.samples", settings.digest.samples, 0),
    ):
        if value < least:
            raise ConfigError(f"{name} is {value}, but must be at least {least}")
    if not settings.mail.rate > 0:
        raise ConfigError(f"mail.rate is {settings.mail.rate}, but must be above 0")
    if settings.mail.tls and settings.mail.starttls:
        raise ConfigError("mail.tls and mail.starttls exclude each other")
    if settings.mail.uncertain not in ("resend", "hold"):
        raise ConfigError(
            f"mail.uncertain is {settings.mail.uncertain!r}, but must be resend or hold"
        )
    for duration in (
        settings.mail.warm_up,
        settings.database.keep,
        settings.database.keep_failed,
        settings.database.purge_every,
        settings.watch_every,
        *(watch.lasting for watch in settings.watch),
    ):
        parse_duration_ms(duration)
    everyone = [*settings.recipients, *(who for one in settings.routes for who in one.recipients)]
    try:
        for address in everyone:
            check_address(address)
        settings.route_rules()
        settings.grouping()
        for watch in settings.watch:
            Severity.parse(watch.severity)
    except (InvalidAlertError, ValueError) as error:
        raise ConfigError(str(error)) from None
    for watch in settings.watch:
        if watch.records is None and watch.seconds is None:
            raise ConfigError(f"the watch of group {watch.group!r} needs records or seconds")
    settings.smtp()
    settings.retries()
    settings.http_address()


def _secret(value: str | None, variable: str | None) -> str | None:
    if variable is None:
        return value
    found = os.environ.get(variable)
    if found is None:
        raise ConfigError(f"the environment variable {variable} is not set")
    return found


_UNKNOWN: Final = re.compile(r"Object contains unknown field `(\w+)`(?: - at `\$\.?(.*)`)?")
_TABLES: Final[dict[str, type[msgspec.Struct]]] = {
    "": Settings,
    "queue": QueueTable,
    "mail": MailTable,
    "digest": DigestTable,
    "database": DatabaseTable,
    "http": HttpTable,
    "routes": RouteTable,
    "watch": WatchTable,
}


def _explain(text: str) -> str:
    match = _UNKNOWN.match(text)
    if match is None:
        return text.replace(" - at `$.", ": ").replace("`", "")
    name, place = match[1], re.sub(r"\[.*\]", "", match[2] or "")
    known = [field.name for field in msgspec.structs.fields(_TABLES[place])]
    close = get_close_matches(name, known, n=1)
    where = f" in [{place}]" if place else ""
    hint = f" Did you mean {close[0]!r}?" if close else f" There are: {', '.join(known)}."
    return f"{name!r} is not a setting{where}.{hint}"
