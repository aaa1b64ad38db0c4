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
from typing import Final

_PERMANENT: Final = 500


@dataclass(frozen=True, slots=True)
class SmtpSettings:
    host: str = "127.0.0.1"
    port: int = 25
    starttls: bool = False
    tls: bool = False
    """TLS from the first byte (port 465)."""
    ca_file: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    sender: str = "moldau@localhost"
    timeout: float = 30.0


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
            refused = self._envelope(connection, recipients)
            later = tuple(who for who, (code, _) in refused.items() if code < _PERMANENT)
            never = tuple(who for who, (code, _) in refused.items() if code >= _PERMANENT)
            said = "; ".join(f"{who}: {text}" for who, (_, text) in refused.items()) or None
            if len(refused) == len(recipients):
                self._reset()
                raise NotAcceptedError(said or "", permanent=not later)
            self._text(connection, message, last_step)
            return Delivered(later, never, said)
        except smtplib.SMTPResponseException as error:
            if error.smtp_code == 421:
                self.close()
                raise ServerUnavailableError(_answer(error)) from error
            self._reset()
            raise NotAcceptedError(
                _answer(error), permanent=error.smtp_code >= _PERMANENT
            ) from error
        except (smtplib.SMTPException, OSError) as error:
            self.close()
            said = f"{self._where}: {error}"
            if handed_over:
                raise AnswerLostError(said) from error
            raise ServerUnavailableError(said) from error

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(smtplib.SMTPException, OSError):
                connection.quit()
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
            self.close()
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
            self.close()
            text = _answer(error) if isinstance(error, smtplib.SMTPResponseException) else error
            raise ServerUnavailableError(f"{self._where}: {text}") from error
        return connection

    def _envelope(
        self, connection: smtplib.SMTP, recipients: Sequence[str]
    ) -> dict[str, tuple[int, str]]:
        """MAIL and RCPT; the recipients that were refused."""
        code, text = connection.mail(self._settings.sender)
        if code != 250:
            raise smtplib.SMTPSenderRefused(code, text, self._settings.sender)
        refused: dict[str, tuple[int, str]] = {}
        for recipient in recipients:
            code, text = connection.rcpt(recipient)
            if code == 421:
                raise smtplib.SMTPResponseException(code, text)
            if code not in (250, 251):
                refused[recipient] = (code, f"{code} {text.decode(errors='replace')}")
        return refused

    def _text(
        self, connection: smtplib.SMTP, message: EmailMessage, handing_over: Callable[[], None]
    ) -> None:
        handing_over()
        code, text = connection.data(message.as_bytes(policy=SMTP_POLICY))
        if code != 250:
            raise smtplib.SMTPDataError(code, text)

    def _reset(self) -> None:
        """Ready for the next mail, on this connection if it still works."""
        try:
            if self._connection is not None:
                self._connection.rset()
        except (smtplib.SMTPException, OSError):
            self.close()


def _answer(error: smtplib.SMTPResponseException) -> str:
    text = error.smtp_error
    said = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    return f"{error.smtp_code} {said}"
