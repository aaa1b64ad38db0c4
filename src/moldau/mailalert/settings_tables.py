"""The tables of the settings file, and what the parts of the application are told of them."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from moldau import durations
from moldau.client.settings.base import ALIASES
from moldau.client.settings.security import SecuritySettings
from moldau.config.option import ConfigError
from moldau.mailalert.alert import Severity
from moldau.mailalert.allowed import AllowedRecipients, domains_of
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
    login_without_tls: bool = False
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
    hosts: list[str] = []
    """Names by which this machine is reached, beside its own; addresses need not be listed."""


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
    allowed_recipients: list[str] | None = None
    """Whom alerts may name: addresses, domains (``@example.org``), or everybody (``*``); without
    it, those in the domains of everybody whom this file names."""
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

    def allowed(self) -> AllowedRecipients:
        """Whom the file names may always be named."""
        named = {
            *self.recipients,
            *(address for route in self.routes for address in route.recipients),
            *(address for watch in self.watch for address in watch.recipients),
        }
        entries = self.allowed_recipients
        return AllowedRecipients(named.union(domains_of(named) if entries is None else entries))

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
            password=self.mail_password(),
            login_without_tls=mail.login_without_tls,
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

    def mail_password(self) -> str | None:
        return _secret(self.mail.password, self.mail.password_env)

    def http_token(self) -> str | None:
        return _secret(self.http.token, self.http.token_env)

    def http_address(self) -> tuple[str, int] | None:
        if not self.http.listen:
            return None
        host, _, port = self.http.listen.rpartition(":")
        if not (port.isascii() and port.isdecimal()) or int(port) > 65535:
            raise ConfigError(f"http.listen is {self.http.listen!r}, but must be HOST:PORT")
        return host.strip("[]") or "127.0.0.1", int(port)


def _secret(value: str | None, variable: str | None) -> str | None:
    if variable is None:
        return value
    found = os.environ.get(variable)
    if found is None:
        raise ConfigError(f"the environment variable {variable} is not set")
    return found
