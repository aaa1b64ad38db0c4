"""``moldau mailalert``: run, send, status, list, retry, purge, watch-lag."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.cli.command_config import client_config
from moldau.cli.exit_codes import CommandError, UsageError
from moldau.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Timeout, group_app
from moldau.cli.output import note, print_json, print_line, print_table
from moldau.cli.session import DEFAULT_TIMEOUT
from moldau.cli.wording import counted
from moldau.extras import how_to_install
from moldau.printable import log_to_stderr

if TYPE_CHECKING:
    from moldau.mailalert.database import Database
    from moldau.mailalert.settings_tables import Settings

app = group_app("Alerts by mail: run the application, raise alerts, look after the dead letters.")

Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="The settings, in TOML."),
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="How many lines at most.")]


@app.command()
def run(config: Config = None) -> None:
    """Mail the alerts of a topic until SIGTERM or Ctrl-C."""
    import logging

    settings = _settings(config)
    from moldau.mailalert.app import MailAlert

    log_to_stderr(os.environ.get("MOLDAU_LOG_LEVEL", "INFO"))
    if not settings.recipients and not settings.routes:
        note(
            "No recipients and no routes are set: only alerts that name recipients of "
            "allowed_recipients are mailed."
        )
    logging.getLogger("alembic").setLevel(logging.WARNING)
    application = MailAlert(settings)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: application.interrupt())
    with application:
        ready = f"moldau mailalert ready: topic {settings.topic} on {settings.bootstrap_servers}"
        if application.web is not None:
            host = settings.http.listen.rpartition(":")[0]
            ready += f", status on http://{host}:{application.web.port}/"
        print_line(ready, flush=True)
        application.wait()


@app.command()
def send(
    subject: Annotated[str, typer.Option("--subject", "-s", help="What it is about.")],
    body: Annotated[str, typer.Option("--body", help="The text; - reads it from stdin.")] = "",
    to: Annotated[
        list[str], typer.Option("--to", metavar="ADDRESS", help="A recipient; repeatable.")
    ] = [],  # noqa: B006 - typer copies it
    severity: Annotated[
        str, typer.Option(help="debug, info, warning, error or critical.")
    ] = "error",
    dedupe_key: Annotated[
        str | None, typer.Option(help="Alerts with one key within a while count as one.")
    ] = None,
    topic: Annotated[str, typer.Option("--topic", "-t", help="Where alerts go.")] = "alerts",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Raise one alert; returns when it is stored."""
    _need_extra()
    from moldau.client.settings import ProducerSettings
    from moldau.mailalert.producer import send_alert

    try:
        send_alert(
            subject,
            sys.stdin.read() if body == "-" else body,
            severity=severity,
            recipients=to,
            dedupe_key=dedupe_key,
            bootstrap_servers=bootstrap,
            topic=topic,
            timeout=timeout,
            settings=client_config(ProducerSettings, {}),
        )
    except ValueError as error:
        raise UsageError(str(error)) from None
    note(f"The alert is in topic {topic!r}.")


@app.command()
def status(config: Config = None, json: Json = False) -> None:
    """How many alerts and mails are in which state, and the last errors."""
    from dataclasses import asdict

    database = _database(config)
    from moldau.mailalert.status import read_status

    found = read_status(database, _now_ms())
    if json:
        print_json(asdict(found))
        return
    print_table(["ALERTS", "COUNT"], list(found.alerts.items()))
    print_line()
    print_table(["MAILS", "COUNT"], list(found.mails.items()))
    if found.last_errors:
        print_line()
        print_table(
            ["MAIL", "STATE", "ATTEMPTS", "SUBJECT", "ERROR"],
            [
                (row["id"][:8], row["state"], row["attempts"], row["subject"], row["error"])
                for row in found.last_errors
            ],
        )


@app.command("list")
def list_mails(
    state: Annotated[str | None, typer.Option(help="Only mails (or alerts) in this state.")] = None,
    alerts: Annotated[bool, typer.Option("--alerts", help="Single alerts, not mails.")] = False,
    limit: Limit = 50,
    config: Config = None,
    json: Json = False,
) -> None:
    """Mails, the newest first; with --alerts the alerts in them."""
    from dataclasses import asdict

    database = _database(config)
    from moldau.mailalert import status as queries
    from moldau.mailalert.alert import Severity
    from moldau.mailalert.rendering import show_time
    from moldau.mailalert.states import AlertState, MailState

    if alerts:
        chosen = _state(AlertState, state)
        rows = queries.list_alerts(database, state=chosen, limit=limit)
        if json:
            print_json(rows)
            return
        print_table(
            ["TOPIC", "PARTITION", "OFFSET", "STATE", "SEVERITY", "TIME", "SUBJECT", "ERROR"],
            [
                (
                    row["topic"],
                    row["partition"],
                    row["offset"],
                    row["state"],
                    Severity(row["severity"]).name.lower(),
                    show_time(row["time_ms"]),
                    row["subject"],
                    row["error"],
                )
                for row in rows
            ],
        )
        return
    mails = queries.list_mails(database, state=_state(MailState, state), limit=limit)
    if json:
        print_json([asdict(mail) for mail in mails])
        return
    print_table(
        ["MAIL", "STATE", "SEVERITY", "ALERTS", "ATTEMPTS", "CREATED", "SUBJECT", "TO", "ERROR"],
        [
            (
                mail.id[:8],
                mail.state,
                Severity(mail.severity).name.lower(),
                mail.alert_count,
                mail.attempts,
                show_time(mail.created_ms),
                mail.subject,
                mail.recipients.replace("\n", ", "),
                mail.error,
            )
            for mail in mails
        ],
    )


@app.command()
def retry(
    mails: Annotated[
        list[str], typer.Argument(metavar="MAIL...", help="Mails by their ids, or how these begin.")
    ] = [],  # noqa: B006
    everything: Annotated[bool, typer.Option("--all", help="All dead letters.")] = False,
    config: Config = None,
) -> None:
    """Send dead letters again."""
    if bool(mails) == everything or not all(mails):
        raise UsageError("Name mails, or give --all")
    database = _database(config)
    from moldau.mailalert.outbox import Outbox

    outbox = Outbox(database, domain="localhost")
    revived = {one: outbox.revive(_now_ms(), one) for one in (mails or [""])}
    count = sum(revived.values())
    print_line(f"{counted(count, 'mail')} will be sent again.")
    missing = [one for one, found in revived.items() if one and not found]
    if missing:
        raise CommandError(f"No dead letter has an id that begins with {', '.join(missing)}")


@app.command("purge")
def purge_command(
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="DURATION", help="By when they were finished.")
    ] = "3d",
    failed: Annotated[bool, typer.Option("--failed", help="Dead letters as well.")] = False,
    config: Config = None,
) -> None:
    """Remove finished alerts from the database now; `run` does it by itself every hour."""
    database = _database(config)
    from moldau.mailalert.settings_tables import parse_duration_ms
    from moldau.mailalert.store import purge

    before_ms = _now_ms() - parse_duration_ms(older_than)
    removed = purge(
        database, sent_before_ms=before_ms, failed_before_ms=before_ms if failed else None
    )
    print_line(f"{removed} alert{' was' if removed == 1 else 's were'} removed.")


@app.command("watch-lag")
def watch_lag(
    group: Annotated[str, typer.Option("--group", "-g", help="The consumer group.")],
    topic: Annotated[str | None, typer.Option("--topic", help="Only this topic.")] = None,
    records: Annotated[
        int | None, typer.Option(min=1, help="Alert at so many records behind.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.0, help="Alert at so many seconds behind.")
    ] = None,
    lasting: Annotated[
        str, typer.Option(metavar="DURATION", help="Only when it lasts so long.")
    ] = "0s",
    quiet_hours: Annotated[
        str | None, typer.Option(metavar="HH:MM-HH:MM", help="No alert in these hours.")
    ] = None,
    every: Annotated[str, typer.Option(metavar="DURATION", help="How often to look.")] = "30s",
    to: Annotated[
        list[str], typer.Option("--to", metavar="ADDRESS", help="A recipient; repeatable.")
    ] = [],  # noqa: B006
    alert_topic: Annotated[str, typer.Option(help="Where alerts go.")] = "alerts",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Raise an alert when a group falls behind, and clear it, until Ctrl-C."""
    _need_extra()
    from moldau.client.admin import Admin
    from moldau.client.settings import AdminSettings, ProducerSettings
    from moldau.mailalert.lag_watcher import LagWatcher
    from moldau.mailalert.producer import AlertSender
    from moldau.mailalert.settings_check import check_watch
    from moldau.mailalert.settings_tables import WatchTable, parse_duration_ms

    if records is None and seconds is None:
        raise UsageError("Give --records or --seconds")
    table = WatchTable(
        group=group,
        topic=topic,
        records=records,
        seconds=seconds,
        lasting=lasting,
        quiet_hours=quiet_hours,
        recipients=to,
    )
    check_watch("watch-lag", table)
    pause = parse_duration_ms(every) / 1000
    if not pause:
        raise UsageError("--every must be longer than nothing")

    def raise_alert(alert: Any) -> None:
        note(f"{alert.subject}: {alert.body}")
        sender.send(alert).result(DEFAULT_TIMEOUT)

    with (
        Admin(client_config(AdminSettings, {"bootstrap.servers": bootstrap})) as admin,
        AlertSender(
            bootstrap, topic=alert_topic, settings=client_config(ProducerSettings, {})
        ) as sender,
    ):
        watcher = LagWatcher(admin, raise_alert, [table], pause)
        while True:
            watcher.look()
            time.sleep(pause)


def _settings(config: Path | None) -> Settings:
    _need_extra()
    from moldau.mailalert.settings import load_settings

    return load_settings(config)


def _database(config: Path | None) -> Database:
    settings = _settings(config)
    from moldau.mailalert.database import Database

    database = Database(settings.database.url)
    file = database.url.database
    if not database.is_shared and not (file and Path(file).exists()):
        raise CommandError(
            f"There is no database {file!r} yet; `moldau mailalert run` makes it. "
            "Is --config missing?"
        )
    database.migrate()
    return database


def _need_extra() -> None:
    from importlib.util import find_spec

    missing = [
        name for name in ("sqlalchemy", "alembic", "jinja2", "uvicorn") if not find_spec(name)
    ]
    if missing:
        raise CommandError(f"Mail alerts need more packages: {how_to_install('mailalert')}")


def _state(states: Any, text: str | None) -> Any:
    if text is None:
        return None
    try:
        return states(text.lower())
    except ValueError:
        allowed = ", ".join(state.value for state in states)
        raise UsageError(f"There is no state {text!r}, only {allowed}") from None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
