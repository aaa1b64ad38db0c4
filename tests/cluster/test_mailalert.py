"""The mail-alert application as a process: real broker, real mail server, real kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer as OtherProducer
from sqlalchemy.exc import SQLAlchemyError
from tests.support.postgres import Postgres
from tests.support.smtp_server import SmtpServer
from tests.support.waiting import eventually

from moldau.client.admin import Admin, OffsetSpec
from moldau.client.consumer import Consumer
from moldau.errors import KafkaError
from moldau.mailalert import Severity, send_alert
from moldau.mailalert.database import Database
from moldau.mailalert.status import list_alerts, list_mails, read_status
from moldau.model import OffsetAndMetadata, TopicPartition
from moldau.testing.broker import MoldauProcess

TOPIC = "alerts"
WORKERS = 8

wait_until = partial(eventually, timeout=300.0)


class App:
    """``moldau mailalert`` with one settings file."""

    def __init__(self, directory: Path, broker: MoldauProcess, smtp: SmtpServer) -> None:
        self.directory = directory
        self.config = directory / "alerts.toml"
        self.database = Database(f"sqlite:///{directory}/alerts.db")
        self.settings: dict[str, dict[str, Any]] = {
            "mail": {
                "port": smtp.port,
                "sender": "alerts@example.org",
                "retry_max": "500ms",
                "workers": WORKERS,
            },
            "digest": {"window": "200ms"},
            "database": {"url": f"sqlite:///{directory}/alerts.db"},
        }
        self.top: dict[str, Any] = {
            "bootstrap_servers": broker.bootstrap_servers,
            "topic": TOPIC,
            "recipients": ["ops@example.org"],
        }
        self.watches: list[dict[str, Any]] = []
        self._process: subprocess.Popen[str] | None = None
        self.status_url = ""

    def start(self) -> None:
        lines = [f"{name} = {json.dumps(value)}" for name, value in self.top.items()]
        for table, entries in self.settings.items():
            lines.append(f"[{table}]")
            lines += [
                f"{json.dumps(name)} = {json.dumps(value)}" for name, value in entries.items()
            ]
        for watch in self.watches:
            lines.append("[[watch]]")
            lines += [f"{name} = {json.dumps(value)}" for name, value in watch.items()]
        self.config.write_text("\n".join(lines) + "\n")
        with (self.directory / "app.log").open("a") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-X", "faulthandler", "-m", "moldau.cli"),
                    *("mailalert", "run", "-c", str(self.config)),
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert "ready" in line, (self.directory / "app.log").read_text()
        self.status_url = line.partition("status on ")[2].strip()

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def show_and_kill(self) -> None:
        """What it said and what its threads are doing, for whoever reads why a test failed."""
        self._end(signal.SIGABRT)
        print((self.directory / "app.log").read_text()[-20_000:])

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        code = process.wait(120)
        if process.stdout is not None:
            process.stdout.close()
        return code

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "moldau.cli", "mailalert", *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "COLUMNS": "200"},
            check=False,
        )

    def counts(self) -> tuple[int, int]:
        """Alerts in the database, and mails that are not finished."""
        try:
            status = read_status(self.database, 0)
        except SQLAlchemyError:  # the tables are not there yet, or the database restarts
            return 0, 0
        waiting = sum(status.mails[state] for state in ("open", "ready", "sending"))
        return sum(status.alerts.values()), waiting

    def stored(self) -> int:
        return self.counts()[0]

    def has_stored(self, count: float) -> bool:
        return self.counts()[0] >= count

    def all_finished(self, count: int) -> bool:
        return self.counts() == (count, 0)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[MoldauProcess]:
    overrides = {
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 1,
        "group.consumer.session.timeout.ms": 1_800_000,
        "group.consumer.max.session.timeout.ms": 1_800_000,
    }
    with MoldauProcess(tmp_path / "broker", overrides=overrides) as running:
        running.create_topic(TOPIC, partitions=3)
        yield running


@pytest.fixture
def smtp() -> Iterator[SmtpServer]:
    with SmtpServer() as running:
        yield running


@pytest.fixture
def app(tmp_path: Path, broker: MoldauProcess, smtp: SmtpServer) -> Iterator[App]:
    made = App(tmp_path, broker, smtp)
    yield made
    made.show_and_kill()
    made.database.close()
    print(
        "mails:", [(str(mail["Subject"]), str(mail["Message-ID"])) for mail in smtp.inbox.messages]
    )
    print(broker.logs())


def produce(broker: MoldauProcess, count: int, subjects: int) -> None:
    producer = OtherProducer(
        {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 20, "acks": "all"}
    )
    for number in range(count):
        value = json.dumps({"subject": f"subject {number % subjects}", "body": f"body {number}"})
        while True:
            try:
                producer.produce(TOPIC, value, key=str(number))
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(150) == 0


def most_in_a_second(times: list[float]) -> int:
    times = sorted(times)
    most, first = 0, 0
    for number, moment in enumerate(times):
        while moment - times[first] >= 1.0:
            first += 1
        most = max(most, number - first + 1)
    return most


RATE, BURST = 200, 1
AT_MOST = RATE + BURST + WORKERS
"""Mails that a server sees in any second: the limiter's, and those which the workers had permits
for and were held up on their way."""


def committed(broker: MoldauProcess, group: str = "mailalert") -> dict[TopicPartition, int]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        return {place: at.offset for place, at in admin.list_group_offsets(group).items()}


def test_an_alert_becomes_a_mail_and_is_looked_at_by_commands(
    broker: MoldauProcess, smtp: SmtpServer, app: App
) -> None:
    app.start()
    send_alert(
        "disk full",
        "/data has 1 % left",
        severity=Severity.CRITICAL,
        bootstrap_servers=broker.bootstrap_servers,
    )
    sent = app.command(
        *("send", "-s", "disk full", "--body", "second", "--to", "dev@example.org"),
        *("-b", broker.bootstrap_servers),
    )
    assert sent.returncode == 0, sent.stderr
    wait_until(lambda: len(smtp.inbox.messages) == 2)
    assert {tuple(message["To"].split(", ")) for message in smtp.inbox.messages} == {
        ("ops@example.org",),
        ("dev@example.org",),
    }
    wait_until(lambda: app.all_finished(2))
    listed = app.command("list", "-c", str(app.config))
    assert listed.stdout.count("sent") == 2, listed.stderr
    status = json.loads(app.command("status", "--json", "-c", str(app.config)).stdout)
    assert (status["alerts"]["sent"], status["mails"]["sent"]) == (2, 2)
    assert app.stop() == 0
    purged = app.command("purge", "--older-than", "0s", "-c", str(app.config))
    assert "2 alerts were removed" in purged.stdout
    bad = app.command("send", "-s", "x", "--severity", "odd", "-b", broker.bootstrap_servers)
    assert bad.returncode == 2
    assert "must be one of debug" in bad.stderr


def test_dead_letters_are_retried_by_command(
    broker: MoldauProcess, smtp: SmtpServer, app: App
) -> None:
    smtp.inbox.on_recipient = lambda _address: "550 no such user"
    app.start()
    produce(broker, 5, subjects=1)
    wait_until(lambda: app.all_finished(5))
    listed = app.command("list", "--state", "failed", "-c", str(app.config)).stdout
    assert "550 no such user" in listed
    smtp.inbox.on_recipient = lambda _address: None
    retried = app.command("retry", "--all", "-c", str(app.config))
    assert retried.returncode == 0, retried.stderr
    wait_until(lambda: smtp.inbox.alert_count() == 5)


def test_what_is_no_alert_does_not_stop_the_others(
    broker: MoldauProcess, smtp: SmtpServer, app: App
) -> None:
    producer = OtherProducer({"bootstrap.servers": broker.bootstrap_servers})
    far_away = b'{"subject": "x", "time": 99999999999999999999}'
    for value in (b"garbage", None, far_away, b'{"subject": "fine"}', b"\xff\x00"):
        producer.produce(TOPIC, value, partition=0)
    producer.flush(150)
    app.start()
    wait_until(lambda: app.all_finished(5))
    assert [str(message["Subject"]) for message in smtp.inbox.messages] == ["[error] fine"]
    assert read_status(app.database, 0).alerts["invalid"] == 4
    wait_until(lambda: committed(broker).get(TopicPartition(TOPIC, 0)) == 5)
    # A topic made anew has other records at the same offsets, and none of them is known.
    place = TopicPartition(TOPIC, 0)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:

        def is_empty() -> bool:
            with suppress(KafkaError):  # or the application's consumer has made it
                broker.create_topic(TOPIC, partitions=1)
            with suppress(KafkaError):
                return admin.list_offsets({place: OffsetSpec.LATEST})[place].offset == 0
            return False

        admin.delete_topics([TOPIC])
        wait_until(is_empty)
    send_alert("anew", severity="critical", bootstrap_servers=broker.bootstrap_servers)
    wait_until(lambda: len(smtp.inbox.messages) == 2)
    assert str(smtp.inbox.messages[1]["Subject"]) == "[critical] anew"


@pytest.mark.parametrize(
    "kafka", [{"session.timeout.ms": 1_800_000}, {"group.protocol": "consumer"}]
)
def test_after_a_kill_it_is_back_at_once(
    broker: MoldauProcess, smtp: SmtpServer, app: App, kafka: dict[str, object]
) -> None:
    """Nothing here waits as long as the session of the member that was killed."""
    app.settings["kafka"] = kafka
    app.start()
    for round_ in range(1, 4):
        produce(broker, 6, subjects=1)
        wait_until(lambda: app.stored() == 6 * round_)  # noqa: B023 - called in this round
        app.kill()
        app.start()
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:

        def members() -> int:
            (group,) = admin.describe_groups(["mailalert"])
            return len(group.get().members)

        wait_until(lambda: members() == 1)
        assert app.stop() == 0
        assert members() == 0  # whoever ends in peace lets others go on at once


def test_alerts_do_not_mail_to_the_world(broker: MoldauProcess, smtp: SmtpServer, app: App) -> None:
    app.start()
    send = ("send", "--severity", "critical", "-b", broker.bootstrap_servers)
    for to in ("victim@example.com", "dev@example.org"):
        assert app.command(*send, "-s", f"to {to}", "--to", to).returncode == 0
    wait_until(lambda: app.all_finished(2))
    assert smtp.inbox.envelopes == [("dev@example.org",)]
    [kept] = [row for row in list_alerts(app.database, limit=10) if row["state"] == "invalid"]
    assert kept["subject"] == "to victim@example.com"
    assert "may not name victim@example.com" in kept["error"]


@pytest.mark.timeout(1200)
def test_a_burst_with_a_small_queue_an_outage_and_three_kills(
    broker: MoldauProcess, smtp: SmtpServer, app: App
) -> None:
    """Every alert is in the database once, every one is mailed at the rate that is allowed, and
    offsets are committed."""
    count, subjects = 200_000, 60
    app.settings["queue"] = {"length": 1000}
    app.settings["mail"] |= {"rate": RATE, "burst": BURST}
    app.settings["digest"]["window"] = "2s"
    app.settings["http"] = {"listen": "127.0.0.1:0"}
    app.start()
    produce(broker, count, subjects)
    for share in (0.1, 0.4, 0.7):
        wait_until(partial(app.has_stored, count * share))
        app.kill()
        if share == 0.4:
            smtp.stop()
        app.start()
        if share == 0.4:
            wait_until(lambda: app.stored() >= count * 0.55)
            smtp.start()
    wait_until(lambda: app.all_finished(count))
    assert app.stop() == 0

    assert app.stored() == count
    rows = list_alerts(app.database, limit=2 * count)
    assert len(rows) == len({(row["partition"], row["offset"]) for row in rows}) == count
    assert {row["state"] for row in rows} == {"sent"}
    mails = list_mails(app.database, limit=10 * count)
    assert {mail.state for mail in mails} == {"sent"}
    assert sum(mail.alert_count for mail in mails) == count
    # Each mail went out; again only where a kill hid the server's answer.
    seen = smtp.inbox.message_ids()
    assert smtp.inbox.alert_count() == count
    assert len(seen) == len(mails)
    assert sum(seen.values()) - len(seen) <= 3 * WORKERS
    assert most_in_a_second(smtp.inbox.times) <= AT_MOST
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        places_end = [TopicPartition(TOPIC, number) for number in range(3)]
        ends = admin.list_offsets(dict.fromkeys(places_end, OffsetSpec.LATEST))
    assert committed(broker) == {place: end.offset for place, end in ends.items()}


def test_the_send_rate_is_kept_over_a_backlog(
    broker: MoldauProcess, smtp: SmtpServer, app: App
) -> None:
    app.settings["mail"] |= {"rate": RATE, "burst": BURST}
    app.settings["digest"]["window"] = "0s"
    produce(broker, 450, subjects=450)
    app.start()
    wait_until(lambda: app.all_finished(450))
    assert set(smtp.inbox.message_ids().values()) == {1}
    assert len(smtp.inbox.times) == 450
    assert most_in_a_second(smtp.inbox.times) <= AT_MOST


def test_webhooks_and_the_status_page(broker: MoldauProcess, smtp: SmtpServer, app: App) -> None:
    app.settings["http"] = {"listen": "127.0.0.1:0", "token": "secret"}
    app.start()

    def call(
        path: str, body: object = None, token: str = "secret", **headers: str
    ) -> tuple[int, str]:
        request = urllib.request.Request(
            app.status_url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}"} | headers,
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    assert call("alerts", {"subject": "one", "severity": "critical"})[0] == 202
    many = [{"subject": f"many {number}"} for number in range(3)]
    assert call("alerts", many) == (202, '{"stored":3}')
    wait_until(lambda: len(smtp.inbox.messages) == 4)
    assert call("alerts", {"body": "no subject"})[0] == 400
    assert call("alerts", "text")[0] == 400
    assert call("alerts")[0] == 405
    assert call("alerts", {"subject": "large", "body": "x" * 2_000_000})[0] == 413
    assert call("alerts", {"subject": "larger", "body": "x" * 5_000_000})[0] == 413
    assert call("status.json", token="wrong")[0] == 401
    # In an address a token is for what people look at.
    assert call("alerts?token=secret", {"subject": "x"}, token="")[0] == 401
    assert call("alerts?token=secret", {"subject": "x"}, Authorization="Basic x")[0] == 401
    assert call("status.json?token=secret", Authorization="Basic x")[0] == 200
    assert call("status.json", Host="evil.example.org")[0] == 421
    assert call("alerts", {"subject": "x"}, Host="evil.example.org")[0] == 421
    code, why = call("alerts", {"subject": "x", "recipients": ["victim@example.com"]})
    assert code == 400
    assert "may not name victim@example.com" in why
    assert call("alerts", {"subject": "whose?"}, token="")[0] == 401
    wait_until(lambda: json.loads(call("status.json")[1])["mails"]["sent"] == 4)
    assert 'mailalert_mails{state="sent"} 4' in call("metrics")[1]
    page = call("")[1]
    assert "the mail server is available" in page
    assert call("nothing")[0] == 404


def test_a_group_that_falls_behind_raises_an_alert_and_clears_it(
    broker: MoldauProcess, smtp: SmtpServer, app: App
) -> None:
    broker.create_topic("work", partitions=1)
    producer = OtherProducer({"bootstrap.servers": broker.bootstrap_servers})
    for _ in range(10):
        producer.produce("work", b"x", partition=0)
    producer.flush(150)
    place = TopicPartition("work", 0)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.alter_group_offsets("workers", {place: OffsetAndMetadata(0)})
        app.top["watch_every"] = "100ms"
        app.watches.append({"group": "workers", "records": 5, "recipients": ["lag@example.org"]})
        app.start()
        wait_until(lambda: len(smtp.inbox.messages) == 1)
        admin.alter_group_offsets("workers", {place: OffsetAndMetadata(9)})
        wait_until(lambda: len(smtp.inbox.messages) == 2)
    subjects = [str(message["Subject"]) for message in smtp.inbox.messages]
    assert subjects == ["[error] Consumer lag: workers", "[info] Consumer lag is over: workers"]
    assert smtp.inbox.envelopes == [("lag@example.org",)] * 2


def test_the_command_watches_a_group_too(broker: MoldauProcess) -> None:
    broker.create_topic("work", partitions=1)
    producer = OtherProducer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("work", b"x", partition=0)
    producer.flush(150)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.alter_group_offsets("workers", {TopicPartition("work", 0): OffsetAndMetadata(0)})
    command = [sys.executable, "-m", "moldau.cli", "mailalert", "watch-lag", "--group", "workers"]
    command += ["--records", "1", "--every", "100ms", "-b", broker.bootstrap_servers]
    watching = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with Consumer(
            bootstrap_servers=broker.bootstrap_servers, group_id="a", auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe([TOPIC])
            (record,) = consumer.consume_batch(1, timeout=150)
    finally:
        watching.send_signal(signal.SIGINT)
        watching.wait(150)
    assert json.loads(record.value)["subject"] == "Consumer lag: workers"
    assert watching.returncode == 130


def test_the_application_runs_on_postgresql_and_survives_its_restart(
    broker: MoldauProcess, smtp: SmtpServer, app: App
) -> None:
    with Postgres() as postgres:
        url = postgres.url("alerts")
        app.settings["database"] = {"url": url}
        app.database = Database(url)
        app.start()
        produce(broker, 100, subjects=5)
        wait_until(lambda: app.stored() == 100)
        postgres.restart()
        produce(broker, 100, subjects=5)
        wait_until(lambda: app.all_finished(200))
        assert app.stop() == 0
        assert smtp.inbox.alert_count() == 200
        app.database.close()


def test_two_processes_do_not_share_one_sqlite_file(app: App) -> None:
    app.start()
    second = app.command("run", "-c", str(app.config))
    assert second.returncode == 1
    assert "in use by another process" in second.stderr
