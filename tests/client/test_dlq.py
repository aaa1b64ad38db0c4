"""``moldau dlq``: dead letters are listed, shown and sent back, once."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import Producer as OtherProducer
from tests.client.conftest import NewTopicFactory
from tests.support.cli import CommandLine
from tests.support.target import Target
from tests.support.waiting import eventually

from moldau.client.listener import Listener, Retries
from moldau.client.listener.headers import REDRIVEN_FROM
from moldau.records.consumer_record import ConsumerRecord


@pytest.fixture
def moldau(
    cluster: Target, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> CommandLine:
    monkeypatch.setenv("MOLDAU_BOOTSTRAP", cluster.bootstrap)
    return CommandLine(cluster.bootstrap, capfd)


class Shop:
    """A topic whose listener fails for some records, until it is repaired."""

    def __init__(self, cluster: Target, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.dlq = f"{topic}.dlq"
        self.group = f"shop-{uuid.uuid4().hex[:8]}"
        self.seen: list[ConsumerRecord] = []
        self.broken = {b"1": ValueError("bad price"), b"3": KeyError("sku"), b"4": ValueError("-")}

    def produce(self, count: int) -> None:
        producer = OtherProducer({"bootstrap.servers": self.cluster.bootstrap})
        for number in range(count):
            producer.produce(self.topic, b"%d" % number, b"k", headers=[("trace", b"t")])
        assert producer.flush(60) == 0

    def handle(self, record: ConsumerRecord) -> None:
        if record.value in self.broken:
            raise self.broken[record.value]
        self.seen.append(record)

    def listener(self) -> Listener:
        return Listener(
            self.topic,
            self.handle,
            bootstrap_servers=self.cluster.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            retries=Retries(attempts=1),
        )

    def run_until(self, done: Callable[[Listener], bool]) -> None:
        with self.listener() as listener:
            eventually(lambda: done(listener))


@pytest.fixture
def shop(cluster: Target, new_topic: NewTopicFactory) -> Shop:
    shop = Shop(cluster, new_topic())
    shop.produce(6)
    shop.run_until(
        lambda listener: (
            listener.metrics().get("records-dead-letter-total") == 3 and len(shop.seen) == 3
        )
    )
    return shop


def row_of(moldau: CommandLine, topic: str) -> list[str]:
    (row,) = [row for row in moldau("dlq", "list").rows if row[0] == topic]
    return row


def test_dead_letters_are_listed_and_shown(moldau: CommandLine, shop: Shop) -> None:
    assert row_of(moldau, shop.dlq) == [shop.dlq, "3", "3"]
    rows = moldau("dlq", "show", shop.dlq).rows
    assert [row[1] for row in rows] == ["0", "1", "2"]
    assert rows[0][3:] == [
        f"{shop.topic}-0@1",
        "1",
        shop.group,
        "no",
        "builtins.ValueError: bad price",
    ]
    (letter,) = moldau("dlq", "show", shop.dlq, "--error", "KeyError", "--json").json_lines
    assert (letter["key"], letter["value"]) == ("k", "3")
    assert letter["headers"] == [{"key": "trace", "value": "t"}]
    assert letter["failure"]["source"]["offset"] == 3
    assert "KeyError" in letter["failure"]["traceback"]
    shown = moldau("dlq", "show", shop.dlq, "--record", "0:0", "--traceback").out
    assert "in handle" in shown


def test_filters(moldau: CommandLine, shop: Shop) -> None:
    def offsets(*options: str) -> list[str]:
        return [row[1] for row in moldau("dlq", "show", shop.dlq, *options).rows]

    assert offsets("--source", shop.topic) == ["0", "1", "2"]
    assert offsets("--source", "other") == []
    assert offsets("--group", shop.group, "--limit", "2") == ["0", "1"]
    assert offsets("--group", "other") == []
    assert offsets("--error", "bad price") == ["0"]
    assert offsets("--since", "1h") == ["0", "1", "2"]
    assert offsets("--record", "0:1", "--record", "0:2") == ["1", "2"]
    assert (
        "--record is PARTITION:OFFSET"
        in moldau("dlq", "show", shop.dlq, "--record", "x", code=2).err
    )
    moldau("dlq", "show", "no-such-topic.dlq", code=4)


def test_redriven_records_are_handled_and_not_sent_twice(moldau: CommandLine, shop: Shop) -> None:
    planned = moldau("dlq", "redrive", shop.dlq).rows
    assert [row[1:3] for row in planned] == [
        ["0", shop.topic],
        ["1", shop.topic],
        ["2", shop.topic],
    ]
    assert row_of(moldau, shop.dlq) == [shop.dlq, "3", "3"], "a dry run sends nothing"
    shop.broken.clear()
    sent = moldau("dlq", "redrive", shop.dlq, "--error", "KeyError", "--execute", "--json").json
    assert [letter["value"] for letter in sent] == ["3"]
    assert row_of(moldau, shop.dlq) == [shop.dlq, "3", "2"]
    assert [row[6] for row in moldau("dlq", "show", shop.dlq).rows] == ["no", "yes", "no"]
    rest = moldau("dlq", "redrive", shop.dlq, "--execute").rows
    assert [row[1] for row in rest] == ["0", "2"]
    assert moldau("dlq", "redrive", shop.dlq, "--execute").rows == []
    assert row_of(moldau, shop.dlq) == [shop.dlq, "3", "0"]
    shop.run_until(lambda _: len(shop.seen) == 6)
    again = shop.seen[3:]
    assert [record.value for record in again] == [b"3", b"1", b"4"]
    assert [record.key for record in again] == [b"k"] * 3
    assert again[0].headers == (("trace", b"t"), (REDRIVEN_FROM, f"{shop.dlq}-0@1".encode()))


def test_a_redrive_can_be_done_in_parts(moldau: CommandLine, shop: Shop) -> None:
    shop.broken.clear()
    for offset in ("0", "1", "2"):
        (row,) = moldau("dlq", "redrive", shop.dlq, "--limit", "1", "--execute").rows
        assert row[1] == offset
    assert moldau("dlq", "redrive", shop.dlq, "--limit", "1", "--execute").rows == []


def test_execute_and_dry_run_exclude_each_other(moldau: CommandLine) -> None:
    assert "either" in moldau("dlq", "redrive", "x.dlq", "--execute", "--dry-run", code=2).err
