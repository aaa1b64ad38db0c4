"""Handing a mail to a mail server, and what the server made of it.

One connection per worker, kept while there is work. ``deliver`` calls back right before the text
goes out: everything before that point certainly did not send anything.
"""

from __future__ import annotations

import contextlib
import smtplib
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.policy import SMTPUTF8 as SMTPUTF8_POLICY
from email.utils import parseaddr
from typing import Final

from moldau.config.option import ConfigError

_PERMANENT: Final = 500


@dataclass(frozen=True, slots=True)
class SmtpSettings:
    host: str
    port: int
    starttls: bool
    tls: bool
    """TLS from the first byte (port 465)."""
    ca_file: str | None
    username: str | None
    password: str | None = field(repr=False)
    login_without_tls: bool
    """Whether everybody on the way may read name and password."""
    sender: str
    """An address, or a name and an address: ``Alerts <alerts@example.org>``."""
    timeout: float

    def __post_init__(self) -> None:
        encrypted = self.tls or self.starttls
        if self.username is not None and not encrypted and not self.login_without_tls:
            raise ConfigError(
                "mail.username without mail.starttls or mail.tls: everybody on the way could read "
                "the password (mail.login_without_tls = true sends it nevertheless)"
            )

    @property
    def envelope_sender(self) -> str:
        return parseaddr(self.sender)[1]


class ServerUnavailableError(Exception):
    """The server cannot be reached, or takes nothing at all now. No mail is to blame."""


class AnswerLostError(Exception):
    """The text went out and the connection broke: whether the mail was taken is not known."""


class NotAcceptedError(Exception):
    """This mail was not taken; later it may be, unless ``permanent``."""

    def __init__(self, message: str, *, permanent: bool) -> None:
        super().__init__(message)
        self.permanent = permanent


@dataclass(frozen=True, slots=True)
class Delivered:
    """The server took the mail, for these."""

    later: tuple[str, ...] = ()
    """Recipients that were put off (greylisting)."""
    never: tuple[str, ...] = ()
    """Recipients that were refused for good."""
    error: str | None = None


class Mailer:
    """One connection to the server; not thread-safe."""

    def __init__(self, settings: SmtpSettings) -> None:
        self._settings = settings
        self._connection: smtplib.SMTP | None = None

    def deliver(
        self,
        message: EmailMessage,
        recipients: Sequence[str],
        handing_over: Callable[[], None],
    ) -> Delivered:
        """Send one mail. ``handing_over`` is called before the server gets the text."""
        connection = self._connected()
        handed_over = False

        def last_step() -> None:
            nonlocal handed_over
            handing_over()
            handed_over = True

        try:
            return self._transaction(connection, message, recipients, last_step)
        except smtplib.SMTPResponseException as error:
            if error.smtp_code == 421:
                self._hang_up()
                raise ServerUnavailableError(_answer(error)) from error
            self._reset()
            raise NotAcceptedError(
                _answer(error), permanent=error.smtp_code >= _PERMANENT
            ) from error
        except (smtplib.SMTPException, OSError) as error:
            self._hang_up()
            said = f"{self._where}: {error}"
            if handed_over:
                raise AnswerLostError(said) from error
            raise ServerUnavailableError(said) from error
        except BaseException:
            # Whatever it was: the next mail must not find half a mail on this connection.
            self._reset()
            raise

    def connect(self) -> None:
        """Make the connection if there is none: ``ServerUnavailableError`` if that fails."""
        if self._connection is None:
            self._connected()

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(smtplib.SMTPException, OSError):
                self._connection.quit()
        self._hang_up()

    def _hang_up(self) -> None:
        """Without a word: a server that does not answer would keep us waiting once more."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @property
    def _where(self) -> str:
        return f"{self._settings.host}:{self._settings.port}"

    def _connected(self) -> smtplib.SMTP:
        connection = self._connection
        if connection is not None:
            try:
                if connection.noop()[0] == 250:
                    return connection
            except (smtplib.SMTPException, OSError):
                pass  # the server closes idle connections; a new one is made
            self._hang_up()
        settings = self._settings
        context = ssl.create_default_context(cafile=settings.ca_file)
        try:
            if settings.tls:
                connection = smtplib.SMTP_SSL(
                    settings.host, settings.port, timeout=settings.timeout, context=context
                )
            else:
                connection = smtplib.SMTP(settings.host, settings.port, timeout=settings.timeout)
            self._connection = connection
            connection.ehlo_or_helo_if_needed()
            if settings.starttls:
                connection.starttls(context=context)
                connection.ehlo()
            if settings.username is not None:
                connection.login(settings.username, settings.password or "")
        except (smtplib.SMTPException, OSError) as error:
            self._hang_up()
            text = _answer(error) if isinstance(error, smtplib.SMTPResponseException) else error
            raise ServerUnavailableError(f"{self._where}: {text}") from error
        return connection

    def _transaction(
        self,
        connection: smtplib.SMTP,
        message: EmailMessage,
        recipients: Sequence[str],
        handing_over: Callable[[], None],
    ) -> Delivered:
        ascii_only = [one for one in recipients if with_ascii_domain(one).isascii()]
        international = len(ascii_only) < len(recipients) and connection.has_extn("smtputf8")
        if not international and len(ascii_only) < len(recipients):
            del message["To"]
            message["To"] = ", ".join(map(with_ascii_domain, ascii_only))
        text = message.as_bytes(policy=SMTPUTF8_POLICY if international else SMTP_POLICY)
        refused = self._envelope(connection, recipients, international=international)
        later = tuple(who for who, (code, _) in refused.items() if code < _PERMANENT)
        never = tuple(who for who, (code, _) in refused.items() if code >= _PERMANENT)
        said = "; ".join(f"{who}: {answer}" for who, (_, answer) in refused.items()) or None
        if len(refused) == len(recipients):
            self._reset()
            raise NotAcceptedError(said or "", permanent=not later)
        handing_over()
        code, answer = connection.data(text)
        if code != 250:
            raise smtplib.SMTPDataError(code, answer)
        return Delivered(later, never, said)

    def _envelope(
        self, connection: smtplib.SMTP, recipients: Sequence[str], *, international: bool
    ) -> dict[str, tuple[int, str]]:
        """MAIL and RCPT; the recipients that were refused."""
        sender = self._settings.envelope_sender
        code, text = connection.mail(sender, ["SMTPUTF8"] if international else [])
        if code != 250:
            raise smtplib.SMTPSenderRefused(code, text, sender)
        refused: dict[str, tuple[int, str]] = {}
        for recipient in recipients:
            address = with_ascii_domain(recipient)
            if not address.isascii() and not international:
                refused[recipient] = (553, "553 the server takes ASCII addresses only")
                continue
            code, text = connection.rcpt(address)
            if code == 421:
                raise smtplib.SMTPResponseException(code, text)
            if code not in (250, 251):
                refused[recipient] = (code, f"{code} {text.decode(errors='replace')}")
        return refused

    def _reset(self) -> None:
        """Ready for the next mail, on this connection if it still works."""
        try:
            if self._connection is not None:
                self._connection.rset()
        except (smtplib.SMTPException, OSError):
            self._hang_up()


def with_ascii_domain(address: str) -> str:
    """Names of domains beyond ASCII have an ASCII form that every server knows."""
    name, _, domain = address.rpartition("@")
    try:
        return f"{name}@{domain.encode('idna').decode()}"
    except UnicodeError:
        return address


def _answer(error: smtplib.SMTPResponseException) -> str:
    text = error.smtp_error
    said = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    return f"{error.smtp_code} {said}"
