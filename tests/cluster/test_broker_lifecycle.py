"""Starting and stopping: what survives, what is said when it cannot start, how it ends."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.in_process import InProcessBroker, eventually
from tests.support.process import free_port
from tests.support.wire import ConnectionClosedError, WireClient, flatten, one_batch, values_of

from moldau.errors import ErrorCode
from moldau.testing.broker import MoldauProcess
from moldau.wire.api import ApiKey

LONG_MS = 600_000
UNUSED = "127.0.0.1:0"


def run_broker(*overrides: str, config: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Start a broker that is expected to give up at once."""
    command = [sys.executable, "-m", "moldau.cli", "broker"]
    if config is not None:
        command += ["--config", str(config)]
    for override in overrides:
        command += ["--override", override]
    return subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)


def complaint(result: subprocess.CompletedProcess[str]) -> str:
    """The sentence with which it gave up: one line, no traceback, no ready line."""
    assert result.returncode not in (0, None)
    assert result.returncode > 0, "ended by a signal"
    assert "moldau ready" not in result.stdout
    assert "Traceback" not in result.stderr
    return result.stderr.strip().splitlines()[-1]


# Ending ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_cleanly_and_answers_long_polls(
    tmp_path: Path, number: signal.Signals
) -> None:
    with MoldauProcess(tmp_path) as broker:
        client = await WireClient.connect(broker.bootstrap_servers)
        await client.create_topic("t")
        await client.produce("t", one_batch(b"v"))
        parked = client.send_fetch({"t": {0: 1}}, max_wait_ms=LONG_MS)
        client.send(ApiKey.DESCRIBE_CLUSTER, endpoint_type=1)  # its turn does not come any more
        other = await WireClient.connect(broker.bootstrap_servers)
        assert (await other.call(ApiKey.API_VERSIONS, 0)).error_code == 0
        process = broker._running()
        process.send_signal(number)
        answer = await client.receive_fetch(parked)
        assert [(p.error_code, values_of(p)) for _, p in flatten(answer)] == [(0, [])]
        assert await client.wait_closed_by_peer() == b""
        assert await asyncio.to_thread(process.wait, 120) == 0
        assert (broker.data_dir / ".kafka_cleanshutdown").exists()
        assert "Traceback" not in broker.log_file.read_text()
        await client.close()
        await other.close()


async def test_what_was_acknowledged_before_the_end_is_there_after_the_restart(
    tmp_path: Path,
) -> None:
    with MoldauProcess(tmp_path, port=free_port()) as broker:
        client = await WireClient.connect(broker.bootstrap_servers)
        await client.create_topic("t")
        acknowledged = 0
        ended = None
        try:
            for number in range(100_000):
                result = await client.produce("t", one_batch(b"%d" % number))
                assert result.base_offset == number
                acknowledged += 1
                if number == 200:
                    ended = asyncio.ensure_future(asyncio.to_thread(broker.terminate))
        except (ConnectionClosedError, ConnectionError):
            pass
        assert ended is not None
        assert await ended == 0
        await client.close()
        broker.start()
        async with await WireClient.connect(broker.bootstrap_servers) as client:
            fetched = await client.fetch("t", partition_max_bytes=1 << 26, max_bytes=1 << 26)
            found = values_of(fetched)
        assert found[:acknowledged] == [b"%d" % n for n in range(acknowledged)]
        assert len(found) <= acknowledged + 1


async def test_stopping_while_clients_keep_coming_does_not_hang(broker: InProcessBroker) -> None:
    await (await broker.connect()).create_topic("t")

    async def keep_coming() -> None:
        while True:
            try:
                async with await WireClient.connect(broker.address) as client:
                    await client.produce("t", one_batch(b"v"))
                    client.send_fetch({"t": {0: 1 << 30}}, max_wait_ms=LONG_MS)
            except (ConnectionError, ConnectionClosedError):
                return

    coming = [asyncio.ensure_future(keep_coming()) for _ in range(5)]
    await eventually(lambda: broker.partition("t").log.log_end_offset > 20)
    async with asyncio.timeout(60):
        await broker.server.stop()
        await asyncio.gather(*coming)
    await broker.start()  # the fixture stops it once more


# Restarting --------------------------------------------------------------------------------------


async def cluster_state(client: WireClient) -> dict[str, Any]:
    metadata = await client.call(ApiKey.METADATA, topics=None)
    state: dict[str, Any] = {"cluster": metadata.cluster_id}
    for topic in metadata.topics:
        configs = await client.call(
            ApiKey.DESCRIBE_CONFIGS,
            resources=[
                {"resource_type": 2, "resource_name": topic.name, "configuration_keys": None}
            ],
        )
        ((result,),) = [configs.results]
        state[topic.name] = (
            topic.topic_id,
            len(topic.partitions),
            {c.name: c.value for c in result.configs if c.config_source == 1},
            [
                values_of(await client.fetch(topic.name, partition=p.partition_index))
                for p in topic.partitions
            ],
        )
    return state


@pytest.mark.parametrize("how", ["terminate", "kill"])
async def test_topics_settings_ids_and_data_survive(tmp_path: Path, how: str) -> None:
    with MoldauProcess(tmp_path, port=free_port()) as broker:
        async with await WireClient.connect(broker.bootstrap_servers) as client:
            await client.create_topic("plain", 3)
            await client.create_topic("tuned", configs={"retention.ms": "123456789"})
            await client.create_topic("gone")
            for n in range(10):
                await client.produce("plain", one_batch(b"%d" % n), partition=n % 3)
            await client.call(ApiKey.DELETE_TOPICS, topics=[{"name": "gone"}], timeout=60_000)
            before = await cluster_state(client)
        assert await asyncio.to_thread(getattr(broker, how)) == (0 if how == "terminate" else -9)
        await asyncio.to_thread(broker.start)
        async with await WireClient.connect(broker.bootstrap_servers) as client:
            assert await cluster_state(client) == before
            assert (await client.produce("plain", one_batch(b"10"), partition=1)).base_offset == 3
            gone = await client.fetch("gone")
            assert gone.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if how == "terminate":
            await eventually(lambda: not list(broker.data_dir.glob("gone-0.*")), "removal")


async def test_files_left_of_deleted_topics_are_removed_at_the_next_start(
    broker: InProcessBroker,
) -> None:
    client = await broker.connect()
    await client.create_topic("t")
    await client.call(ApiKey.DELETE_TOPICS, topics=[{"name": "t"}], timeout=60_000)
    assert list(broker.data_dir.glob("t-0.*-delete"))
    await broker.restart()
    await eventually(lambda: not list(broker.data_dir.glob("t-*")), "removal of the leftovers")


# Not starting ------------------------------------------------------------------------------------


async def test_a_second_broker_on_the_same_directory_is_refused(
    broker: InProcessBroker,
) -> None:
    client = await broker.connect()
    await client.create_topic("t")
    await client.produce("t", one_batch(b"v"))

    def files() -> dict[str, tuple[int, bytes]]:
        return {
            str(path): (path.stat().st_ino, path.read_bytes())
            for path in broker.data_dir.rglob("*")
            if path.is_file()
        }

    before = files()
    result = await asyncio.to_thread(
        run_broker, f"listeners=PLAINTEXT://{UNUSED}", f"log.dirs={broker.data_dir}", "node.id=1"
    )
    said = complaint(result)
    assert str(broker.data_dir) in said
    assert "another broker" in said
    assert files() == before, "it left its hands off"
    assert (await client.produce("t", one_batch(b"w"))).base_offset == 1


async def test_a_second_broker_on_one_of_several_directories_is_refused(
    broker: InProcessBroker, tmp_path: Path
) -> None:
    result = await asyncio.to_thread(
        run_broker,
        f"listeners=PLAINTEXT://{UNUSED}",
        f"log.dirs={tmp_path / 'mine'},{broker.data_dir}",
        "node.id=1",
    )
    said = complaint(result)
    assert str(broker.data_dir) in said
    assert "another broker" in said


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = complaint(
            run_broker(f"listeners=PLAINTEXT://127.0.0.1:{port}", f"log.dirs={tmp_path}")
        )
    assert str(port) in said
    assert "use" in said


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("log.segment.bytes=lots", ["log.segment.bytes", "lots"]),
        ("num.partitions=0", ["num.partitions", "0"]),
        ("listeners=PLAINTEXT", ["listeners", "PLAINTEXT"]),
        ("log.cleanup.policy=shred", ["log.cleanup.policy", "shred", "compact"]),
        ("compression.type=rar", ["compression.type", "rar", "zstd"]),
        ("node.id=-5", ["node.id", "-5"]),
    ],
)
def test_a_bad_setting_is_named_with_its_value(
    tmp_path: Path, override: str, named: list[str]
) -> None:
    settings = [f"log.dirs={tmp_path / 'data'}", f"listeners=PLAINTEXT://{UNUSED}", override]
    said = complaint(run_broker(*settings))
    assert all(part in said for part in named), said
    assert not (tmp_path / "data").exists(), "nothing was made before the settings were read"


def test_a_bad_line_in_the_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs={tmp_path / 'data'}\nlog.retention.ms=soon\n")
    said = complaint(run_broker(config=file))
    assert "log.retention.ms" in said
    assert "soon" in said
    missing = complaint(run_broker(config=tmp_path / "missing.properties"))
    assert "missing.properties" in missing


def test_an_unknown_setting_is_only_warned_of(tmp_path: Path) -> None:
    with MoldauProcess(tmp_path, overrides={"log.retension.hours": "5"}) as broker:
        assert "log.retension.hours" in broker.log_file.read_text()


def test_the_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    with MoldauProcess(tmp_path):
        pass
    said = complaint(
        run_broker(f"listeners=PLAINTEXT://{UNUSED}", f"log.dirs={tmp_path / 'data'}", "node.id=2")
    )
    assert "2" in said
    assert "1" in said
    assert "node" in said


def test_a_directory_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    said = complaint(run_broker(f"listeners=PLAINTEXT://{UNUSED}", f"log.dirs={tmp_path / 'file'}"))
    assert str(tmp_path / "file") in said


# Several listeners -------------------------------------------------------------------------------


def test_the_ready_line_names_every_listener(tmp_path: Path) -> None:
    settings = {
        "listeners": "IN://127.0.0.1:0,OUT://127.0.0.1:0",
        "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT",
        "inter.broker.listener.name": "IN",
        "node.id": "7",
    }
    with MoldauProcess(tmp_path, overrides=settings) as broker:
        where = broker.ready_line.removeprefix("moldau ready: node 7 listening on ").split(",")
        assert len(set(where)) == 2
        for address in where:
            host, port = address.rsplit(":", 1)
            socket.create_connection((host, int(port)), 60).close()
