"""``moldau up --brokers 3``: one command, four processes, and what happens when they die."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from tests.support.process import ServerProcess
from tests.support.waiting import eventually

from moldau.testing.broker import BrokerStartError
from moldau.testing.cluster import MoldauCluster

PATIENCE_S = 120.0
SESSION_MS = 3000


class UpCluster:
    """The command, and its children by what they are."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.bootstrap = ""
        self._process: ServerProcess | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "moldau.cli", "up", "--brokers", "3", "--port", "0"]
        command += ["--data-dir", str(self.directory)]
        command += ["--override", f"zookeeper.session.timeout.ms={SESSION_MS}"]
        self._process = ServerProcess(command, self.directory.with_suffix(".log"))
        ready = self._process.wait_for("moldau ready: 3 brokers")
        self.bootstrap = ready.rpartition(" ")[2]

    @property
    def process(self) -> ServerProcess:
        assert self._process is not None
        return self._process

    def child(self, what: str) -> int | None:
        """Returns the id of the child with this in its command line."""
        listed = subprocess.run(
            ["ps", "-ww", "-o", "pid=", "-o", "args=", "--ppid", str(self.process.pid)],
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        found = re.findall(rf"^ *(\d+) .*{re.escape(what)}(?: |$)", listed, re.MULTILINE)
        return int(found[0]) if found else None

    def kill(self, what: str) -> None:
        """kill -9, and wait until there is another."""
        before = self.child(what)
        assert before is not None
        os.kill(before, signal.SIGKILL)
        eventually(lambda: self.child(what) not in (None, before))


@pytest.fixture
def up(tmp_path: Path) -> Iterator[UpCluster]:
    cluster = UpCluster(tmp_path / "data")
    cluster.start()
    yield cluster
    cluster.process.kill()


class Writer:
    """Writes with acks=all, and keeps what was acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.timeout.ms": int(PATIENCE_S * 1000),
            }
        )
        self.acknowledged: list[int] = []

    def write(self, first: int, count: int) -> None:
        def noted(error: KafkaError | None, message: object) -> None:
            assert error is None, error
            self.acknowledged.append(int(message.value()))  # type: ignore[attr-defined]

        for number in range(first, first + count):
            self._producer.produce(self._topic, b"%d" % number, on_delivery=noted)
        assert self._producer.flush(PATIENCE_S) == 0


def read(bootstrap: str, topic: str, count: int) -> list[int]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    while len(found) < count:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, found
        if message.error() is None:
            value = message.value()
            assert value is not None
            found.append(int(value))
    consumer.close()
    return found


def moldau(*arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "moldau.cli", *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    ).stdout


def test_a_local_cluster_survives_the_death_of_each_part_and_goes_on_after_a_restart(
    up: UpCluster,
) -> None:
    bootstrap = up.bootstrap
    moldau("topic", "create", "orders", "-b", bootstrap)
    writer = Writer(bootstrap, "orders")
    writer.write(0, 100)
    up.kill("coordination serve --log-level warning")
    writer.write(100, 100)
    leader = moldau("topic", "describe", "orders", "-b", bootstrap).split("\t")[2]
    up.kill(f"node.id={leader}")
    writer.write(200, 100)
    assert writer.acknowledged == list(range(300))
    assert read(bootstrap, "orders", 300) == list(range(300))
    children = [up.child(f"node.id={node_id}") for node_id in (1, 2, 3)]
    assert up.process.stop() == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)
    up.start()
    assert read(up.bootstrap, "orders", 300) == list(range(300))


def test_killed_the_command_leaves_nobody_behind_and_can_be_given_again_at_once(
    up: UpCluster,
) -> None:
    moldau("topic", "create", "orders", "-b", up.bootstrap)
    Writer(up.bootstrap, "orders").write(0, 10)
    brokers = [f"node.id={node_id}" for node_id in (1, 2, 3)]
    children = [up.child(what) for what in ("coordination serve", *brokers)]
    command = [sys.executable, "-m", "moldau.cli", "up", "--brokers", "3", "--port", "0"]
    second = subprocess.run(
        [*command, "--data-dir", str(up.directory)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert second.returncode == 1
    assert "another 'moldau up --brokers' runs there" in second.stderr
    up.process.kill()
    up.start()
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)
    assert read(up.bootstrap, "orders", 10) == list(range(10))


def test_a_single_broker_does_not_start_on_the_data_of_a_cluster(up: UpCluster) -> None:
    up.process.stop()
    done = subprocess.run(
        [sys.executable, "-m", "moldau.cli", "up", "--data-dir", str(up.directory), "--port", "0"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 2
    assert "run 'moldau up --brokers 3' there" in done.stderr


def test_a_cluster_for_tests_loses_a_broker_and_its_store(tmp_path: Path) -> None:
    with MoldauCluster(tmp_path, overrides={"zookeeper.session.timeout.ms": SESSION_MS}) as cluster:
        assert len(cluster.bootstrap_servers.split(",")) == 3
        topic = cluster.create_topic("orders")
        writer = Writer(cluster.bootstrap_servers, topic)
        writer.write(0, 100)
        cluster.brokers[1].kill()
        writer.write(100, 100)
        cluster.coordination.kill()
        writer.write(200, 100)
        cluster.start()
        writer.write(300, 100)
        assert read(cluster.bootstrap_servers, topic, 400) == list(range(400))


def test_brokers_stop_cleanly_without_their_store(tmp_path: Path) -> None:
    with MoldauCluster(tmp_path) as cluster:
        cluster.create_topic("orders", 6)
        cluster.coordination.kill()
        eventually(lambda: all("is broken" in one.logs() for one in cluster.brokers.values()))
        for broker in cluster.brokers.values():
            assert broker.terminate() == 0
            # It waits for nobody who could answer only with the store.
            assert "the coordination store is out of reach" in broker.logs()
            assert list(broker.directory.rglob(".kafka_cleanshutdown"))


def test_brokers_do_not_start_on_a_store_that_was_lost(tmp_path: Path) -> None:
    with MoldauCluster(tmp_path) as cluster:
        topic = cluster.create_topic("orders")
        Writer(cluster.bootstrap_servers, topic).write(0, 10)
        cluster.stop()
        store, kept = cluster.coordination.data_dir, tmp_path / "kept"
        store.rename(kept)
        with pytest.raises(BrokerStartError, match="the coordination store is empty, but"):
            cluster.start()
        cluster.stop()
        for path in store.iterdir():
            path.unlink()
        store.rmdir()
        kept.rename(store)
        cluster.start()
        assert read(cluster.bootstrap_servers, topic, 10) == list(range(10))
