"""Whether settings make sense together: everything that would fail later fails now, by its name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import parseaddr
from pathlib import Path
from typing import Final

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from moldau.client.settings import ConsumerSettings
from moldau.config.option import ConfigError
from moldau.mailalert.alert import Severity, check_address
from moldau.mailalert.allowed import check_entry
from moldau.mailalert.lag import QuietHours
from moldau.mailalert.settings_tables import (
    DatabaseTable,
    HttpTable,
    MailTable,
    Settings,
    WatchTable,
    parse_duration_ms,
)
from moldau.security.loopback import is_loopback


class WrongSettingError(ConfigError):
    """``place`` is the setting's name, with its table: ``mail.port``, ``routes[1].subject``."""

    def __init__(self, place: str, message: str) -> None:
        super().__init__(message)
        self.place = place


def check(settings: Settings) -> None:
    _least("queue.length", settings.queue.length, 1)
    _check_mail(settings, settings.mail)
    _check_digest(settings)
    _check_database(settings.database)
    _check_http(settings, settings.http)
    _addresses("recipients", settings.recipients)
    with _place("allowed_recipients"):
        for entry in settings.allowed_recipients or ():
            check_entry(entry)
    for number, route in enumerate(settings.routes):
        _addresses(f"routes[{number}].recipients", route.recipients)
        _severity(f"routes[{number}].min_severity", route.min_severity)
    for number, watch in enumerate(settings.watch):
        check_watch(f"watch[{number}]", watch)
    _duration("watch_every", settings.watch_every, longer_than=0)
    with _place("kafka"):
        own = {"bootstrap.servers": settings.bootstrap_servers, "group.id": settings.group_id}
        ConsumerSettings({**settings.kafka, **own})


def _check_mail(settings: Settings, mail: MailTable) -> None:
    for name, value, least in (
        ("mail.burst", mail.burst, 1),
        ("mail.max_attempts", mail.max_attempts, 1),
        ("mail.workers", mail.workers, 0),
        ("mail.port", mail.port, 1),
    ):
        _least(name, value, least)
    if mail.port > 65535:
        raise WrongSettingError("mail.port", f"mail.port is {mail.port}, but must be below 65536")
    if not mail.rate > 0:
        raise WrongSettingError("mail.rate", f"mail.rate is {mail.rate}, but must be above 0")
    if mail.tls and mail.starttls:
        raise WrongSettingError("mail.tls", "mail.tls and mail.starttls exclude each other")
    if mail.uncertain not in ("resend", "hold"):
        message = f"mail.uncertain is {mail.uncertain!r}, but must be resend or hold"
        raise WrongSettingError("mail.uncertain", message)
    with _place("mail.sender"):
        check_address(parseaddr(mail.sender)[1] or mail.sender)
    _duration("mail.timeout", mail.timeout, longer_than=0)
    for name in ("warm_up", "retry_first", "retry_max", "give_up_after"):
        _duration(f"mail.{name}", getattr(mail, name))
    _check_login(settings, mail)


def _check_login(settings: Settings, mail: MailTable) -> None:
    if mail.ca_file is not None and not Path(mail.ca_file).is_file():
        raise WrongSettingError("mail.ca_file", f"mail.ca_file: there is no file {mail.ca_file}")
    with _place("mail.password_env"):
        password = settings.mail_password()
    if mail.username is not None and password is None:
        message = "mail.username needs mail.password or mail.password_env"
        raise WrongSettingError("mail.username", message)
    with _place("mail.username"):
        settings.smtp()


def _check_digest(settings: Settings) -> None:
    digest = settings.digest
    _least("digest.samples", digest.samples, 0)
    _duration("digest.window", digest.window)
    _duration("digest.dedupe_window", digest.dedupe_window)
    if digest.bypass != "never":
        _severity("digest.bypass", digest.bypass)
    if digest.templates is not None and not Path(digest.templates).is_dir():
        message = f"digest.templates: there is no folder {digest.templates}"
        raise WrongSettingError("digest.templates", message)


_DATABASES: Final = ("sqlite", "postgresql")


def _check_database(database: DatabaseTable) -> None:
    _duration("database.keep", database.keep)
    _duration("database.keep_failed", database.keep_failed)
    _duration("database.purge_every", database.purge_every, longer_than=0)
    try:
        url = make_url(database.url)
        backend = url.get_backend_name()
    except (ArgumentError, ValueError):  # not with its text: there may be a password in it
        message = (
            "database.url is no address of a database, such as sqlite:////var/lib/mailalert.db "
            "or postgresql+psycopg://user@host/name"
        )
        raise WrongSettingError("database.url", message) from None
    if backend not in _DATABASES:
        message = f"database.url is of {backend}, but must be of {' or '.join(_DATABASES)}"
        raise WrongSettingError("database.url", message)
    if backend == "sqlite" and url.database in (None, "", ":memory:"):
        message = "database.url has no file: alerts in memory would be lost with the process"
        raise WrongSettingError("database.url", message)


def _check_http(settings: Settings, http: HttpTable) -> None:
    with _place("http.listen"):
        address = settings.http_address()
    with _place("http.token_env"):
        token = settings.http_token()
    if token is not None and not token.strip():
        raise WrongSettingError("http.token", "http.token is empty: everybody would know it")
    if address is not None and token is None and not is_loopback(address[0]):
        message = (
            f"http.listen is {http.listen!r}, which other machines reach: "
            "set http.token or http.token_env, or listen on 127.0.0.1"
        )
        raise WrongSettingError("http.listen", message)


def check_watch(place: str, watch: WatchTable) -> None:
    if watch.records is None and watch.seconds is None:
        message = f"the watch of group {watch.group!r} needs records or seconds"
        raise WrongSettingError(place, message)
    if watch.records is not None:
        _least(f"{place}.records", watch.records, 1)
    if not 0 < watch.clear_below <= 1:
        message = f"{place}.clear_below is {watch.clear_below}, but must be above 0 and at most 1"
        raise WrongSettingError(f"{place}.clear_below", message)
    _duration(f"{place}.lasting", watch.lasting)
    _severity(f"{place}.severity", watch.severity)
    _addresses(f"{place}.recipients", watch.recipients)
    if watch.quiet_hours is not None:
        with _place(f"{place}.quiet_hours"):
            QuietHours.parse(watch.quiet_hours)


def _least(place: str, value: int, least: int) -> None:
    if value < least:
        raise WrongSettingError(place, f"{place} is {value}, but must be at least {least}")


def _duration(place: str, text: str, longer_than: int = -1) -> None:
    with _place(place):
        if parse_duration_ms(text) <= longer_than:
            raise ValueError(f"{text!r} is too short")


def _severity(place: str, text: str) -> None:
    with _place(place):
        Severity.parse(text)


def _addresses(place: str, addresses: list[str]) -> None:
    with _place(place):
        for address in addresses:
            check_address(address)


@contextmanager
def _place(place: str) -> Iterator[None]:
    """Whatever is wrong in the block is wrong with this setting."""
    try:
        yield
    except (ConfigError, ValueError) as error:
        text = str(error)
        said = text if text.startswith(place) else f"{place}: {text}"
        raise WrongSettingError(place, said) from None
