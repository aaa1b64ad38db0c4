"""Alerts as JSON, who gets them, which mail they go into, and how it looks."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.admin import Admin, PartitionLag
from moldau.config.option import ConfigError
from moldau.errors import ErrorCode, KafkaError
from moldau.mailalert.alert import Alert, InvalidAlertError, Severity, check_address, decode_alert
from moldau.mailalert.allowed import AllowedRecipients
from moldau.mailalert.grouping import Grouper
from moldau.mailalert.lag import Lag, LagRule, LagState, LagWatch, QuietHours
from moldau.mailalert.lag_watcher import LagWatcher
from moldau.mailalert.outbox import Mail, Sample
from moldau.mailalert.rendering import LONGEST_BODY, Renderer
from moldau.mailalert.routing import Route, Router
from moldau.mailalert.settings import load_settings, parse_settings
from moldau.mailalert.settings_tables import Settings, WatchTable, parse_duration_ms
from moldau.mailalert.smtp import with_ascii_domain
from moldau.mailalert.states import ALERT_STATES, PREDECESSORS, MailState
from moldau.model import OffsetAndMetadata, TopicPartition

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


# Alerts ------------------------------------------------------------------------------------------


@given(
    TEXT.filter(lambda text: text.split()), TEXT, st.sampled_from(Severity), st.integers(1, 2**47)
)
def test_an_alert_comes_back_as_it_was(
    subject: str, body: str, severity: Severity, time_ms: int
) -> None:
    alert = Alert(subject, body, ("a@example.org",), severity, "key", time_ms)
    back = decode_alert(alert.encode(), 0)
    assert back.subject == " ".join(subject.replace("\0", "\ufffd").split())[:500]
    assert back.body == body.replace("\0", "\ufffd")
    assert (back.severity, back.time_ms, back.dedupe_key) == (severity, time_ms, "key")


@given(st.binary(max_size=60))
def test_garbage_is_refused_and_nothing_else_happens(data: bytes) -> None:
    with pytest.raises(InvalidAlertError):
        decode_alert(b"{" + data, 0)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (None, "no value"),
        (b"", "no value"),
        (b"{}", "subject"),
        (b'{"subject": " \\n "}', "empty"),
        (b'{"subject": "x", "severity": "bad"}', "must be one of debug, info"),
        (b'{"subject": "x", "recipients": ["nobody"]}', "not a mail address"),
        (b'{"subject": "x", "recipients": ["a@b\\r\\nBcc: c@d"]}', "not a mail address"),
        (b'{"subject": "x", "recipients": ["a\\u2028b@example.org"]}', "not a mail address"),
        (b'{"subject": "x", "recipients": ["a@b@c", "d@e"]}', "not a mail address"),
        (b'{"subject": "x", "time": "yesterday"}', "yesterday"),
        (b'{"subject": "x", "time": 99999999999999999999}', "to the year 9999"),
        (b'{"subject": "x", "time": 253402300800000}', "to the year 9999"),
        (b'{"subject": "x", "time": -1}', "from 1970"),
        (b'{"subject": "x", "time": "0001-01-01T00:00:00+14:00"}', "from 1970"),
        (b'{"subject": "\\ud800"}', "truncated|surrogate|malformed"),
        (b'{"subject": "x", "more": ' + b"[" * 100_000, "depth|truncated|malformed"),
    ],
)
def test_a_bad_alert_is_refused_with_a_reason(data: bytes | None, reason: str) -> None:
    with pytest.raises(InvalidAlertError, match=reason):
        decode_alert(data, 0)


def test_times_may_be_words_numbers_or_missing() -> None:
    assert decode_alert(b'{"subject": "x", "time": "2026-01-01T00:00:00Z"}', 7).time_ms == (
        1767225600000
    )
    assert decode_alert(b'{"subject": "x", "time": 5}', 7).time_ms == 5
    assert decode_alert(b'{"subject": "x"}', 7).time_ms == 7


def test_a_subject_cannot_bring_headers_with_it() -> None:
    alert = decode_alert(b'{"subject": "a\\r\\nBcc: evil@example.org"}', 0)
    assert "\n" not in alert.subject


@given(st.text(max_size=20), st.text(max_size=20))
def test_an_address_that_is_taken_fits_into_a_header(name: str, domain: str) -> None:
    try:
        address = check_address(f"{name}@{domain}")
    except InvalidAlertError:
        return
    message = EmailMessage()
    message["To"] = with_ascii_domain(address)
    message["Bye"] = "bye"
    for policy in (SMTP, SMTPUTF8):
        lines = message.as_bytes(policy=policy).splitlines()
        names = [line.split(b":")[0] for line in lines if line and not line[:1].isspace()]
        assert names == [b"To", b"Bye"]


# Routing -----------------------------------------------------------------------------------------


def test_routes_are_asked_in_order() -> None:
    router = Router(
        [
            Route(("db@x.org",), subject="Database*", go_on=True),
            Route(("boss@x.org",), min_severity=Severity.CRITICAL),
            Route(("ops@x.org",), subject="*disk*"),
        ],
        ["all@x.org"],
        AllowedRecipients(["@x.org"]),
    )
    assert router.recipients(Alert("database down")) == ("db@x.org",)
    assert router.recipients(Alert("DATABASE disk")) == ("db@x.org", "ops@x.org")
    assert router.recipients(Alert("fire", severity=Severity.CRITICAL)) == ("boss@x.org",)
    assert router.recipients(Alert("else")) == ("all@x.org",)
    assert router.recipients(Alert("database", recipients=("me@x.org",))) == ("me@x.org",)
    with pytest.raises(InvalidAlertError, match="alerts may not name them@y"):
        router.recipients(Alert("database", recipients=("me@x.org", "them@y.org")))


FILE = {
    "recipients": ["ops@example.org"],
    "routes": [{"recipients": ["dev@Exämple.de"]}],
    "watch": [{"group": "g", "records": 1, "recipients": ["lag@lag.example.org"]}],
}


@pytest.mark.parametrize(
    ("entries", "allowed", "refused"),
    [
        (
            None,
            ["anybody@example.org", "OPS@EXAMPLE.ORG", "x@xn--exmple-cua.de", "x@lag.example.org"],
            [
                "ops@example.com",
                "ops@example.org.example.com",
                "ops@sub.example.org",
                "ops@notexample.org",
                "victim%example.com@example.org",
                "example.com!victim@example.org",
            ],
        ),
        (
            ["boss@example.com", "@example.net"],
            ["ops@example.org", "lag@lag.example.org", "Boss@example.com", "x@EXAMPLE.net"],
            ["other@example.org", "other@example.com"],
        ),
        ([], ["ops@example.org", "dev@exämple.de"], ["other@example.org"]),
        (["*"], ["anybody@example.com", "a%b@example.org"], []),
    ],
    ids=["none", "list", "nobody else", "everybody"],
)
def test_whom_alerts_may_name(
    entries: list[str] | None, allowed: list[str], refused: list[str]
) -> None:
    table = FILE if entries is None else FILE | {"allowed_recipients": entries}
    recipients = parse_settings(table).allowed()
    assert [address for address in allowed if address not in recipients] == []
    assert [address for address in refused if address in recipients] == []


def test_without_anybody_in_the_settings_alerts_name_nobody() -> None:
    assert "ops@example.org" not in parse_settings({}).allowed()


def test_a_mail_to_the_world_is_no_alert() -> None:
    many = [f"a{number}@example.org" for number in range(101)]
    decode_alert(json.dumps({"subject": "x", "recipients": many[:100]}).encode(), 0)
    with pytest.raises(InvalidAlertError, match="101 recipients are more than 100"):
        decode_alert(json.dumps({"subject": "x", "recipients": many}).encode(), 0)


# Grouping ----------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.sampled_from([Severity.INFO, Severity.CRITICAL]),
            st.sampled_from([None, "k", "l"]),
            st.integers(0, 40_000),
        ),
        max_size=40,
    )
)
def test_no_mail_takes_alerts_beyond_its_window(
    events: list[tuple[str, Severity, str | None, int]],
) -> None:
    grouper = Grouper(replace(Settings().grouping(), window_ms=60_000, dedupe_window_ms=100_000))
    now = 0
    made: dict[str, int] = {}
    for subject, severity, key, gap in events:
        now += gap
        grouper.forget(now)
        placement = grouper.place(Alert(subject, severity=severity, dedupe_key=key), ("x",), now)
        assert placement.is_new == (placement.mail.id not in made)
        made.setdefault(placement.mail.id, now)
        if not placement.is_duplicate:
            assert placement.mail.key == (subject, ("x",))
            assert now - made[placement.mail.id] < 60_000
            if severity is Severity.CRITICAL:
                assert placement.is_new


def test_states_have_a_way_in_and_alerts_follow() -> None:
    assert set(PREDECESSORS) == set(ALERT_STATES) == set(MailState)
    for state, before in PREDECESSORS.items():
        assert state is MailState.OPEN or before


# Mails -------------------------------------------------------------------------------------------


def mail(count: int = 3) -> Mail:
    return Mail(
        id="1" * 32,
        subject="<disk> full",
        recipients=("ops@example.org",),
        severity=Severity.ERROR,
        alert_count=count,
        duplicate_count=1 if count > 1 else 0,
        first_time_ms=1767225600000,
        last_time_ms=1767225660000,
        message_id="<1@example.org>",
        complete_ms=0,
        attempts=1,
    )


def test_a_digest_has_both_parts_and_escapes_html() -> None:
    samples = [Sample(1767225600000, Severity.ERROR, "<b>/data</b>")]
    message = Renderer("alerts@example.org").render(mail(), samples, 1767225700000)
    assert message["Subject"] == "[error] <disk> full (3 alerts)"
    plain = message.get_body(("plain",))
    html = message.get_body(("html",))
    assert plain is not None
    assert html is not None
    text = plain.get_content()
    assert "<b>/data</b>" in text
    assert "2026-01-01 00:01:00 UTC" in text
    assert "and 2 more" in text
    assert "Repetitions:    1" in text
    assert "&lt;b&gt;/data&lt;/b&gt;" in html.get_content()
    assert message["Message-ID"] == "<1@example.org>"
    assert message["X-Moldau-Alerts"] == "3"


def test_an_endless_body_is_cut() -> None:
    samples = [Sample(0, Severity.ERROR, "x" * (LONGEST_BODY + 1234))]
    message = Renderer("alerts@example.org").render(mail(1), samples, 0)
    plain = message.get_body(("plain",))
    assert plain is not None
    assert "x\n[1,234 more characters are in the database]" in plain.get_content()


def test_templates_can_be_replaced_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "subject.txt").write_text("ALERT {{ mail.subject }}")
    message = Renderer("a@example.org", tmp_path).render(mail(1), [], 0)
    assert message["Subject"] == "ALERT <disk> full"
    assert "Severity: error" in str(message)


# Lag ---------------------------------------------------------------------------------------------

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NIGHT = datetime(2026, 1, 1, 23, 30, tzinfo=UTC)


def test_a_swinging_lag_raises_one_alert() -> None:
    watch = LagWatch(LagRule("readers", records=100))
    told = [
        watch.update(Lag(records, 0), n, NOON)
        for n, records in enumerate([50, 100, 95, 105, 81, 120, 79, 90, 99, 100])
    ]
    subjects = [alert.subject for alert in told if alert is not None]
    assert subjects == [
        "Consumer lag: readers",
        "Consumer lag is over: readers",
        "Consumer lag: readers",
    ]
    assert told[1] is not None
    assert "100 records and 0 s behind" in told[1].body


def test_a_short_peak_is_not_told() -> None:
    watch = LagWatch(LagRule("readers", seconds=10, lasting_ms=5000))
    assert watch.update(Lag(0, 11), 0, NOON) is None
    assert watch.state is LagState.RISING
    assert watch.update(Lag(0, 1), 4000, NOON) is None
    assert watch.update(Lag(0, 11), 5000, NOON) is None
    assert watch.update(Lag(0, 11), 10_000, NOON) is not None


def test_quiet_hours_put_an_alert_off() -> None:
    watch = LagWatch(LagRule("readers", records=1, quiet_hours=QuietHours.parse("22:00-06:00")))
    assert watch.update(Lag(5, 0), 0, NIGHT) is None
    assert watch.update(Lag(5, 0), 1, datetime(2026, 1, 2, 5, 59, tzinfo=UTC)) is None
    assert watch.update(Lag(5, 0), 2, datetime(2026, 1, 2, 6, tzinfo=UTC)) is not None


class Groups:
    """The part of an admin client that tells the lag."""

    def group_lag(self, _group: str) -> dict[TopicPartition, PartitionLag]:
        return {TopicPartition("work", 0): PartitionLag(OffsetAndMetadata(0), 10, 1000)}


def test_an_alert_that_could_not_be_sent_is_sent_by_the_next_round() -> None:
    sent: list[Alert] = []
    broken = [KafkaError(ErrorCode.REQUEST_TIMED_OUT), TimeoutError()]

    def send(alert: Alert) -> None:
        if broken:
            raise broken.pop()
        sent.append(alert)

    table = WatchTable(group="readers", records=5)
    watcher = LagWatcher(cast("Admin", Groups()), send, [table], 1.0)
    for expected in (0, 0, 1, 1):
        watcher.look()
        assert len(sent) == expected


def test_hours_within_a_day_and_bad_ones() -> None:
    lunch = QuietHours.parse("12:00 - 13:00")
    assert lunch.contain(NOON)
    assert not lunch.contain(NIGHT)
    with pytest.raises(ConfigError, match="quiet_hours"):
        QuietHours.parse("at night")


# Settings ----------------------------------------------------------------------------------------


def test_the_defaults_are_those_of_the_mission() -> None:
    settings = parse_settings({})
    assert settings.queue.length == 100_000
    assert settings.mail.rate == 200
    assert parse_duration_ms(settings.database.keep) == 3 * 86_400_000
    assert settings.workers() >= 1


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"mail": {"hots": "x"}}, r"'hots' is not a setting in \[mail\]. Did you mean 'host'"),
        ({"topics": "x"}, "'topics' is not a setting. Did you mean 'topic'"),
        ({"mail": {"port": "x"}}, "mail.port: Expected int, got str"),
        ({"mail": {"rate": 0}}, "mail.rate is 0"),
        ({"mail": {"tls": True, "starttls": True}}, "exclude each other"),
        ({"mail": {"uncertain": "maybe"}}, "must be resend or hold"),
        ({"mail": {"password_env": "MOLDAU_NO_SUCH_VARIABLE"}}, "is not set"),
        ({"digest": {"window": "soon"}}, "'soon' is not a duration"),
        ({"digest": {"bypass": "bad"}}, "severity is 'bad'"),
        ({"queue": {"length": 0}}, "queue.length is 0"),
        ({"recipients": ["nobody"]}, "'nobody' is not a mail address"),
        ({"routes": [{"subject": "x"}]}, "recipients"),
        ({"routes": [{"recipients": [], "sobject": "x"}]}, r"in \[routes\].*'subject'"),
        ({"watch": [{"group": "g"}]}, "needs records or seconds"),
        ({"http": {"listen": "nowhere"}}, "must be HOST:PORT"),
        ({"http": {"listen": "0.0.0.0:8090"}}, "set http.token or"),
        ({"http": {"listen": "alerts.example.org:8090"}}, "set http.token or"),
        ({"http": {"listen": "127.0.0.1:1", "token": ""}}, "http.token is empty"),
        ({"mail": {"timeout": "0s"}}, "mail.timeout: '0s' is too short"),
        ({"mail": {"retry_max": "soon"}}, "mail.retry_max: 'soon' is not a duration"),
        ({"mail": {"sender": "alerts"}}, "mail.sender: 'alerts' is not a mail address"),
        ({"mail": {"username": "me"}}, "mail.username needs"),
        ({"mail": {"username": "me", "password": "x"}}, "mail.username without mail.starttls"),
        ({"allowed_recipients": ["example.org"]}, "allowed_recipients: 'example.org' is neither"),
        ({"allowed_recipients": ["@"]}, "allowed_recipients: '@' is neither"),
        ({"mail": {"port": 70000}}, "mail.port is 70000"),
        ({"mail": {"ca_file": "/no/such/file"}}, "no file /no/such/file"),
        ({"digest": {"templates": "/no/such/folder"}}, "no folder /no/such/folder"),
        ({"database": {"url": "nonsense"}}, "database.url is no address"),
        ({"database": {"url": "sqlite://"}}, "alerts in memory"),
        ({"database": {"url": "mysql://x/y"}}, "must be of sqlite or postgresql"),
        ({"database": {"purge_every": "0s"}}, "database.purge_every: '0s' is too short"),
        ({"watch": [{"group": "g", "records": 0}]}, r"watch\[0\].records is 0"),
        ({"watch": [{"group": "g", "records": 1, "quiet_hours": "x"}]}, "like '22:00-06:00'"),
        ({"watch": [{"group": "g", "records": 1, "clear_below": 2}]}, "clear_below is 2"),
        ({"kafka": {"fetch.min.byte": 1}}, "kafka: .*fetch.min.bytes"),
    ],
)
def test_a_wrong_setting_is_explained(table: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_settings(table)


def test_a_file_is_read_and_named_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "alerts.toml"
    path.write_text('recipients = ["a@b.c"]\n[mail]\nport = 2525\n')
    settings = load_settings(path)
    assert isinstance(settings, Settings)
    assert settings.smtp().port == 2525
    path.write_text('topic = "a"\n\n[mail]\nhost = "x"\nprot = 25\n')
    with pytest.raises(ConfigError, match=r"alerts\.toml:5: 'prot' is not .* mean 'port'"):
        load_settings(path)
    path.write_text('[mail]\nport = 1\n[[routes]]\nrecipients = []\n[[routes]]\nrecipients = ["x"]')
    with pytest.raises(ConfigError, match=r"alerts\.toml:6: routes\[1\]\.recipients: 'x'"):
        load_settings(path)
    path.write_text('[mail]\nport = 1\n[[routes]]\nsubject = "x"\n')
    with pytest.raises(ConfigError, match=r"alerts\.toml:3: routes\[0\]: it needs recipients"):
        load_settings(path)
    path.write_text("mail = [")
    with pytest.raises(ConfigError, match=r"alerts\.toml"):
        load_settings(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_settings(tmp_path / "missing.toml")


def test_a_sender_may_have_a_name() -> None:
    smtp = parse_settings({"mail": {"sender": "Alerts <alerts@example.org>"}}).smtp()
    assert smtp.envelope_sender == "alerts@example.org"
    message = Renderer(smtp.sender).render(mail(), [], 0)
    assert message["From"] == "Alerts <alerts@example.org>"


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("500ms", 500), ("1.5s", 1500), ("10 m", 600_000), ("3d", 259_200_000)],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds
