"""Pictures for docs/mailalert.md: a received digest and the status page, as a browser shows them.

    .venv/bin/python tools/mailalert_screenshots.py

Starts a broker, a mail server and the application, raises some alerts, and needs chromium.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support.smtp_server import SmtpServer

from moldau.mailalert.alert import Alert, Severity
from moldau.mailalert.app import MailAlert
from moldau.mailalert.producer import AlertSender
from moldau.mailalert.settings import parse_settings
from moldau.testing.broker import MoldauProcess

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, SmtpServer() as smtp:
        directory = Path(temporary)
        overrides = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}
        with MoldauProcess(directory / "broker", overrides=overrides) as broker:
            broker.create_topic("alerts", partitions=1)
            settings = parse_settings(
                {
                    "bootstrap_servers": broker.bootstrap_servers,
                    "recipients": ["ops@example.org"],
                    "mail": {"port": smtp.port, "sender": "alerts@example.org"},
                    "digest": {"window": "2s", "samples": 3},
                    "database": {"url": f"sqlite:///{directory}/alerts.db"},
                    "http": {"listen": "127.0.0.1:0"},
                }
            )
            with MailAlert(settings) as app, AlertSender(broker.bootstrap_servers) as sender:
                raise_alerts(sender)
                wait_for(lambda: len(smtp.inbox.messages) >= 3)
                digest = next(m for m in smtp.inbox.messages if "alerts)" in str(m["Subject"]))
                html = digest.get_body(("html",))
                assert html is not None
                page = directory / "digest.html"
                page.write_text(html.get_content())
                photograph(page.as_uri(), PICTURES / "mailalert-digest.png", "720,430")
                smtp.inbox.on_recipient = lambda address: (
                    "550 5.1.1 no such user" if address.startswith("nobody") else None
                )
                sender.send(Alert("Backup failed", recipients=("nobody@example.org",))).result(30)
                raise_alerts(sender)
                assert app.web is not None
                wait_for(lambda: app.pool is not None and app.pool.failed > 0)
                url = f"http://127.0.0.1:{app.web.port}/"
                photograph(url, PICTURES / "mailalert-status.png", "920,700")


def raise_alerts(sender: AlertSender) -> None:
    for number in range(240):
        sender.send(
            Alert(
                "Disk almost full on db-3",
                f"/var/lib/data has {max(1, 9 - number // 30)} % left "
                f"({number % 7 + 1} GiB of 512 GiB).",
                severity=Severity.ERROR,
                dedupe_key=f"disk:{number // 2}:{time.time()}" if number % 4 else None,
            )
        )
    sender.send(Alert("Certificate expires in 7 days", severity=Severity.WARNING))
    sender.send(Alert("Checkout is down", "3 of 3 probes failed", severity=Severity.CRITICAL))


def photograph(url: str, target: Path, size: str) -> None:
    subprocess.run(
        [
            *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *(f"--window-size={size}", f"--screenshot={target}", url),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    print(target)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


if __name__ == "__main__":
    main()
