"""A real Apache Kafka: a KRaft node, broker and controller in one process, or three of them.

It is the second opinion of the tests (``pytest --target=kafka``) and the benchmark's other side.
"""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.support import java
from tests.support.process import NO_RETENTION, ServerProcess, free_ports

CLUSTER_ID = "bW9sZGF1LXRlc3RzLTAwMQ"
READY = "Kafka Server started"
NODE_ID = 1

# Small enough for a test machine; the benchmark passes the flags of Kafka's own start script.
TEST_FLAGS = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

_CHECKPOINT = "bootstrap.checkpoint"
_checkpoints: dict[tuple[str, ...], bytes] = {}
"""What formatting with some options writes into every node's directory."""


class ApacheKafka:
    """One Kafka node. The directory is formatted on the first start and kept for the next ones."""

    name = "Apache Kafka"

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        flags: Sequence[str] = TEST_FLAGS,
        *,
        node_id: int = NODE_ID,
        voters: Mapping[int, int] | None = None,
        format_options: Sequence[str] = (),
        listeners: Mapping[str, str] | None = None,
    ) -> None:
        """``voters``: the controller ports of all nodes of a larger cluster, by node id.

        ``format_options`` go to ``kafka-storage.sh format``. ``listeners`` are more of them, by
        name, with their security protocol; ``address`` says where.
        """
        self._listeners = dict(listeners or {})
        self._format_options = tuple(format_options)
        self.node_id = node_id
        self.port, controller, *others = free_ports(2 + len(self._listeners))
        self._listener_ports = dict(zip(self._listeners, others, strict=True))
        self._voters = dict(voters or {node_id: controller})
        self.directory = directory
        self.data_dir = directory / "kafka-data"
        self.settings = dict(settings or {})
        self.flags = tuple(flags)
        self.output = directory / "kafka.log"
        self._process: ServerProcess | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self._listener_ports[listener]}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    @property
    def properties_file(self) -> Path:
        return self.directory / "kafka.properties"

    def start(self) -> None:
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start without waiting: nodes of a larger cluster need each other to get ready."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._write_properties()
        if not (self.data_dir / "meta.properties").exists():
            self._format()
        command = java.java_command("kafka.Kafka", flags=self.flags, log_level="info")
        self._process = ServerProcess([*command, str(self.properties_file)], self.output)

    def _format(self) -> None:
        """Kafka's tool does it once; it takes longer than to do the same for the other nodes."""
        options = self._format_options
        if options not in _checkpoints:
            config = ("-t", CLUSTER_ID, "-c", str(self.properties_file))
            java.run_tool(java.STORAGE, "format", *config, *options)
            _checkpoints[options] = (self.data_dir / _CHECKPOINT).read_bytes()
            return
        self.data_dir.mkdir(exist_ok=True)
        (self.data_dir / _CHECKPOINT).write_bytes(_checkpoints[options])
        directory_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        properties = {
            "version": "1",
            "cluster.id": CLUSTER_ID,
            "node.id": str(self.node_id),
            "directory.id": directory_id,
        }
        lines = [f"{name}={value}\n" for name, value in properties.items()]
        (self.data_dir / "meta.properties").write_text("".join(lines))

    def wait_until_ready(self) -> None:
        assert self._process is not None
        self._process.wait_for(READY)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            self.kill()

    def _write_properties(self) -> None:
        voters = self._voters
        controller = f"127.0.0.1:{voters[self.node_id]}"
        quorum = ",".join(f"{node}@127.0.0.1:{port}" for node, port in voters.items())
        more = "".join(f",{name}://{self.address(name)}" for name in self._listeners)
        protocols = {"CONTROLLER": "PLAINTEXT", "PLAINTEXT": "PLAINTEXT", **self._listeners}
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(self.node_id),
            "controller.quorum.voters": quorum,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}{more}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}{more}",
            "log.dirs": str(self.data_dir),
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **NO_RETENTION,
            **self.settings,
        }
        if self._listeners:
            settings["listener.security.protocol.map"] = ",".join(map(":".join, protocols.items()))
        lines = [f"{name}={value}\n" for name, value in settings.items()]
        self.properties_file.write_text("".join(lines))


class ApacheKafkaCluster:
    """Three Kafka nodes, each broker and controller, each in a rack; topics have three replicas."""

    name = "Apache Kafka"

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        flags: Sequence[str] = TEST_FLAGS,
    ) -> None:
        voters = dict(zip((1, 2, 3), free_ports(3), strict=True))
        replicated = {
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "2",
            # Tests kill brokers and wait for other leaders.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            **(settings or {}),
        }
        self.nodes = {
            node: ApacheKafka(
                directory / f"node-{node}",
                {**replicated, "broker.rack": f"rack-{node}"},
                flags,
                node_id=node,
                voters=voters,
            )
            for node in voters
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    def start(self) -> None:
        for node in self.nodes.values():
            node.launch()
        for node in self.nodes.values():
            node.wait_until_ready()

    def kill(self) -> None:
        for node in self.nodes.values():
            node.kill()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
