"""Raising alerts from a program: one line, or a sender that is kept for many."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from moldau.client.closing import Closing
from moldau.client.producer import Delivery, Producer
from moldau.mailalert.alert import Alert, Severity, decode_alert

DEFAULT_TOPIC: Final = "alerts"


class AlertSender(Closing):
    """Alerts into a topic, acknowledged by all replicas. Thread-safe."""

    def __init__(
        self,
        bootstrap_servers: str = "127.0.0.1:9092",
        *,
        topic: str = DEFAULT_TOPIC,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.topic = topic
        self._producer = Producer({**(settings or {}), "bootstrap.servers": bootstrap_servers})

    def send(self, alert: Alert) -> Delivery:
        """Queue an alert; the future tells when it is stored. Subjects keep their order."""
        if not alert.time_ms:
            alert = Alert(
                alert.subject,
                alert.body,
                alert.recipients,
                alert.severity,
                alert.dedupe_key,
                time.time_ns() // 1_000_000,
            )
        value = alert.encode()
        decode_alert(value, 0)  # a bad one fails here, where somebody can correct it
        return self._producer.send(self.topic, value, key=alert.subject.encode())

    def close(self) -> None:
        self._producer.close()


def send_alert(
    subject: str,
    body: str = "",
    *,
    severity: Severity | str = Severity.ERROR,
    recipients: Sequence[str] = (),
    dedupe_key: str | None = None,
    bootstrap_servers: str = "127.0.0.1:9092",
    topic: str = DEFAULT_TOPIC,
    timeout: float = 30.0,
    settings: Mapping[str, object] | None = None,
) -> None:
    """Raise one alert and return when it is stored, or fail after ``timeout`` seconds.

    ``settings`` are further ones of the producer, under Kafka's names.
    """
    alert = Alert(
        subject=subject,
        body=body,
        recipients=tuple(recipients),
        severity=Severity.parse(severity) if isinstance(severity, str) else severity,
        dedupe_key=dedupe_key,
    )
    within = max(1, int(timeout * 1000))
    limits = {
        "max.block.ms": within,
        "delivery.timeout.ms": within,
        "request.timeout.ms": within,
        "linger.ms": 0,
    }
    with AlertSender(
        bootstrap_servers, topic=topic, settings={**(settings or {}), **limits}
    ) as sender:
        sender.send(alert).result()
