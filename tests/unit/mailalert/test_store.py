"""Alerts in the database: stored once, grouped, purged; mails claimed and finished."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, inspect, select, update
from sqlalchemy.exc import SQLAlchemyError

from moldau.mailalert.alert import Alert, InvalidAlertError, Severity
from moldau.mailalert.database import Database
from moldau.mailalert.outbox import CLOSE_GRACE_MS, LEASE_MS, LeaseLostError, Mail, Outbox
from moldau.mailalert.schema import alerts, mails, metadata
from moldau.mailalert.settings_tables import Settings
from moldau.mailalert.states import AlertState, MailState
from moldau.mailalert.status import list_alerts, list_mails, read_status
from moldau.mailalert.store import PURGE_AT_ONCE, AlertStore, Incoming, fingerprint, purge

NOW = 1_800_000_000_000
WINDOW = 60_000
RULES = replace(Settings().grouping(), window_ms=WINDOW, dedupe_window_ms=600_000)
EVERYBODY = ("ops@example.org",)


def recipients(alert: Alert) -> tuple[str, ...]:
    return alert.recipients or EVERYBODY


def incoming(
    offset: int,
    subject: str = "disk full",
    *,
    partition: int = 0,
    severity: Severity = Severity.ERROR,
    dedupe_key: str | None = None,
    to: tuple[str, ...] = (),
) -> Incoming:
    alert = Alert(subject, f"body {offset}", to, severity, dedupe_key, NOW + offset)
    return Incoming("alerts", partition, offset, alert)


@pytest.fixture
def store(database: Database) -> AlertStore:
    return AlertStore(database, RULES, recipients)


@pytest.fixture
def outbox(database: Database) -> Outbox:
    return Outbox(database, domain="example.org")


def close_and_claim(outbox: Outbox, now_ms: int = NOW + WINDOW + CLOSE_GRACE_MS) -> list[Mail]:
    outbox.close_due(now_ms)
    return outbox.claim(now_ms, 1000)


def test_the_migrations_make_the_tables_of_the_schema(database: Database) -> None:
    database.migrate()  # a second time changes nothing
    with database.read() as connection:
        found = inspect(connection)
        for table in metadata.sorted_tables:
            columns = {column["name"] for column in found.get_columns(table.name)}
            assert columns == set(table.c.keys())
            indexes = {index["name"] for index in found.get_indexes(table.name)}
            assert {index.name for index in table.indexes} <= indexes


def test_one_subject_is_one_mail(store: AlertStore, outbox: Outbox) -> None:
    assert store.store([incoming(0), incoming(1), incoming(2, "other")], NOW) == 3
    assert store.store([incoming(3)], NOW + 100) == 1
    assert outbox.close_due(NOW + WINDOW - 1) == 0
    found = {mail.subject: mail for mail in close_and_claim(outbox)}
    assert found["disk full"].alert_count == 3
    assert (found["disk full"].first_time_ms, found["disk full"].last_time_ms) == (NOW, NOW + 3)
    assert found["other"].alert_count == 1
    bodies = [sample.body for sample in outbox.samples(found["disk full"], 2)]
    assert bodies == ["body 0", "body 1"]


def test_a_record_is_stored_once(store: AlertStore, database: Database) -> None:
    batch = [incoming(offset) for offset in range(10)]
    assert store.store(batch, NOW) == 10
    assert store.store([*batch, incoming(10), incoming(10)], NOW) == 1
    again = AlertStore(database, RULES, recipients)  # after a restart
    assert again.store(batch, NOW + 5) == 0
    with database.read() as connection:
        assert connection.execute(select(func.count()).select_from(alerts)).scalar_one() == 11
        assert connection.execute(select(mails.c.alert_count)).scalar_one() == 11


def test_a_topic_made_anew_has_other_alerts_at_the_same_offsets(
    store: AlertStore, database: Database
) -> None:
    def record(body: bytes) -> Incoming:
        return replace(incoming(0), fingerprint=fingerprint(NOW, body))

    assert store.store([record(b"of the old topic")], NOW) == 1
    assert store.store([record(b"of the new topic")], NOW) == 1
    again = AlertStore(database, RULES, recipients)
    assert again.store([record(b"of the new topic"), record(b"of the old topic")], NOW) == 0
    assert len(list_alerts(database)) == 2


def test_the_next_process_goes_on_with_the_open_mail(
    store: AlertStore, database: Database, outbox: Outbox
) -> None:
    store.store([incoming(0)], NOW)
    AlertStore(database, RULES, recipients).store([incoming(1)], NOW + 1000)
    [mail] = close_and_claim(outbox)
    assert mail.alert_count == 2


def test_an_alert_after_the_window_opens_the_next_mail(store: AlertStore, outbox: Outbox) -> None:
    store.store([incoming(0)], NOW)
    store.store([incoming(1)], NOW + WINDOW)
    later = NOW + 2 * WINDOW + CLOSE_GRACE_MS
    assert sorted(mail.alert_count for mail in close_and_claim(outbox, later)) == [1, 1]


def test_an_alert_that_meets_a_closed_mail_opens_the_next(
    store: AlertStore, outbox: Outbox, database: Database
) -> None:
    store.store([incoming(0)], NOW)
    # Another process, whose clock runs ahead, has closed it.
    assert outbox.close_due(NOW + WINDOW + CLOSE_GRACE_MS) == 1
    assert store.store([incoming(1), incoming(2)], NOW + 10) == 2
    counts = {mail.state: mail.alert_count for mail in list_mails(database)}
    assert counts == {MailState.READY: 1, MailState.OPEN: 2}
    assert store.store([incoming(3)], NOW + 20) == 1
    assert {mail.alert_count for mail in list_mails(database)} == {1, 3}


def test_severe_alerts_do_not_wait(store: AlertStore, outbox: Outbox) -> None:
    store.store([incoming(0), incoming(1, severity=Severity.CRITICAL)], NOW)
    [mail] = close_and_claim(outbox, NOW + CLOSE_GRACE_MS)
    assert (mail.severity, mail.alert_count) == (Severity.CRITICAL, 1)


def test_recipients_divide_groups(store: AlertStore, outbox: Outbox) -> None:
    store.store([incoming(0), incoming(1, to=("a@example.org", "b@example.org"))], NOW)
    found = {mail.recipients for mail in close_and_claim(outbox)}
    assert found == {EVERYBODY, ("a@example.org", "b@example.org")}


def test_repetitions_count_and_send_nothing(
    store: AlertStore, outbox: Outbox, database: Database
) -> None:
    store.store([incoming(0, dedupe_key="k"), incoming(1, dedupe_key="k")], NOW)
    [mail] = close_and_claim(outbox)
    assert (mail.alert_count, mail.duplicate_count) == (2, 1)
    outbox.sent(mail, NOW + WINDOW + 500)
    # Later, and in a new process: still the same trouble, no new mail.
    again = AlertStore(database, RULES, recipients)
    again.store([incoming(2, dedupe_key="k")], NOW + 2 * WINDOW)
    [listing] = list_mails(database)
    assert (listing.state, listing.alert_count) == (MailState.SENT, 3)
    again.store([incoming(3, dedupe_key="k")], NOW + 11 * WINDOW)
    assert len(list_mails(database)) == 2


def test_the_same_key_is_news_for_others(store: AlertStore, outbox: Outbox) -> None:
    other = ("else@example.org",)
    store.store([incoming(0, dedupe_key="k"), incoming(1, dedupe_key="k", to=other)], NOW)
    assert {mail.recipients for mail in close_and_claim(outbox)} == {EVERYBODY, other}


def test_a_repetition_of_what_was_purged_is_told_as_news(
    store: AlertStore, outbox: Outbox, database: Database
) -> None:
    store.store([incoming(0, dedupe_key="k")], NOW)
    [mail] = close_and_claim(outbox)
    outbox.sent(mail, NOW + WINDOW)
    assert purge(database, sent_before_ms=NOW + 2 * WINDOW) == 1
    store.store([incoming(1, dedupe_key="k"), incoming(2, dedupe_key="k")], NOW + 2 * WINDOW)
    [mail] = close_and_claim(outbox, NOW + 4 * WINDOW)
    assert (mail.alert_count, mail.duplicate_count) == (2, 0)
    assert [sample.body for sample in outbox.samples(mail, 5)] == ["body 1", "body 2"]


def test_what_is_no_alert_is_kept_with_the_reason(store: AlertStore, database: Database) -> None:
    bad = Incoming("alerts", 0, 0, InvalidAlertError("no subject"), b"\x00\xff junk")
    nobody = Incoming("alerts", 0, 1, Alert("x", time_ms=NOW))
    silent = AlertStore(database, RULES, lambda _alert: ())
    silent.store([bad, nobody], NOW)
    rows = {row["offset"]: row for row in list_alerts(database, state=AlertState.INVALID)}
    assert rows[0]["error"] == "no subject"
    assert "no routing rule" in rows[1]["error"]
    assert read_status(database, NOW).alerts["invalid"] == 2


def test_a_failed_transaction_leaves_nothing_and_can_be_repeated(
    store: AlertStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.store([incoming(0)], NOW)
    good: Callable[..., None] = store._apply

    def fail_after_the_mails(*arguments: object) -> None:
        good(*arguments)
        raise SQLAlchemyError("the disk is full")

    monkeypatch.setattr(store, "_apply", fail_after_the_mails)
    batch = [incoming(1, "a"), incoming(2, "b")]
    with pytest.raises(SQLAlchemyError):
        store.store(batch, NOW)
    monkeypatch.undo()
    assert [mail.subject for mail in list_mails(database)] == ["disk full"]
    assert store.store(batch, NOW) == 2
    assert {mail.subject for mail in list_mails(database)} == {"disk full", "a", "b"}


def test_a_mail_is_claimed_by_one(store: AlertStore, outbox: Outbox, database: Database) -> None:
    store.store([incoming(n, f"subject {n}") for n in range(30)], NOW)
    now = NOW + WINDOW + CLOSE_GRACE_MS
    assert outbox.close_due(now) == 30
    other = Outbox(database, domain="example.org")
    claimed = [*outbox.claim(now, 20), *other.claim(now, 20), *outbox.claim(now, 20)]
    assert len({mail.id for mail in claimed}) == len(claimed) == 30
    assert len({mail.message_id for mail in claimed}) == 30


def test_the_way_of_a_mail_is_visible(
    store: AlertStore, outbox: Outbox, database: Database
) -> None:
    def state() -> tuple[str, int]:
        [row] = list_alerts(database)
        return row["state"], row["attempts"]

    store.store([incoming(0)], NOW)
    assert state() == (AlertState.RECEIVED, 0)
    [mail] = close_and_claim(outbox)
    assert state() == (AlertState.GROUPED, 1)
    outbox.again(mail, NOW + 10 * WINDOW, "451 later", mail.recipients)
    assert outbox.claim(NOW + 9 * WINDOW, 10) == []
    [mail] = outbox.claim(NOW + 10 * WINDOW, 10)
    assert state() == (AlertState.GROUPED, 2)
    outbox.failed(mail, NOW + 11 * WINDOW, "550 no such user")
    assert state() == (AlertState.FAILED, 2)
    assert outbox.revive(NOW + 12 * WINDOW, "%") == 0
    assert outbox.revive(NOW + 12 * WINDOW, mail.id[:8]) == 1
    [revived] = outbox.claim(NOW + 12 * WINDOW, 10)
    assert (revived.message_id, revived.attempts) == (mail.message_id, 1)
    outbox.sent(revived, NOW + 13 * WINDOW)
    assert state() == (AlertState.SENT, 1)
    assert outbox.revive(NOW + 14 * WINDOW) == 0


def test_an_attempt_that_does_not_count_is_given_back(store: AlertStore, outbox: Outbox) -> None:
    store.store([incoming(0)], NOW)
    [mail] = close_and_claim(outbox)
    outbox.give_back(mail, NOW + 2 * WINDOW, "connection refused")
    [again] = outbox.claim(NOW + 2 * WINDOW, 1)
    assert (again.attempts, again.message_id) == (1, mail.message_id)


@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize("handed_over", [False, True])
def test_what_a_crash_leaves_is_taken_up(
    store: AlertStore, database: Database, hold: bool, handed_over: bool
) -> None:
    outbox = Outbox(database, domain="example.org", hold_uncertain=hold)
    store.store([incoming(0)], NOW)
    [mail] = close_and_claim(outbox)
    now = NOW + WINDOW + 1000
    if handed_over:
        outbox.handing_over(mail, now)
    # Another process must not take it while the lease runs; a single one knows that it may.
    assert outbox.recover(now, alone=False) == 0
    assert outbox.recover(now + 2 * LEASE_MS, alone=False) == 1
    [listing] = list_mails(database)
    if hold and handed_over:
        assert listing.state == MailState.FAILED
        assert "before its answer was known" in (listing.error or "")
    else:
        [again] = outbox.claim(now + 2 * LEASE_MS, 1)
        assert again.message_id == mail.message_id
        assert outbox.recover(now, alone=True) == 1


def test_a_worker_whose_lease_ran_out_changes_nothing(
    store: AlertStore, outbox: Outbox, database: Database
) -> None:
    store.store([incoming(0)], NOW)
    [late] = close_and_claim(outbox)
    now = NOW + WINDOW + 2 * LEASE_MS
    assert outbox.recover(now, alone=False) == 1
    [mail] = outbox.claim(now, 1)
    with pytest.raises(LeaseLostError):
        outbox.handing_over(late, now)
    outbox.failed(late, now, "too late")
    outbox.give_back(late, now)
    outbox.handing_over(mail, now)
    outbox.sent(mail, now)
    [listing] = list_mails(database)
    assert (listing.state, listing.error) == (MailState.SENT, None)


def test_a_clock_that_is_set_back_holds_no_mail_up(
    store: AlertStore, outbox: Outbox, database: Database
) -> None:
    back = NOW - 3_600_000
    store.store([incoming(0, dedupe_key="k")], NOW)
    store.store([incoming(1, dedupe_key="k")], back)
    outbox.close_due(back)
    [first] = outbox.claim(back, 10)
    assert (first.alert_count, first.duplicate_count) == (2, 0)
    outbox.again(first, NOW + 10_000, "451 later", first.recipients)
    assert [mail.id for mail in outbox.claim(back, 10)] == [first.id]
    store.store([incoming(2)], back)
    assert [mail.state for mail in list_mails(database)].count(MailState.OPEN) == 1
    assert outbox.close_due(back + WINDOW + CLOSE_GRACE_MS) == 1


def test_what_a_server_said_can_be_stored(
    store: AlertStore, outbox: Outbox, database: Database
) -> None:
    store.store([incoming(0)], NOW)
    [mail] = close_and_claim(outbox)
    outbox.failed(mail, NOW, "550 \0 \udcff" + "x" * 10_000)
    assert (list_mails(database)[0].error or "").startswith("550 \ufffd ?xxx")


def test_old_rows_go(store: AlertStore, outbox: Outbox, database: Database) -> None:
    store.store([incoming(0, "sent"), incoming(1, "failed"), incoming(2, "fresh")], NOW)
    store.store([Incoming("alerts", 0, 3, InvalidAlertError("bad"))], NOW)
    found = {mail.subject: mail for mail in close_and_claim(outbox)}
    outbox.sent(found["sent"], NOW + 100)
    outbox.failed(found["failed"], NOW + 100, "550")
    outbox.sent(found["fresh"], NOW + 10_000)
    assert purge(database, sent_before_ms=NOW + 5_000) == 2
    assert {mail.subject for mail in list_mails(database)} == {"failed", "fresh"}
    assert purge(database, failed_before_ms=NOW + 5_000) == 1
    status = read_status(database, NOW + 20_000)
    assert sum(status.alerts.values()) == 1
    assert status.sent_last_minute == 1


def test_many_rows_go_in_steps(store: AlertStore, outbox: Outbox, database: Database) -> None:
    count = 2 * PURGE_AT_ONCE + 1
    store.store([incoming(n, f"subject {n}") for n in range(count)], NOW)
    bad = [Incoming("alerts", 1, n, InvalidAlertError("bad")) for n in range(PURGE_AT_ONCE + 1)]
    store.store(bad, NOW)
    for _ in range(3):
        outbox.close_due(NOW + 2 * WINDOW)
    with database.write() as connection:
        connection.execute(update(mails).values(state=MailState.SENT, finished_ms=NOW))
    assert purge(database, sent_before_ms=NOW + 1) == count + len(bad)
    assert list_alerts(database) == []
    assert list_mails(database) == []


def test_an_older_database_keeps_its_rows(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/alerts.db")
    database.migrate("0001")
    with database.write() as connection:
        connection.exec_driver_sql(
            "INSERT INTO alerts (topic, partition, offset, subject, body, severity, time_ms, "
            "received_ms, error) VALUES ('alerts', 0, 7, 's', 'b', 40, 1, 1, 'bad')"
        )
    database.migrate()
    store = AlertStore(database, RULES, recipients)
    assert store.store([replace(incoming(7), fingerprint=fingerprint(NOW, b"x"))], NOW) == 0
    assert [(row["offset"], row["error"]) for row in list_alerts(database)] == [(7, "bad")]
    database.close()
