"""From a mail of the database to a message with a plain and an HTML part, by jinja2 templates.

The templates of the package can be replaced one by one by files of the same name in a folder of
one's own (``templates`` in the settings): ``subject.txt``, ``digest.txt``, ``digest.html``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path
from typing import Final

from jinja2 import (
    ChoiceLoader,
    Environment,
    FileSystemLoader,
    PackageLoader,
    StrictUndefined,
    select_autoescape,
)

from moldau.mailalert.alert import Severity
from moldau.mailalert.outbox import Mail, Sample
from moldau.mailalert.smtp import with_ascii_domain

LONGEST_BODY: Final = 20_000
"""Characters of a body that a mail shows; mail servers refuse mails of many megabytes."""


class Renderer:
    """The messages, and nothing of how they are sent."""

    def __init__(self, sender: str, templates: Path | None = None) -> None:
        self._sender = sender
        own = [FileSystemLoader(templates)] if templates is not None else []
        self._templates = Environment(
            loader=ChoiceLoader([*own, PackageLoader("moldau.mailalert")]),
            autoescape=select_autoescape(),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        self._templates.filters["moment"] = show_time
        self._templates.filters["severity"] = lambda number: Severity(number).name.lower()

    def render(self, mail: Mail, samples: Sequence[Sample], now_ms: int) -> EmailMessage:
        values = {
            "mail": mail,
            "samples": [_shortened(sample) for sample in samples],
            "more": mail.alert_count - len(samples),
        }
        message = EmailMessage()
        message["Subject"] = " ".join(self._render("subject.txt", values).split())
        message["From"] = self._sender
        message["To"] = ", ".join(map(with_ascii_domain, mail.recipients))
        message["Date"] = format_datetime(datetime.fromtimestamp(now_ms / 1000, UTC))
        message["Message-ID"] = mail.message_id
        # So that nobody's holiday notice answers an alert.
        message["Auto-Submitted"] = "auto-generated"
        message["X-Moldau-Alerts"] = str(mail.alert_count)
        message.set_content(self._render("digest.txt", values))
        message.add_alternative(self._render("digest.html", values), subtype="html")
        return message

    def _render(self, name: str, values: dict[str, object]) -> str:
        return self._templates.get_template(name).render(values)


def _shortened(sample: Sample) -> Sample:
    left_out = len(sample.body) - LONGEST_BODY
    if left_out <= 0:
        return sample
    body = f"{sample.body[:LONGEST_BODY]}\n[{left_out:,} more characters are in the database]"
    return replace(sample, body=body)


def show_time(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
