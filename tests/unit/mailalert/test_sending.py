"""The worker pool: from mails of the database to a real SMTP server, over outages and refusals."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from sqlalchemy.exc import OperationalError
from tests.support.smtp_server import SmtpServer
from tests.support.waiting import eventually as wait_until

from moldau.mailalert.alert import Alert, Severity
from moldau.mailalert.database import Database
from moldau.mailalert.limiter import RateLimiter
from moldau.mailalert.outbox import Mail, Outbox
from moldau.mailalert.rendering import Renderer
from moldau.mailalert.sending import RetryRules, SendingPool
from moldau.mailalert.settings_tables import Settings
from moldau.mailalert.states import MailState
from moldau.mailalert.status import list_mails
from moldau.mailalert.store import AlertStore, Incoming

SMTP = Settings().smtp()
QUICK = replace(Settings().retries(), first_delay_ms=20, max_delay_ms=100, max_attempts=4)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def server() -> Iterator[SmtpServer]:
    with SmtpServer() as running:
        yield running


@contextmanager
def sending(
    database: Database,
    server: SmtpServer,
    rules: RetryRules = QUICK,
    *,
    limiter: RateLimiter | None = None,
    outbox: Outbox | None = None,
) -> Iterator[SendingPool]:
    pool = SendingPool(
        outbox or Outbox(database, domain="example.org", hold_uncertain=rules.hold_uncertain),
        Renderer("alerts@example.org"),
        replace(SMTP, port=server.port, sender="alerts@example.org", timeout=60),
        limiter or RateLimiter(10_000),
        workers=4,
        samples=3,
        rules=rules,
        alone=True,
    )
    pool.start()
    try:
        yield pool
    finally:
        pool.stop(timeout=120)


def store(database: Database, count: int, *, to: tuple[str, ...] = ("ops@example.org",)) -> None:
    at_once = replace(Settings().grouping(), window_ms=0)
    batch = [
        Incoming("alerts", 0, n, Alert(f"subject {n}", f"body {n}", to, Severity.ERROR, None, 1))
        for n in range(count)
    ]
    AlertStore(database, at_once, lambda alert: alert.recipients).store(batch, now_ms())


def states(database: Database) -> set[str]:
    return {mail.state for mail in list_mails(database, limit=10_000)}


def test_every_mail_is_sent_once(database: Database, server: SmtpServer) -> None:
    store(database, 100)
    with sending(database, server):
        wait_until(lambda: states(database) == {MailState.SENT})
    assert len(server.inbox.messages) == 100
    assert set(server.inbox.message_ids().values()) == {1}


def test_mails_wait_for_a_server_that_is_away(database: Database, server: SmtpServer) -> None:
    server.stop()
    store(database, 20)
    with sending(database, server) as pool:
        wait_until(lambda: pool.outage.error)
        server.start()
        wait_until(lambda: states(database) == {MailState.SENT})
        assert pool.outage.error is None
    # Waiting for the server is not counted against the mails.
    assert {mail.attempts for mail in list_mails(database)} == {1}
    assert set(server.inbox.message_ids().values()) == {1}


def test_a_mail_that_waits_too_long_is_a_dead_letter_and_can_be_revived(
    database: Database, server: SmtpServer
) -> None:
    server.stop()
    store(database, 3)
    rules = replace(Settings().retries(), first_delay_ms=10, max_delay_ms=20, give_up_after_ms=300)
    with sending(database, server, rules):
        wait_until(lambda: states(database) == {MailState.FAILED})
    assert "refused" in (list_mails(database)[0].error or "")
    server.start()
    assert Outbox(database, domain="x").revive(now_ms()) == 3
    with sending(database, server):
        wait_until(lambda: states(database) == {MailState.SENT})
    assert len(server.inbox.messages) == 3


def test_greylisting_is_waited_for(database: Database, server: SmtpServer) -> None:
    seen: set[str] = set()

    def once(address: str) -> str | None:
        if address in seen:
            return None
        seen.add(address)
        return "451 greylisted, come back"

    server.inbox.on_recipient = once
    store(database, 1, to=("a@example.org", "b@example.org"))
    with sending(database, server):
        wait_until(lambda: states(database) == {MailState.SENT})
    assert server.inbox.envelopes == [("a@example.org", "b@example.org")]
    assert list_mails(database)[0].attempts == 2


def test_only_those_who_were_put_off_get_it_later(database: Database, server: SmtpServer) -> None:
    seen: list[str] = []

    def put_off_b_once(address: str) -> str | None:
        seen.append(address)
        return "451 later" if address[0] == "b" and seen.count(address) == 1 else None

    server.inbox.on_recipient = put_off_b_once
    store(database, 1, to=("a@example.org", "b@example.org"))
    with sending(database, server):
        wait_until(lambda: states(database) == {MailState.SENT})
    assert server.inbox.envelopes == [("a@example.org",), ("b@example.org",)]
    assert set(server.inbox.message_ids().values()) == {2}


def test_a_refusal_for_good_is_a_dead_letter_at_once(
    database: Database, server: SmtpServer
) -> None:
    server.inbox.on_recipient = lambda _address: "550 no such user"
    store(database, 2)
    with sending(database, server):
        wait_until(lambda: states(database) == {MailState.FAILED})
    assert {(mail.attempts, "550" in (mail.error or "")) for mail in list_mails(database)} == {
        (1, True)
    }


def test_those_who_are_refused_for_good_are_a_dead_letter(
    database: Database, server: SmtpServer
) -> None:
    seen: list[str] = []

    def answer(address: str) -> str | None:
        seen.append(address[0])
        if address[0] == "b":
            return "550 no such user"
        return "451 later" if address[0] == "c" and seen.count("c") == 1 else None

    server.inbox.on_recipient = answer
    store(database, 1, to=("a@example.org", "b@example.org", "c@example.org"))
    with sending(database, server) as pool:
        wait_until(lambda: states(database) == {MailState.FAILED})
        assert server.inbox.envelopes == [("a@example.org",), ("c@example.org",)]
        assert "b@example.org: 550 no such user" in (list_mails(database)[0].error or "")
        server.inbox.on_recipient = lambda _address: None
        assert Outbox(database, domain="x").revive(now_ms()) == 1
        wait_until(lambda: states(database) == {MailState.SENT})
        assert server.inbox.envelopes[2:] == [("b@example.org",)]
    assert (pool.sent, pool.failed) == (1, 1)


class StumblingOutbox(Outbox):
    """Its database is away once, right before the text of a mail would go out."""

    stumbled = False

    def handing_over(self, mail: Mail, now_ms: int) -> None:
        if not self.stumbled:
            self.stumbled = True
            raise OperationalError("UPDATE", None, Exception("database is locked"))
        super().handing_over(mail, now_ms)


def test_a_database_that_is_away_is_not_the_mails_fault(
    database: Database, server: SmtpServer
) -> None:
    store(database, 20)
    with sending(database, server, outbox=StumblingOutbox(database, domain="x")):
        wait_until(lambda: states(database) == {MailState.SENT})
    assert {mail.attempts for mail in list_mails(database)} == {1}
    assert set(server.inbox.message_ids().values()) == {1}


def test_a_mail_is_not_tried_for_ever(database: Database, server: SmtpServer) -> None:
    server.inbox.on_text = lambda _message: "452 mailbox full"
    store(database, 1)
    with sending(database, server):
        wait_until(lambda: states(database) == {MailState.FAILED})
    assert list_mails(database)[0].attempts == QUICK.max_attempts


def test_a_slow_server_is_not_overtaken_by_its_lease(
    database: Database, server: SmtpServer
) -> None:
    server.inbox.on_text = lambda _message: time.sleep(0.05)
    store(database, 10)
    with sending(database, server):
        wait_until(lambda: states(database) == {MailState.SENT})
    assert set(server.inbox.message_ids().values()) == {1}


def test_the_pool_asks_the_limiter_for_each_mail(database: Database, server: SmtpServer) -> None:
    """That the limiter keeps the rate is shown in its own tests, on virtual time."""
    store(database, 60)
    granted: list[int] = []

    class Counting(RateLimiter):
        def acquire(self, permits: int = 1, timeout: float | None = None) -> bool:
            granted.append(permits)
            return super().acquire(permits, timeout)

    with sending(database, server, limiter=Counting(10_000)):
        wait_until(lambda: states(database) == {MailState.SENT})
    assert granted == [1] * 60


class OneAtFirst(RateLimiter):
    """Gives one permit, and the others when it is told to go on."""

    def __init__(self) -> None:
        super().__init__(10_000)
        self.go_on = threading.Event()
        self._first = threading.Semaphore()

    def acquire(self, permits: int = 1, timeout: float | None = None) -> bool:
        return self._first.acquire(blocking=False) or self.go_on.wait(120)


def test_stopping_gives_back_what_was_not_begun(database: Database, server: SmtpServer) -> None:
    count = 60  # more than workers and queue hold
    store(database, count)
    limiter = OneAtFirst()
    with sending(database, server, limiter=limiter) as pool:
        wait_until(lambda: server.inbox.messages)
        pool._stop.set()  # what stop() does first; it then waits for those who wait here
        limiter.go_on.set()
    sent = len(server.inbox.messages)
    assert sent < count
    by_state = [mail.state for mail in list_mails(database, limit=count)]
    assert by_state.count(MailState.SENT) == sent
    assert by_state.count(MailState.READY) == count - sent
    with sending(database, server):
        wait_until(lambda: states(database) == {MailState.SENT})
    assert set(server.inbox.message_ids().values()) == {1}


def test_a_template_that_fails_harms_only_its_mail(
    database: Database, server: SmtpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = Renderer.render

    def fail_for_one(self: Renderer, mail: object, *rest: object) -> object:
        if getattr(mail, "subject") == "subject 1":  # noqa: B009
            raise ZeroDivisionError
        return good(self, mail, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Renderer, "render", fail_for_one)
    store(database, 3)
    with sending(database, server):
        wait_until(lambda: states(database) == {MailState.SENT, MailState.FAILED})
    failed = [mail.subject for mail in list_mails(database, state=MailState.FAILED)]
    assert failed == ["subject 1"]
