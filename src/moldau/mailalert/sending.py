"""The pool of workers that hands mails to the server, at the limiter's pace.

One thread closes the mails whose windows have ended and claims what is due; the workers send. When
the server is down all of them wait together, with growing pauses, and no mail is charged for it;
a mail that could not be sent for ``give_up_after`` goes to the dead letters.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from moldau.mailalert.limiter import RateLimiter
from moldau.mailalert.outbox import LEASE_MS, UNCERTAIN, LeaseLostError, Mail, Outbox
from moldau.mailalert.rendering import Renderer
from moldau.mailalert.smtp import (
    AnswerLostError,
    Delivered,
    Mailer,
    NotAcceptedError,
    ServerUnavailableError,
    SmtpSettings,
)

_log = logging.getLogger(__name__)

_LOOK_EVERY: Final = 0.2
"""Seconds between looks into the database while nothing is due."""


@dataclass(frozen=True, slots=True)
class RetryRules:
    first_delay_ms: int
    max_delay_ms: int
    max_attempts: int
    give_up_after_ms: int
    hold_uncertain: bool

    def delay_ms(self, attempts: int, chance: float) -> int:
        """Doubling, with some of it random: mails that failed together do not return together."""
        longest = min(self.first_delay_ms * 2.0 ** min(attempts - 1, 40), self.max_delay_ms)
        return round(longest * (0.5 + chance / 2))


class Outage:
    """Whether the server is down, and until when nobody needs to try."""

    def __init__(self, rules: RetryRules) -> None:
        self._rules = rules
        self._lock = threading.Lock()
        self._failures = 0
        self._until = 0.0
        self.error: str | None = None

    def begin(self, error: str, now: float) -> None:
        with self._lock:
            if self._until > now:
                return  # another worker has noticed already
            if self.error is None:
                _log.warning("the mail server is not available, mails wait: %s", error)
            self._failures += 1
            self._until = now + self._rules.delay_ms(self._failures, random.random()) / 1000  # noqa: S311
            self.error = error

    def end(self) -> None:
        if self.error is None:
            return
        with self._lock:
            if self.error is not None:
                _log.info("the mail server is available again")
            self._failures, self._until, self.error = 0, 0.0, None

    def remaining(self, now: float) -> float:
        return max(0.0, self._until - now)


class SendingPool:
    """Dispatcher and workers."""

    def __init__(
        self,
        outbox: Outbox,
        renderer: Renderer,
        smtp: SmtpSettings,
        limiter: RateLimiter,
        *,
        workers: int,
        samples: int,
        rules: RetryRules,
        alone: bool,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._outbox = outbox
        self._renderer = renderer
        self._smtp = smtp
        self._limiter = limiter
        self._samples = samples
        self._rules = rules
        self._alone = alone
        self._now_ms = now_ms
        self._stop = threading.Event()
        self._work: queue.Queue[Mail | None] = queue.Queue(workers * 2)
        self._threads = [
            threading.Thread(target=self._dispatch, name="mailalert dispatch", daemon=True),
            *(
                threading.Thread(target=self._send_all, name=f"mailalert send {n}", daemon=True)
                for n in range(workers)
            ),
        ]
        self._workers = workers
        self.outage = Outage(rules)
        self.sent = 0
        self.failed = 0

    def start(self) -> None:
        self._outbox.recover(self._now_ms(), alone=self._alone)
        for thread in self._threads:
            thread.start()

    def stop(self, timeout: float = 30.0) -> None:
        """Finish the mails that are under way; what is claimed and not begun is given back."""
        self._stop.set()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    # The dispatcher ----------------------------------------------------------------------------

    def _dispatch(self) -> None:
        recovered = time.monotonic()
        while not self._stop.is_set():
            try:
                now_ms = self._now_ms()
                self._outbox.close_due(now_ms)
                free = self._work.maxsize - self._work.qsize()
                claimed = self._outbox.claim(now_ms, free) if free and not self._is_down() else []
                if time.monotonic() - recovered > LEASE_MS / 2000:
                    recovered = time.monotonic()
                    self._outbox.recover(now_ms, alone=False)
            except SQLAlchemyError:
                _log.exception("the database does not answer; trying again")
                self._stop.wait(1.0)
                continue
            for mail in claimed:
                self._work.put(mail)
            if not claimed:
                self._stop.wait(_LOOK_EVERY if self._work.empty() else _LOOK_EVERY / 10)
        self._hand_back()
        for _ in range(self._workers):
            self._work.put(None)

    def _is_down(self) -> bool:
        return self.outage.remaining(time.monotonic()) > 0

    def _hand_back(self) -> None:
        while True:
            try:
                mail = self._work.get_nowait()
            except queue.Empty:
                return
            if mail is not None:
                self._give_back(mail, 0)

    # The workers -------------------------------------------------------------------------------

    def _send_all(self) -> None:
        mailer = Mailer(self._smtp)
        try:
            while (mail := self._work.get()) is not None:
                try:
                    self._send(mailer, mail)
                except LeaseLostError:
                    _log.warning("mail %s was taken over by another worker", mail.id)
                except SQLAlchemyError as error:
                    _log.warning("the database does not answer; mail %s waits: %s", mail.id, error)
                    self._give_back(mail, self._rules.first_delay_ms)
                except Exception:
                    # A template of the user's may raise anything. The mail waits its turn again.
                    _log.exception("mail %s could not be made", mail.id)
                    self._not_accepted(mail, "the mail could not be made; see the log")
        finally:
            mailer.close()

    def _send(self, mailer: Mailer, mail: Mail) -> None:
        pause = self.outage.remaining(time.monotonic())
        if pause > 0:
            # Not kept until then: its lease would run out.
            self._give_back(mail, round(pause * 1000))
            return
        samples = self._outbox.samples(mail, self._samples)
        message = self._renderer.render(mail, samples, self._now_ms())
        try:
            mailer.connect()  # first, because it may take long: then permits would be used late
            self._limiter.acquire()
            delivered = mailer.deliver(
                message,
                mail.recipients,
                lambda: self._outbox.handing_over(mail, self._now_ms()),
            )
        except NotAcceptedError as error:
            self.outage.end()
            self._not_accepted(mail, str(error), permanent=error.permanent)
        except AnswerLostError as error:
            self.outage.begin(str(error), time.monotonic())
            if self._rules.hold_uncertain:
                self._fail(mail, f"{UNCERTAIN} ({error})", mail.recipients)
            else:
                self._not_accepted(mail, str(error))
        except ServerUnavailableError as error:
            self.outage.begin(str(error), time.monotonic())
            self._unavailable(mail, str(error))
        else:
            self.outage.end()
            self._delivered(mail, delivered)

    def _delivered(self, mail: Mail, delivered: Delivered) -> None:
        """Somebody has it; for those who were refused it is tried again, or a dead letter."""
        missing, error = (*delivered.later, *delivered.never), delivered.error or ""
        if not missing:
            self.sent += 1
            self._note(lambda: self._outbox.sent(mail, self._now_ms()))
        elif delivered.later and not self._is_over(mail):
            self._again(mail, error, missing)
        else:
            self._fail(mail, error, missing)

    def _not_accepted(self, mail: Mail, error: str, *, permanent: bool = False) -> None:
        if permanent or self._is_over(mail):
            self._fail(mail, error, mail.recipients)
        else:
            self._again(mail, error, mail.recipients)

    def _unavailable(self, mail: Mail, error: str) -> None:
        if self._is_too_old(mail):
            self._fail(mail, error, mail.recipients)
        else:
            pause_ms = round(self.outage.remaining(time.monotonic()) * 1000)
            self._give_back(mail, pause_ms, error)

    def _give_back(self, mail: Mail, pause_ms: int, error: str | None = None) -> None:
        next_ms = self._now_ms() + pause_ms
        self._note(lambda: self._outbox.give_back(mail, next_ms, error))

    def _is_over(self, mail: Mail) -> bool:
        return mail.attempts >= self._rules.max_attempts or self._is_too_old(mail)

    def _is_too_old(self, mail: Mail) -> bool:
        return self._now_ms() - mail.complete_ms >= self._rules.give_up_after_ms

    def _again(self, mail: Mail, error: str, recipients: tuple[str, ...]) -> None:
        delay_ms = self._rules.delay_ms(mail.attempts, random.random())  # noqa: S311
        next_ms = self._now_ms() + delay_ms
        _log.info("mail %s will be tried again in %.1f s: %s", mail.id, delay_ms / 1000, error)
        self._note(lambda: self._outbox.again(mail, next_ms, error, recipients))

    def _fail(self, mail: Mail, error: str, recipients: tuple[str, ...]) -> None:
        self.failed += 1
        _log.error("mail %s (%s) is a dead letter: %s", mail.id, mail.subject, error)
        self._note(lambda: self._outbox.failed(mail, self._now_ms(), error, recipients))

    def _note(self, write: Callable[[], None]) -> None:
        """Write down what happened; it has happened, so the database is asked until it takes it."""
        delay = 0.1
        while True:
            try:
                write()
                return
            except SQLAlchemyError as error:
                _log.warning("the database does not answer; trying again: %s", error)
                if self._stop.wait(delay):
                    return  # the lease runs out, and the mail is taken up again
                delay = min(delay * 2, 5.0)
