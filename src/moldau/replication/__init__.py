"""Replication: in-sync replicas, high watermarks and the requests that wait for them."""

from moldau.replication.isr import FollowerFetches
from moldau.replication.isr_changes import IsrChanges
from moldau.replication.manager import ReplicaManager
from moldau.replication.parked import ParkedFetch, ParkedProduce, commit_error
from moldau.replication.partition import Partition, PartitionRead
from moldau.replication.ports import LeaderPorts

__all__ = [
    "FollowerFetches",
    "IsrChanges",
    "LeaderPorts",
    "ParkedFetch",
    "ParkedProduce",
    "Partition",
    "PartitionRead",
    "ReplicaManager",
    "commit_error",
]
