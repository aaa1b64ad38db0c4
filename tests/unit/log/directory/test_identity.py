"""Directories that belong to one cluster and node."""

from __future__ import annotations

import pytest
from tests.support.machines import loop_machine

from moldau.errors import ErrorCode, KafkaError
from moldau.log.directory.identity import (
    check_store,
    claim_directories,
    refuse_to_leave_a_cluster,
)
from moldau.log.directory.intactness import keep_intact_since
from moldau.log.files.meta_properties import MetaProperties, read_meta_properties
from moldau.machine import Machine
from moldau.testing.clock import ManualClock
from moldau.testing.disk import MemoryDisk


@pytest.fixture
def machine(disk: MemoryDisk) -> Machine:
    return loop_machine(disk, ManualClock())


def test_directories_are_claimed_once_and_kept(machine: Machine) -> None:
    first = claim_directories(machine, ["/data"], "cluster", 1)
    assert claim_directories(machine, ["/data"], "cluster", 1) == first
    properties = read_meta_properties(machine.disk, "/data")
    assert properties == MetaProperties("cluster", 1, first["/data"])


def test_a_directory_of_another_cluster_or_node_is_refused(machine: Machine) -> None:
    claim_directories(machine, ["/data"], "cluster", 1)
    with pytest.raises(KafkaError) as other_cluster:
        claim_directories(machine, ["/data"], "other", 1)
    assert other_cluster.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID
    with pytest.raises(KafkaError, match="belongs to node 1"):
        claim_directories(machine, ["/data"], "cluster", 2)


def test_the_directory_of_a_member_of_a_cluster_is_known(machine: Machine) -> None:
    claim_directories(machine, ["/data"], "cluster", 1)
    refuse_to_leave_a_cluster(machine.disk, ["/data"])
    keep_intact_since(machine, ["/data"], 5)
    with pytest.raises(KafkaError, match="/data belongs to a broker of a cluster"):
        refuse_to_leave_a_cluster(machine.disk, ["/other", "/data"])


@pytest.mark.parametrize("name", ["orders-0/00000000000000000000.log", "broker-life.json"])
def test_an_empty_store_is_not_that_of_a_directory_with_replicas(
    machine: Machine, name: str
) -> None:
    def check(*, is_new: bool) -> None:
        check_store(machine.disk, ["/none", "/new"], is_shared=True, is_new=is_new)

    machine.disk.makedirs("/new")
    claim_directories(machine, ["/new"], "abc", 1)
    check(is_new=True)
    machine.disk.makedirs("/new/orders-0")
    machine.disk.write(f"/new/{name}", b"")
    check(is_new=False)
    with pytest.raises(KafkaError, match="/new belongs to a broker of cluster abc: the store was"):
        check(is_new=True)


def test_an_old_directory_is_brought_up_to_date(machine: Machine) -> None:
    machine.disk.write("/data/meta.properties", b"version=0\nbroker.id=1\n")
    ids = claim_directories(machine, ["/data"], "cluster", 1)
    assert read_meta_properties(machine.disk, "/data") == MetaProperties("cluster", 1, ids["/data"])
