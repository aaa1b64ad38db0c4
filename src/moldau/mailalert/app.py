"""The application: its threads made, wired, started in order, and stopped in the reverse one.

    topic ──▶ intake ──▶ bounded queue ──▶ drain ──▶ database ──▶ sending pool ──▶ mail server
                                                         ▲
                                  purge, status page, lag watches

The database stands in the middle: what is in it survives, and everything after it starts from it.
"""

from __future__ import annotations

import fcntl
import logging
import queue
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Final, Self

from sqlalchemy.exc import SQLAlchemyError

from moldau.client.admin import Admin, MemberToRemove
from moldau.client.consumer import Consumer, RebalanceListener
from moldau.client.errors import KafkaError
from moldau.config.option import ConfigError
from moldau.mailalert.database import Database
from moldau.mailalert.instances import claim_instance
from moldau.mailalert.intake import Drain, Intake
from moldau.mailalert.lag_watcher import LagWatcher
from moldau.mailalert.limiter import RateLimiter
from moldau.mailalert.outbox import LEASE_MS, Outbox
from moldau.mailalert.producer import AlertSender
from moldau.mailalert.rendering import Renderer
from moldau.mailalert.routing import Router
from moldau.mailalert.sending import SendingPool
from moldau.mailalert.settings_tables import Settings, parse_duration_ms
from moldau.mailalert.store import AlertStore, Incoming, purge
from moldau.mailalert.web import StatusServer
from moldau.model import TopicPartition

_log = logging.getLogger(__name__)

_SOON: Final = {
    "max.block.ms": 30_000,
    "delivery.timeout.ms": 30_000,
    "request.timeout.ms": 15_000,
}
"""Whoever raises an alert by a webhook waits no longer, and is told the truth then."""
_SHORTLY: Final = {"default.api.timeout.ms": 5_000, "request.timeout.ms": 5_000}
_INSTANCE_ID: Final = "group.instance.id"


class MailAlert:
    """``with MailAlert(settings) as app: app.wait()``."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.database = Database(settings.database.url)
        self.queue: queue.Queue[Incoming] = queue.Queue(settings.queue.length)
        self.limiter = RateLimiter(
            settings.mail.rate,
            burst=settings.mail.burst,
            warm_up=parse_duration_ms(settings.mail.warm_up) / 1000,
        )
        self._stop = threading.Event()
        self._undo = ExitStack()
        self.intake: Intake | None = None
        self.drain: Drain | None = None
        self.pool: SendingPool | None = None
        self.web: StatusServer | None = None

    def start(self) -> None:
        """Start everything, or nothing."""
        with ExitStack() as undo:
            self._start(undo)
            self._undo = undo.pop_all()

    def stop(self) -> None:
        """Store what was read, commit it, finish the mails that are under way."""
        self._stop.set()
        self._undo.close()

    def wait(self) -> None:
        """Until ``stop``, or until reading or storing has failed for good."""
        while not self._stop.wait(0.5):
            for part in (self.intake, self.drain):
                if part is not None and part.failure is not None:
                    raise part.failure

    def interrupt(self) -> None:
        """End ``wait``; safe in a signal handler."""
        self._stop.set()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self, undo: ExitStack) -> None:
        settings = self.settings
        undo.callback(self.database.close)
        if not self.database.is_shared:
            undo.enter_context(_only_one(Path(self.database.url.database or "")))
        self.database.migrate()
        smtp = settings.smtp()
        rules = settings.retries()
        outbox = Outbox(
            self.database,
            domain=smtp.envelope_sender.rpartition("@")[2] or "localhost",
            hold_uncertain=rules.hold_uncertain,
            # Between the last two things that extend a lease the server may be slow twice.
            lease_ms=max(LEASE_MS, round(smtp.timeout * 4000)),
            longest_pause_ms=rules.max_delay_ms,
        )
        templates = settings.digest.templates
        self.pool = SendingPool(
            outbox,
            Renderer(smtp.sender, Path(templates) if templates else None),
            smtp,
            self.limiter,
            workers=settings.workers(),
            samples=settings.digest.samples,
            rules=rules,
            alone=not self.database.is_shared,
        )
        self.pool.start()
        undo.callback(self.pool.stop)
        self._start_reading(undo)
        purging = threading.Thread(target=self._purge, name="mailalert purge", daemon=True)
        purging.start()
        undo.callback(purging.join, 10.0)
        undo.callback(self._stop.set)
        self._start_extras(undo)

    def _start_reading(self, undo: ExitStack) -> None:
        settings = self.settings
        consumer = Consumer(
            {
                "auto.offset.reset": "earliest",  # alerts from before the first start count too
                **self._identity(undo),
                **settings.kafka,
                "enable.auto.commit": False,
            },
            bootstrap_servers=settings.bootstrap_servers,
            group_id=settings.group_id,
        )
        intake = Intake(consumer, self.queue)
        consumer.subscribe([settings.topic], listener=_CommitOnRevoke(intake))
        router = Router(settings.route_rules(), settings.recipients, settings.allowed())
        store = AlertStore(self.database, settings.grouping(), router.recipients)
        drain = Drain(self.queue, store, intake.progress)
        drain.start()
        intake.start()
        undo.callback(intake.finish)
        undo.callback(drain.stop)
        undo.callback(intake.stop_polling)
        self.intake, self.drain = intake, drain

    def _identity(self, undo: ExitStack) -> dict[str, object]:
        """What the group knows this process by when it comes back, unless the settings say so."""
        if _INSTANCE_ID in self.settings.kafka:
            return {}
        instance = claim_instance(
            f"{self.settings.group_id} of {self.settings.bootstrap_servers}", undo
        )
        if instance is None:
            return {}
        if self.settings.kafka.get("group.protocol") == "consumer":
            # There a name is not taken over while the session of who had it lasts (KIP-848).
            with suppress(KafkaError):
                self._remove_member(instance)
        undo.callback(self._leave, instance)
        return {_INSTANCE_ID: instance}

    def _leave(self, instance: str) -> None:
        """A clean end is one: other processes need not wait for this one to come back."""
        try:
            self._remove_member(instance)
        except KafkaError as error:
            _log.warning("the group does not know yet that this process has ended: %s", error)

    def _remove_member(self, instance: str) -> None:
        settings = self.settings
        with Admin(
            {**settings.security(), **_SHORTLY}, bootstrap_servers=settings.bootstrap_servers
        ) as admin:
            admin.remove_group_members(settings.group_id, [MemberToRemove(instance_id=instance)])

    def _start_extras(self, undo: ExitStack) -> None:
        """The status page and the lag watches, where they are wanted."""
        settings = self.settings
        address = settings.http_address()
        if address is None and not settings.watch:
            return
        sender = undo.enter_context(
            AlertSender(
                settings.bootstrap_servers,
                topic=settings.topic,
                settings={"client.id": "mailalert", **_SOON, **settings.security()},
            )
        )
        if settings.watch:
            admin = undo.enter_context(
                Admin(settings.security(), bootstrap_servers=settings.bootstrap_servers)
            )
            every = parse_duration_ms(settings.watch_every) / 1000
            watcher = LagWatcher(
                admin, lambda alert: sender.send(alert).result(), settings.watch, every
            )
            watcher.start()
            undo.callback(watcher.stop)
        if address is not None:
            self.web = StatusServer(self, sender, *address, token=settings.http_token())
            self.web.start()
            undo.callback(self.web.stop)

    def _purge(self) -> None:
        table = self.settings.database
        every = parse_duration_ms(table.purge_every) / 1000
        while True:
            now_ms = time.time_ns() // 1_000_000
            try:
                removed = purge(
                    self.database,
                    sent_before_ms=now_ms - parse_duration_ms(table.keep),
                    failed_before_ms=now_ms - parse_duration_ms(table.keep_failed),
                )
                if removed:
                    _log.info("%d old alerts were purged", removed)
            except SQLAlchemyError as error:
                _log.warning("old alerts could not be purged: %s", error)
            if self._stop.wait(every):
                return


class _CommitOnRevoke(RebalanceListener):
    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    def on_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        self._intake.on_assigned(partitions)

    def on_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        self._intake.on_revoked(partitions)

    def on_lost(self, partitions: Iterable[TopicPartition]) -> None:
        self._intake.progress.forget(partitions)


def _only_one(path: Path) -> IO[str]:
    """Hold a lock beside an SQLite file: two processes would send its mails twice."""
    try:
        lock = path.with_name(path.name + ".lock").open("w")
    except OSError as error:
        raise ConfigError(f"the database {path} cannot be made: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise ConfigError(f"{path} is in use by another process") from None
    return lock
