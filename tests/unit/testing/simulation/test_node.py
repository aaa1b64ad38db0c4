"""Nodes: lives that begin and end, and a disk that outlives them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from moldau.log.cleaner.process import WORKER
from moldau.machine import Machine
from moldau.testing.simulation.errors import ProcessEnded
from moldau.testing.simulation.node import Node
from moldau.testing.simulation.process import PROCESS
from moldau.testing.simulation.simulation import Simulation


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(1) as simulation:
        yield simulation


@pytest.fixture
def node(simulation: Simulation) -> Node:
    return simulation.node("node")


def write(machine: Machine, path: str, data: bytes, *, sync: bool) -> None:
    file = machine.disk.open(path, create=True)
    file.append(data)
    if sync:
        file.sync()
        machine.disk.sync_dir("/")


def test_a_node_runs_one_process_at_a_time(simulation: Simulation, node: Node) -> None:
    states = [node.is_running]
    node.boot()
    states.append(node.is_running)
    with pytest.raises(RuntimeError, match="node is running"):
        node.boot()
    node.exit()
    states.append(node.is_running)
    node.boot()
    assert states == [False, True, False]
    assert node.process is not None
    assert node.process.name == "node#2"
    assert simulation.node("node") is node


def test_work_runs_in_the_process_and_its_result_comes_out(
    simulation: Simulation, node: Node
) -> None:
    async def work() -> str:
        await asyncio.sleep(1)
        process = PROCESS.get()
        assert process is not None
        return process.name

    async def fail() -> None:
        raise ValueError("wrong")

    async def cancel() -> None:
        raise asyncio.CancelledError

    async def story() -> None:
        node.boot()
        assert await node.run(work()) == "node#1"
        assert PROCESS.get() is None
        with pytest.raises(ValueError, match="wrong"):
            await node.run(fail())
        with pytest.raises(asyncio.CancelledError):
            await node.run(cancel())

    simulation.run(story())


@pytest.mark.parametrize("how", ["exit", "kill", "power_cut"])
def test_who_waits_for_a_process_that_ends_is_told(
    simulation: Simulation, node: Node, how: str
) -> None:
    async def story() -> None:
        node.boot()
        simulation.loop.call_later(1, getattr(node, how))
        with pytest.raises(ProcessEnded):
            await node.run(asyncio.sleep(10))
        assert simulation.time == 1.0

    simulation.run(story())


def test_nothing_runs_on_a_node_that_is_not_running(simulation: Simulation, node: Node) -> None:
    async def story() -> None:
        for _ in range(2):
            with pytest.raises(ProcessEnded):
                await node.run(asyncio.sleep(1))
            with pytest.raises(ProcessEnded):
                node.spawn(asyncio.sleep(1))
            node.boot()
            node.kill()

    simulation.run(story())


def test_who_stops_waiting_lets_the_process_go_on(simulation: Simulation, node: Node) -> None:
    done: list[float] = []

    async def work() -> None:
        await asyncio.sleep(5)
        done.append(simulation.time)

    async def story() -> None:
        node.boot()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(node.run(work()), 1)
        await asyncio.sleep(10)
        assert done == [5.0]

    simulation.run(story())


# What is left on the disk ------------------------------------------------------------------------


def test_a_kill_leaves_what_was_written(simulation: Simulation, node: Node) -> None:
    write(node.boot(), "/a", b"not synced", sync=False)
    node.kill()
    assert node.boot().disk.read("/a") == b"not synced"


def test_a_power_cut_leaves_what_was_synced(simulation: Simulation) -> None:
    survived = set()
    for seed in range(30):
        with Simulation(seed) as other:
            node = other.node("node")
            machine = node.boot()
            write(machine, "/synced", b"synced", sync=True)
            write(machine, "/a", b"not synced", sync=False)
            node.power_cut()
            disk = node.boot().disk
            assert disk.read("/synced") == b"synced"
            survived.add(disk.exists("/a") and disk.read("/a") == b"not synced")
    assert survived == {True, False}


@pytest.mark.parametrize("how", ["exit", "kill", "power_cut"])
def test_what_an_old_life_holds_of_the_disk_refuses(
    simulation: Simulation, node: Node, how: str
) -> None:
    machine = node.boot()
    file = machine.disk.open("/a", create=True)
    file.append(b"before")
    machine.disk.sync_dir("/")
    file.sync()
    mapping = machine.disk.map("/mapped", 10)
    lock = machine.disk.lock("/lock")
    assert lock is not None
    getattr(node, how)()
    disk = node.boot().disk
    new_lock = disk.lock("/lock")
    assert new_lock is not None
    lock.release()
    assert disk.lock("/lock") is None
    with pytest.raises(OSError, match=r"ended|off"):
        file.append(b"after")
    with pytest.raises(OSError, match=r"ended|off"):
        file.sync()
    mapping.buffer[:5] = b"after"
    if disk.exists("/mapped"):
        assert b"after" not in disk.read("/mapped")
    assert disk.read("/a") == b"before"


def test_a_killed_process_does_nothing_more(simulation: Simulation, node: Node) -> None:
    async def work(machine: Machine) -> None:
        disk = machine.disk
        try:
            disk.write("/a", b"1")
            disk.write("/b", b"2")
        finally:
            for attempt in (
                lambda: disk.write("/c", b"3"),
                lambda: disk.lock("/lock"),
                lambda: disk.remove("/a"),
                lambda: machine.network.bind("", 1),
            ):
                with pytest.raises(ProcessEnded):
                    attempt()

    async def story() -> None:
        machine = node.boot()
        node.crash_after(1, power=False)
        with pytest.raises(ProcessEnded):
            await node.run(work(machine))
        assert node.boot().disk.listdir("/") == ["a"]

    simulation.run(story())


@pytest.mark.parametrize("power", [False, True])
def test_a_process_can_be_stopped_between_any_two_operations(power: bool) -> None:
    async def work(machine: Machine) -> None:
        for number in range(5):
            machine.disk.write(f"/{number}", b"")
            machine.disk.sync_dir("/")

    left = []
    for operations in range(11):
        with Simulation(1) as simulation:
            node = simulation.node("node")
            crashes: list[bool] = []
            node.on_crash = crashes.append

            async def story(
                node: Node = node, operations: int = operations, crashes: list[bool] = crashes
            ) -> None:
                machine = node.boot()
                node.crash_after(operations, power=power)
                if operations == 10:
                    await node.run(work(machine))
                    assert crashes == []
                else:
                    with pytest.raises(ProcessEnded):
                        await node.run(work(machine))
                    assert crashes == [power]
                node.exit()
                left.append(len(node.boot().disk.listdir("/")))

            simulation.run(story())
    assert left[0] == 0
    assert left[-1] == 5
    if power:
        # The name that no sync has covered may be there or not.
        assert all(operations // 2 <= count <= (operations + 1) // 2
                   for operations, count in enumerate(left))  # fmt: skip
    else:
        assert left == [(operations + 1) // 2 for operations in range(11)]


def test_only_operations_of_the_process_count(simulation: Simulation, node: Node) -> None:
    node.boot()
    node.crash_after(0, power=False)
    node.disk.write("/by the world", b"")
    assert node.is_running


# Crashes -----------------------------------------------------------------------------------------


def test_crashes_are_told_with_their_kind(simulation: Simulation, node: Node) -> None:
    crashes: list[bool] = []
    node.on_crash = crashes.append
    node.kill()
    assert crashes == []
    node.boot()
    node.exit()
    assert crashes == []
    node.boot()
    node.kill()
    assert crashes == [False]
    node.power_cut()  # nothing runs, but what was not synced may go
    assert crashes == [False, True]


def test_a_crash_that_was_planned_dies_with_its_process(simulation: Simulation, node: Node) -> None:
    node.boot()
    node.crash_after(0, power=False)
    node.kill()

    async def work(machine: Machine) -> None:
        machine.disk.write("/a", b"")

    async def story() -> None:
        await node.run(work(node.boot()))

    simulation.run(story())


# Signals and pauses ------------------------------------------------------------------------------


def test_a_process_is_asked_to_stop(simulation: Simulation, node: Node) -> None:
    async def program(machine: Machine) -> str:
        asked = asyncio.Event()
        machine.signals.on_stop(asked.set)
        await asked.wait()
        return "goodbye"

    async def story() -> None:
        node.terminate()  # nothing runs, nothing happens
        machine = node.boot()
        simulation.loop.call_later(1, node.terminate)
        assert await node.run(program(machine)) == "goodbye"
        assert node.is_running
        node.exit()
        node.boot()
        node.terminate()
        assert not node.is_running

    simulation.run(story())


def test_a_paused_process_rests_for_as_long_as_told(simulation: Simulation, node: Node) -> None:
    ticks: list[float] = []

    async def program() -> None:
        while True:
            ticks.append(simulation.time)
            await asyncio.sleep(1)

    async def story() -> None:
        node.boot()
        node.spawn(program())
        await asyncio.sleep(2.5)
        node.pause(10)
        await asyncio.sleep(11.5)
        assert ticks == [0.0, 1.0, 2.0, 12.5, 13.5]

    simulation.run(story())


def test_of_two_pauses_the_one_counts_that_is_over_last(simulation: Simulation, node: Node) -> None:
    async def story() -> None:
        node.boot()
        node.pause(10)
        await asyncio.sleep(1)
        node.pause(2)
        start = simulation.time
        await node.run(asyncio.sleep(0))
        assert simulation.time - start == 9
        node.pause(100)
        assert node.process is not None
        node.process.resume()
        node.pause(5)
        start = simulation.time
        await node.run(asyncio.sleep(0))
        assert simulation.time - start == 5

    simulation.run(story())


def test_a_pause_does_not_outlive_its_process(simulation: Simulation, node: Node) -> None:
    async def story() -> None:
        node.pause(1)  # nothing runs
        node.boot()
        node.pause(10)
        node.kill()
        node.boot()
        await node.run(asyncio.sleep(1))
        assert simulation.time == 1

    simulation.run(story())


# Everything from one seed ------------------------------------------------------------------------


def test_machines_differ_from_life_to_life_and_not_from_run_to_run() -> None:
    def draw() -> list[object]:
        with Simulation(7) as simulation:
            drawn: list[object] = []
            for name in ("a", "b"):
                for _ in range(2):
                    node = simulation.node(name)
                    machine = node.boot()
                    drawn += [machine.new_uuid(), machine.random.random()]
                    node.exit()
            return drawn

    first = draw()
    assert len(set(first)) == len(first)
    assert draw() == first


def test_cleaners_are_child_processes_and_nothing_else_is(
    simulation: Simulation, node: Node
) -> None:
    async def story() -> None:
        machine = node.boot()
        with pytest.raises(OSError, match=r"no program moldau\.x"):
            await machine.processes.start("moldau.x")
        cleaner = await machine.processes.start(WORKER)
        assert node.children.running == [cleaner]
        cleaner.kill()
        assert node.children.running == []
        with pytest.raises(EOFError):
            await cleaner.receive()

    simulation.run(story())


def test_child_processes_end_with_the_life_that_started_them(
    simulation: Simulation, node: Node
) -> None:
    async def story() -> None:
        machine = node.boot()
        await machine.processes.start(WORKER)
        node.kill()
        node.boot()
        assert node.children.running == []

    simulation.run(story())


def test_open_files_have_no_limit_to_speak_of(node: Node) -> None:
    assert node.boot().limits.raise_open_files() > 100_000
