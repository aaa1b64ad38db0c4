"""Handing mails to a real SMTP server in all its moods."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path

import pytest
from aiosmtpd.smtp import AuthResult, LoginPassword
from tests.support.smtp_server import SmtpServer

from moldau.config.option import ConfigError
from moldau.mailalert.settings_tables import Settings
from moldau.mailalert.smtp import (
    AnswerLostError,
    Mailer,
    NotAcceptedError,
    ServerUnavailableError,
)

SMTP = Settings().smtp()
TO = ("ops@example.org", "dev@example.org")


@pytest.fixture
def server() -> Iterator[SmtpServer]:
    with SmtpServer() as running:
        yield running


@pytest.fixture
def mailer(server: SmtpServer) -> Iterator[Mailer]:
    made = Mailer(replace(SMTP, port=server.port, sender="alerts@example.org", timeout=60))
    yield made
    made.close()


def message(text: str = "hello") -> EmailMessage:
    made = EmailMessage()
    made["Subject"] = "disk full"
    made["Message-ID"] = "<1@example.org>"
    made.set_content(text)
    return made


def not_yet() -> None:
    raise AssertionError("the text must not go out")


def test_a_mail_arrives_and_the_hand_over_is_announced(server: SmtpServer, mailer: Mailer) -> None:
    announced: list[int] = []
    delivered = mailer.deliver(
        message("ünïcode\n.leading dot\n"), TO, lambda: announced.append(len(server.inbox.messages))
    )
    assert (delivered.later, delivered.never, announced) == ((), (), [0])
    [received] = server.inbox.messages
    assert "ünïcode" in received.get_content()
    assert ".leading dot" in received.get_content()
    assert server.inbox.envelopes == [TO]


def test_one_connection_serves_many(server: SmtpServer, mailer: Mailer) -> None:
    for _ in range(5):
        mailer.deliver(message(), TO, lambda: None)
    assert len(server.inbox.messages) == 5


def test_some_recipients_are_put_off_and_some_refused(server: SmtpServer, mailer: Mailer) -> None:
    server.inbox.on_recipient = lambda address: (
        "451 greylisted" if address.startswith("ops") else None
    )
    delivered = mailer.deliver(message(), TO, lambda: None)
    assert delivered.later == ("ops@example.org",)
    assert "greylisted" in (delivered.error or "")
    server.inbox.on_recipient = lambda address: (
        "550 no such user" if address.startswith("dev") else None
    )
    delivered = mailer.deliver(message(), TO, lambda: None)
    assert (delivered.later, delivered.never) == ((), ("dev@example.org",))


@pytest.mark.parametrize(("answer", "permanent"), [("451 later", False), ("550 never", True)])
def test_all_recipients_refused(
    server: SmtpServer, mailer: Mailer, answer: str, permanent: bool
) -> None:
    server.inbox.on_recipient = lambda _address: answer
    with pytest.raises(NotAcceptedError, match=answer[:3]) as caught:
        mailer.deliver(message(), TO, not_yet)
    assert caught.value.permanent is permanent
    server.inbox.on_recipient = lambda _address: None
    mailer.deliver(message(), TO, lambda: None)
    assert len(server.inbox.messages) == 1


@pytest.mark.parametrize(("answer", "permanent"), [("452 full", False), ("554 spam", True)])
def test_the_text_is_refused(
    server: SmtpServer, mailer: Mailer, answer: str, permanent: bool
) -> None:
    server.inbox.on_text = lambda _message: answer
    with pytest.raises(NotAcceptedError, match=answer) as caught:
        mailer.deliver(message(), TO, lambda: None)
    assert caught.value.permanent is permanent


def test_nobody_listens() -> None:
    with SmtpServer() as gone:
        gone.stop()
        with pytest.raises(ServerUnavailableError, match="refused"):
            Mailer(replace(SMTP, port=gone.port)).deliver(message(), TO, not_yet)


def test_the_server_says_that_it_shuts_down(server: SmtpServer, mailer: Mailer) -> None:
    server.inbox.on_recipient = lambda _address: "421 closing"
    with pytest.raises(ServerUnavailableError, match="421 closing"):
        mailer.deliver(message(), TO, not_yet)


def test_a_server_that_was_restarted_is_connected_to_again(
    server: SmtpServer, mailer: Mailer
) -> None:
    mailer.deliver(message(), TO, lambda: None)
    server.stop()
    with pytest.raises(ServerUnavailableError):
        mailer.deliver(message(), TO, not_yet)
    server.start()
    mailer.deliver(message(), TO, lambda: None)
    assert len(server.inbox.messages) == 2


def test_a_connection_that_breaks_after_the_text_leaves_its_fate_open(
    server: SmtpServer, mailer: Mailer
) -> None:
    """The server takes the mail, and its answer never arrives."""
    with pytest.raises(AnswerLostError):
        mailer.deliver(message(), TO, lambda: _cut_the_line(mailer))
    mailer.deliver(message(), TO, lambda: None)
    assert len(server.inbox.messages) == 1


def test_whatever_fails_leaves_no_half_mail_behind(server: SmtpServer, mailer: Mailer) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        mailer.deliver(message(), TO, fail)
    mailer.deliver(message(), TO, lambda: None)
    assert len(server.inbox.messages) == 1


@pytest.mark.parametrize("international", [False, True])
def test_addresses_beyond_ascii(international: bool) -> None:
    to = ("jürgen@exämple.org", "ops@exämple.org")
    with SmtpServer(enable_SMTPUTF8=international) as server:
        mailer = Mailer(replace(SMTP, port=server.port, sender="Alerts <alerts@example.org>"))
        mail = message()
        mail["To"] = ", ".join(to)
        delivered = mailer.deliver(mail, to, lambda: None)
        mailer.deliver(message(), TO, lambda: None)
        mailer.close()
    if international:
        assert delivered.never == ()
        assert server.inbox.envelopes[0] == ("jürgen@xn--exmple-cua.org", "ops@xn--exmple-cua.org")
    else:
        assert (delivered.never, delivered.later) == (("jürgen@exämple.org",), ())
        assert "ASCII" in (delivered.error or "")
        assert server.inbox.envelopes[0] == ("ops@xn--exmple-cua.org",)
        assert server.inbox.messages[0]["To"] == "ops@xn--exmple-cua.org"
    assert server.inbox.envelopes[1] == TO


def _cut_the_line(mailer: Mailer) -> None:
    assert mailer._connection is not None
    assert mailer._connection.sock is not None
    mailer._connection.sock.shutdown(2)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificate and key of a server called 127.0.0.1."""
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", str(path), "-out", f"{path}.crt", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return path


def authenticate(_1: object, _2: object, _3: object, _4: str, data: object) -> AuthResult:
    good = isinstance(data, LoginPassword) and data.password == b"secret"
    return AuthResult(success=good, handled=False)


def test_a_password_goes_out_in_clear_only_if_that_is_said() -> None:
    passwords: list[object] = []

    def note(_1: object, _2: object, _3: object, _4: str, data: LoginPassword) -> AuthResult:
        passwords.append(data.password)
        return AuthResult(success=True)

    with SmtpServer(authenticator=note, auth_require_tls=False) as server:
        with pytest.raises(ConfigError, match="everybody on the way could read"):
            replace(SMTP, username="moldau", password="secret")
        # A server that has no TLS gets no password from who wants it.
        wants = replace(SMTP, port=server.port, starttls=True, username="moldau", password="secret")
        with pytest.raises(ServerUnavailableError, match="STARTTLS"):
            Mailer(wants).deliver(message(), TO, not_yet)
        assert passwords == []
        mailer = Mailer(replace(wants, starttls=False, login_without_tls=True))
        mailer.deliver(message(), TO, lambda: None)
        mailer.close()
        assert passwords == [b"secret"]


def test_starttls_and_login(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{certificate}.crt", certificate)

    options = {
        "tls_context": context,
        "require_starttls": True,
        "authenticator": authenticate,
        "auth_required": True,
    }
    with SmtpServer(**options) as server:
        settings = replace(
            SMTP,
            port=server.port,
            starttls=True,
            ca_file=f"{certificate}.crt",
            username="moldau",
            password="secret",
        )
        mailer = Mailer(settings)
        mailer.deliver(message(), TO, lambda: None)
        mailer.close()
        assert len(server.inbox.messages) == 1
        wrong = replace(
            SMTP,
            port=server.port,
            starttls=True,
            ca_file=f"{certificate}.crt",
            username="moldau",
            password="wrong",
        )
        with pytest.raises(ServerUnavailableError, match="535"):
            Mailer(wrong).deliver(message(), TO, not_yet)
        stranger = replace(SMTP, port=server.port, starttls=True)
        with pytest.raises(ServerUnavailableError, match="certificate"):
            Mailer(stranger).deliver(message(), TO, not_yet)
        assert "secret" not in repr(settings)
