"""Which store a broker opens."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.support.process import free_port

from moldau.broker.ports import coordination_of, open_embedded
from moldau.config.values.broker import BrokerConfig
from moldau.coordination.errors import EnsembleError
from moldau.machine.real.machine import real_machine


def test_without_an_ensemble_the_store_is_in_the_process() -> None:
    assert coordination_of(BrokerConfig.load()) is open_embedded


async def test_an_ensemble_that_does_not_answer_is_told_in_plain_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    address = f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}/kafka"
    config = BrokerConfig.load(
        {"zookeeper.connect": address, "zookeeper.connection.timeout.ms": "2500"}
    )
    machine = real_machine()
    with pytest.raises(EnsembleError) as caught:
        await coordination_of(config)(machine, "unused")
    assert str(caught.value) == f"no ZooKeeper answers at {address} within 2500 ms"
    assert caplog.messages == [f"No ZooKeeper answers at {address} yet; trying on"]
    machine.threads.close()


def test_a_broker_of_its_own_does_not_import_kazoo(tmp_path: Path) -> None:
    program = """
        import asyncio, sys
        from moldau.broker import app
        from moldau.broker.ports import Ports, coordination_of
        from moldau.config.values.broker import BrokerConfig
        from moldau.machine.real.machine import real_machine

        async def main():
            settings = {"log.dirs": sys.argv[1], "listeners": "PLAINTEXT://127.0.0.1:0"}
            config = BrokerConfig.load(settings)
            server = app.BrokerServer(config, Ports(real_machine(), coordination_of(config)))
            await server.start()
            await server.stop()

        asyncio.run(main())
        assert "kazoo" not in sys.modules
        assert "moldau.coordination.server" not in sys.modules
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)], check=True, timeout=120
    )
