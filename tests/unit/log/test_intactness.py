"""What a broker may say about its records when it comes back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.machines import loop_machine

from moldau.log.directory.intactness import (
    UNKNOWN,
    forget_intact_since,
    keep_intact_since,
    read_intact_since,
)
from moldau.log.files.names import BROKER_LIFE
from moldau.machine import Machine
from moldau.machine.real.boot import boot_id
from moldau.testing.clock import ManualClock
from moldau.testing.disk import MemoryDisk

DIRS = ("/a", "/b")


@pytest.fixture
def machine() -> Machine:
    disk = MemoryDisk()
    for path in DIRS:
        disk.makedirs(path)
    return replace(loop_machine(disk, ManualClock()), boot_id="first")


def test_nothing_is_known_of_new_directories(machine: Machine) -> None:
    assert read_intact_since(machine, DIRS, DIRS) == UNKNOWN


def test_a_killed_process_has_lost_nothing(machine: Machine) -> None:
    keep_intact_since(machine, DIRS, 7)
    assert read_intact_since(machine, DIRS, ()) == 7


def test_a_machine_that_started_anew_may_have_lost_what_was_not_closed(machine: Machine) -> None:
    keep_intact_since(machine, DIRS, 7)
    again = replace(machine, boot_id="second")
    assert read_intact_since(again, DIRS, ()) == UNKNOWN
    assert read_intact_since(again, DIRS, ("/a",)) == UNKNOWN
    assert read_intact_since(again, DIRS, DIRS) == 7


def test_a_directory_that_is_new_or_cannot_be_read_counts(machine: Machine) -> None:
    keep_intact_since(machine, DIRS, 7)
    assert read_intact_since(machine, (*DIRS, "/c"), ()) == UNKNOWN
    machine.disk.write_atomic(f"/b/{BROKER_LIFE}", b"\xff{")
    assert read_intact_since(machine, DIRS, ()) == UNKNOWN
    assert read_intact_since(machine, (), ()) == UNKNOWN


def test_the_latest_loss_of_any_directory_counts(machine: Machine) -> None:
    keep_intact_since(machine, ("/a",), 7)
    keep_intact_since(machine, ("/b",), 9)
    assert read_intact_since(machine, DIRS, ()) == 9


def test_a_directory_that_failed_may_have_lost_something_though_it_is_back(
    machine: Machine,
) -> None:
    keep_intact_since(machine, DIRS, 7)
    forget_intact_since(machine, (*DIRS, "/gone"))
    assert read_intact_since(machine, DIRS, DIRS) == UNKNOWN


def test_a_machine_that_does_not_tell_its_starts_is_never_trusted(machine: Machine) -> None:
    silent = replace(machine, boot_id=None)
    keep_intact_since(silent, DIRS, 7)
    assert read_intact_since(silent, DIRS, ()) == UNKNOWN
    assert read_intact_since(silent, DIRS, DIRS) == 7


def test_the_kernel_keeps_its_id() -> None:
    assert boot_id() == boot_id()
