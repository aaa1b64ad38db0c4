"""Real brokers whose coordination store is damaged or gone: topics, settings and records stay."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.cli import CommandLine
from tests.support.waiting import eventually

from moldau import Consumer, Producer, TopicPartition
from moldau.client.admin import Admin, ConfigChange, ConfigResource, NewTopic, ResourceType
from moldau.errors import ErrorCode, KafkaError
from moldau.testing.broker import BrokerStartError, MoldauProcess

MONTH_MS = 30 * 86_400_000
SETTINGS = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.9"}
EAGER = {"log.retention.check.interval.ms": "100", "log.initial.task.delay.ms": "100"}
TOPICS = ("one", "two", "three")

Damage = Callable[[Path], None]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[MoldauProcess]:
    """With three topics, compacted, and in each a record that retention would take at once."""
    broker = MoldauProcess(tmp_path / "broker", overrides=EAGER)
    broker.start()
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        for name in TOPICS:
            admin.create_topics([NewTopic(name, 2, configs=SETTINGS)])[0].get()
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for name in TOPICS:
            sent = producer.send(name, b"value", key=b"key", partition=0, timestamp=old_ms())
            sent.result(60)
    yield broker
    if broker.alive:
        broker.kill()


@pytest.fixture
def moldau(broker: MoldauProcess, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(broker.bootstrap_servers, capsys)


def journal(data: Path) -> Path:
    return data / "coordination.journal"


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)


def frames(path: Path) -> list[int]:
    content = path.read_bytes()
    found, at = [], content.find(b"MJFR")
    while at >= 0:
        found.append(at)
        at = content.find(b"MJFR", at + 1)
    return found


def flip_in_last_frame(data: Path) -> None:
    flip(journal(data), frames(journal(data))[-1] + 40)


def cut_in_the_middle(data: Path) -> None:
    content = journal(data).read_bytes().rstrip(b"\0")
    journal(data).write_bytes(content[: len(content) // 2])


def remove_the_journal(data: Path) -> None:
    journal(data).unlink()


def remove_everything(data: Path) -> None:
    for path in data.glob("coordination.*"):
        path.unlink()


def append_zeros(data: Path) -> None:
    journal(data).write_bytes(journal(data).read_bytes() + bytes(4096))


def check_all(broker: MoldauProcess) -> None:
    """Everything is as it was, and stays although retention looks again and again."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert {topic.name for topic in admin.list_topics()} >= {*TOPICS}
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in TOPICS]
        for outcome in admin.describe_configs(resources):
            own = {entry.name: entry.value for entry in outcome.get() if entry.name in SETTINGS}
            assert own == SETTINGS
        (again,) = admin.create_topics([NewTopic("three", 1)])
        assert again.error is not None
        assert again.error.code is ErrorCode.TOPIC_ALREADY_EXISTS
    check_records(broker)


def wait_for_retention(broker: MoldauProcess, consumer: Consumer) -> None:
    """Return when retention has looked at all topics: one of them has something for it."""
    canary = TopicPartition(f"canary-{time.monotonic_ns()}", 0)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(canary.topic, 1, configs={"retention.ms": "1"})])[0].get()
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send(canary.topic, b"old", timestamp=old_ms()).result(60)
    eventually(lambda: consumer.beginning_offsets([canary])[canary] == 1)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_topics([canary.topic])[0].get()


def old_ms() -> int:
    return int(time.time() * 1000) - MONTH_MS


def check_records(broker: MoldauProcess) -> None:
    partitions = [TopicPartition(name, 0) for name in TOPICS]
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        assert set(consumer.end_offsets(partitions).values()) == {1}
        wait_for_retention(broker, consumer)
        assert set(consumer.beginning_offsets(partitions).values()) == {0}
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for name in TOPICS:
            assert producer.send(name, b"more", key=b"k", partition=0).result(60).offset == 1


@pytest.mark.parametrize(
    "damage",
    [
        flip_in_last_frame,
        cut_in_the_middle,
        remove_the_journal,
        remove_everything,
        append_zeros,
    ],
)
def test_a_damaged_journal_costs_neither_topics_nor_settings_nor_records(
    broker: MoldauProcess, damage: Damage
) -> None:
    broker.kill()
    damage(broker.data_dir)
    broker.start()
    check_all(broker)


def test_a_damaged_snapshot_costs_nothing(broker: MoldauProcess) -> None:
    broker.terminate()
    flip(broker.data_dir / "coordination.snapshot", 100)
    broker.start()
    check_all(broker)
    assert "put together from the previous snapshot" in broker.logs(100)


def flip_in_the_middle(data: Path) -> None:
    flip(journal(data), frames(journal(data))[-3] + 30)


def empty_the_journal(data: Path) -> None:
    journal(data).write_bytes(b"")


@pytest.mark.parametrize("damage", [flip_in_the_middle, empty_the_journal])
def test_damage_that_cannot_be_passed_over_is_told_with_a_way_out_that_loses_nothing(
    broker: MoldauProcess, moldau: CommandLine, damage: Damage
) -> None:
    data = str(broker.data_dir)
    assert "Stop the broker first" in moldau("coordination", "check", data, code=2).err
    broker.kill()
    damage(broker.data_dir)
    with pytest.raises(BrokerStartError, match="moldau coordination restore"):
        broker.start()
    checked = moldau("coordination", "check", data, "--json", code=1).json
    assert checked["damage"]
    assert any("topic three is not in the store" in one for one in checked["at_start"])
    assert moldau("coordination", "dump", data).out.startswith("/\n")
    assert moldau("coordination", "restore", data, "--json").json["restored"]
    assert list(broker.data_dir.glob("coordination.journal.damaged.1"))
    assert moldau("coordination", "check", data).out.count("at the start: topic") >= 1
    broker.start()
    check_all(broker)
    broker.terminate()
    checked = moldau("coordination", "check", data, "--json").json
    assert (checked["at_start"], checked["damage"], checked["problems"]) == ([], [], [])
    assert "left as it is" in moldau("coordination", "restore", data).err
    moldau("log", "verify", data)


def test_a_topic_without_its_settings_keeps_everything_until_somebody_sets_some(
    broker: MoldauProcess, moldau: CommandLine
) -> None:
    broker.kill()
    remove_everything(broker.data_dir)
    for path in broker.data_dir.glob("*/topic.config"):
        path.unlink()
    broker.start()
    assert "cleanup.policy=delete" in broker.logs(100)
    check_records(broker)
    broker.terminate()
    suspended = moldau("coordination", "check", str(broker.data_dir), "--json").json
    assert set(suspended["deletion_suspended"]) == {*TOPICS}
    broker.start()
    bootstrap = ("--bootstrap-server", broker.bootstrap_servers)
    moldau("config", "alter", "topic", "one", "cleanup.policy=delete", *bootstrap)
    with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        first = TopicPartition("one", 0)
        eventually(lambda: consumer.beginning_offsets([first])[first] > 0)
        other = TopicPartition("two", 0)
        assert consumer.beginning_offsets([other])[other] == 0


def test_by_choice_topics_are_left_alone_and_their_names_reserved(broker: MoldauProcess) -> None:
    broker.kill()
    flip_in_last_frame_of_topic(broker.data_dir, b"three")
    broker.overrides["stray.topics.policy"] = "refuse"
    broker.start()
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert "three" not in {topic.name for topic in admin.list_topics()}
        (refused,) = admin.create_topics([NewTopic("three", 1)])
        assert refused.error is not None
        assert refused.error.code is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert "stray.topics.policy=adopt" in (refused.error.message or "")
        with pytest.raises(KafkaError):
            admin.describe_topics(["three"])[0].get()
    broker.terminate()
    broker.overrides["stray.topics.policy"] = "adopt"
    broker.start()
    check_all(broker)


def test_copied_directories_are_left_alone(broker: MoldauProcess) -> None:
    """A copy has the topic id of its original: as a topic it would get its records."""
    broker.terminate()
    data = broker.data_dir
    for name in ("one-backup-0", "one-20261116", ".Trash-1000", "foo bar-0"):
        shutil.copytree(data / "one-0", data / name)
    before = {path.name: path.stat().st_size for path in data.glob("one-backup-0/*.log")}
    for policy in ("auto", "adopt"):
        broker.overrides["stray.topics.policy"] = policy
        broker.start()
        assert "one-backup-0 of topic id" in broker.logs(200)
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            assert {topic.name for topic in admin.list_topics()} == {*TOPICS}
            (refused,) = admin.create_topics([NewTopic("one-backup", 1)])
            assert refused.error is not None
            assert refused.error.code is ErrorCode.INVALID_TOPIC_EXCEPTION
        broker.terminate()
    broker.start()
    check_records(broker)
    assert before == {path.name: path.stat().st_size for path in data.glob("one-backup-0/*.log")}


def test_without_a_sign_of_loss_topics_are_adopted_only_on_purpose(broker: MoldauProcess) -> None:
    broker.kill()
    zeros_from_topic(broker.data_dir, b"three")
    broker.start()
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert {topic.name for topic in admin.list_topics()} == {"one", "two"}
        (refused,) = admin.create_topics([NewTopic("three", 1)])
        assert refused.error is not None
        assert "stray.topics.policy=adopt" in (refused.error.message or "")
    broker.terminate()
    broker.overrides["stray.topics.policy"] = "adopt"
    broker.start()
    check_all(broker)


def zeros_from_topic(data: Path, name: bytes) -> None:
    """As if the journal ended, whole, before the topic's creation."""
    content = journal(data).read_bytes()
    created = content.find(b"/brokers/topics/" + name)
    start = [frame for frame in frames(journal(data)) if frame < created][-1]
    journal(data).write_bytes(content[:start] + bytes(len(content) - start))


def flip_in_last_frame_of_topic(data: Path, name: bytes) -> None:
    """Cut the journal before the topic's creation."""
    content = journal(data).read_bytes()
    created = content.find(b"/brokers/topics/" + name)
    start = [frame for frame in frames(journal(data)) if frame < created][-1]
    journal(data).write_bytes(content[: start + 20])


def test_settings_changed_last_are_not_lost_with_the_end_of_the_journal(
    broker: MoldauProcess,
) -> None:
    resource = ConfigResource(ResourceType.TOPIC, "one")
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.alter_configs({resource: [ConfigChange("max.message.bytes", "12345")]})[0].get()
    broker.kill()
    flip_in_last_frame(broker.data_dir)
    broker.start()
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        entries = admin.describe_configs([resource])[0].get()
    assert {entry.name: entry.value for entry in entries}["max.message.bytes"] == "12345"


def test_a_deleted_topic_does_not_come_back(broker: MoldauProcess) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_topics(["three"])[0].get()
    broker.kill()
    cut = journal(broker.data_dir).read_bytes()
    marker = cut.find(b"/admin/delete_topics/three")
    start = [frame for frame in frames(journal(broker.data_dir)) if frame < marker][-1]
    journal(broker.data_dir).write_bytes(cut[: start + 30])
    broker.start()
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert {topic.name for topic in admin.list_topics()} == {"one", "two"}


def test_a_directory_without_a_store_is_a_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moldau = CommandLine("", capsys)
    for command in ("check", "restore"):
        error = moldau("coordination", command, str(tmp_path), code=2).err
        assert "no coordination store" in error
